#!/usr/bin/env bash
# Shows the plugins at work: two containers on Nomad's bridge network, made by the reference runtime.
# Installs what is missing, builds the plugins, and runs everything in network namespaces of its own;
# the machine is left as it was.
#
#   scripts/demo.sh               needs root
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

prepare() {
    need_root "the demonstration"
    need_rust
    need ip iproute2
    need iptables iptables
    need ping iputils-ping
    need curl curl
    need python3 python3
    need unshare util-linux
    need_cnitool
    binary=$(build_static)
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    say "installing into $work/bin"
    install_plugins "$binary" "$work/bin"
    say "entering network namespaces of the demonstration's own"
    unshare --net --mount --propagation private bash "$0" --inside "$work"
    say "done: every namespace, link, rule and lease of the demonstration is gone"
}

title() { printf '\n--- %s\n' "$*"; }

# cni VERB CONTAINER: what the runtime does, with the port of the container.
cni() {
    local mappings='[]'
    if [ "$2" = web ]; then
        mappings='[{"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":""}]'
    fi
    CAP_ARGS="{\"portMappings\":$mappings}" \
        CNI_ARGS="IgnoreUnknown=true;NOMAD_ALLOC_ID=$2" cnitool "$1" nomad "/run/netns/$2"
}

addresses() { ip -n "$1" -brief address show dev eth0 scope global; }

# The IPv4 rules; those of IPv6 are the same with other addresses.
rules() {
    iptables -t nat -S | grep -v '^-[PN]' | sed 's/^/nat    /'
    iptables -t filter -S | grep -v '^-[PN]' | sed 's/^/filter /'
    printf '       ... and %s rules of ip6tables alike\n' "$( (ip6tables -t nat -S && ip6tables -t filter -S) | grep -c '^-A')"
}

# Everything that containers leave on a host, to be compared before and after.
traces() {
    ip -brief link show type veth | grep -v outside || true
    { iptables-save && ip6tables-save; } | grep -E 'id:|172\.26\.64\.[0-9]+/32|fd00:a110:c8::[0-9a-f]+/128' || true
    find /run/cni/nomad -type f -name '*[.:]*' ! -name 'last_reserved_ip*' 2>/dev/null || true
}

await_port() {
    local tries=0
    until ip netns exec "$1" bash -c ': </dev/tcp/127.0.0.1/80' 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || die "the web server did not start: $(cat "$work/httpd.log")"
        sleep 0.05
    done
}

inside() {
    work=$1
    need_cnitool
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /var/lib
    mkdir -p /run/netns "$work/conf"
    nomad_conflist >"$work/conf/nomad.conflist"
    export NETCONFPATH="$work/conf" CNI_PATH="$work/bin"
    ip link set lo up

    title "the plugins: one file, $(stat -c %s "$work/bin/bridge" | numfmt --to=iec), $(stat -c %h "$work/bin/bridge") names"
    CNI_COMMAND='' "$work/bin/bridge" 2>&1

    # A host outside, which knows no way to the containers' networks.
    ip netns add outside
    ip link add outside0 type veth peer name eth0 netns outside
    ip address add 192.0.2.1/24 dev outside0
    ip link set outside0 up
    ip -n outside address add 192.0.2.2/24 dev eth0
    ip -n outside link set eth0 up
    # Nomad's own part: an accept-list for its network, on a host that forwards nothing by itself.
    iptables -P FORWARD DROP
    iptables -N NOMAD-ADMIN
    iptables -A NOMAD-ADMIN -o nomad -d 172.26.64.0/20 -j ACCEPT
    traces >"$work/before"

    title "ADD: two containers"
    ip netns add web
    ip netns add peer
    cni add web >"$work/web.json"
    cni add peer >"$work/peer.json"
    for container in web peer; do printf '%-5s' "$container" && addresses "$container"; done
    ip netns exec web python3 -m http.server --directory "$work/conf" 80 >"$work/httpd.log" 2>&1 &
    server=$!
    trap 'kill "$server" 2>/dev/null || true' EXIT
    await_port web

    title "container to container, to its gateway, and to a host outside (masqueraded)"
    web4=$(ip -n web -4 -brief address show dev eth0 | grep -oE '172\.26\.[0-9.]+')
    for target in "$web4" 172.26.64.1 fd00:a110:c8::1 192.0.2.2; do
        ip netns exec peer ping -q -n -c 1 -W 2 "$target" | grep -E 'transmitted|rtt' | paste -sd' ' | sed "s/^/peer -> $target: /"
    done

    title "a request through the published port 8080"
    request=(curl -sS -o /dev/null -m 3 -w '%{http_code}')
    echo "outside -> http://192.0.2.1:8080   $(ip netns exec outside "${request[@]}" http://192.0.2.1:8080/)"
    echo "host    -> http://127.0.0.1:8080   $("${request[@]}" http://127.0.0.1:8080/)"
    echo "peer    -> http://192.0.2.1:8080   $(ip netns exec peer "${request[@]}" http://192.0.2.1:8080/)"
    echo "web     -> http://192.0.2.1:8080   $(ip netns exec web "${request[@]}" http://192.0.2.1:8080/)"

    title "the rules"
    rules

    title "CHECK"
    for container in web peer; do cni check "$container" && echo "$container: ok"; done

    title "DEL, twice"
    kill "$server"
    wait "$server" 2>/dev/null || true
    trap - EXIT
    for container in web peer web peer; do cni del "$container" && echo "$container: ok"; done
    traces >"$work/after"
    diff "$work/before" "$work/after" && echo "no veth, no rule and no lease of the two containers is left"
}

case "${1:-}" in
-h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0" ;;
--inside) inside "$2" ;;
'') prepare ;;
*) die "unknown argument: $1" ;;
esac
