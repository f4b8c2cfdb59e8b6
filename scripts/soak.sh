#!/usr/bin/env bash
# Lets containers come and go for a while, eight at a time, as on a bad day: some ADDs and DELs are killed, some
# namespaces are lost, rules are flushed, firewalld is reloaded, and all is repaired. There are three networks: Nomad's,
# by iptables; one by nftables; and one by firewalld, with the plugin tuning. One container of each lives all the
# time. After each minute the host must be as it was at the start, and memory, files and rules are told.
# Installs what is missing, and runs everything in network namespaces of its own.
#
#   scripts/soak.sh [MINUTES] [BIN_DIR]    one minute unless given; BIN_DIR has the plugins, or else they are built
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

WORKERS=8
NETWORKS=(nomad sets zone)

prepare() {
    need_root "the soak test"
    need ip iproute2
    need iptables iptables
    need nft nftables
    need ping iputils-ping
    need python3 python3
    need unshare util-linux
    need /usr/bin/time time
    need dbus-daemon dbus
    need_firewalld
    need_cnitool
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    if [ -n "$bin_dir" ]; then
        [ -x "$bin_dir/bridge" ] || die "$bin_dir has no plugins"
        cp -a "$bin_dir" "$work/bin"
    else
        need_rust
        say "building"
        binary=$(build_static)
        install_plugins "$binary" "$work/bin"
    fi
    install_measured
    unshare --net --mount --propagation private bash "$0" --inside "$minutes" "$work"
}

# The same plugins, each behind a script that writes down how much memory the call needs. The IPAM plugin is called
# by bridge inside its process.
install_measured() {
    local name
    mkdir "$work/measured"
    for name in "${PLUGINS[@]}"; do
        cat >"$work/measured/$name" <<SCRIPT
#!/bin/sh
exec /usr/bin/time --quiet --append --output "$work/memory" --format %M "$work/bin/$name"
SCRIPT
        chmod 0755 "$work/measured/$name"
    done
    ln -f "$work/bin/host-local" "$work/measured/host-local"
}

# Two more networks, and Nomad's own.
write_networks() {
    nomad_conflist >"$work/conf/nomad.conflist"
    cat >"$work/conf/sets.conflist" <<'CONFLIST'
{"cniVersion":"1.0.0","name":"sets","plugins":[
 {"type":"bridge","bridge":"sets0","ipMasq":true,"ipMasqBackend":"nftables","isGateway":true,"hairpinMode":true,"macspoofchk":true,
  "ipam":{"type":"host-local","ranges":[[{"subnet":"10.90.0.0/22"}],[{"subnet":"fd00:90::/64"}]],
          "routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}},
 {"type":"firewall","backend":"nftables"},
 {"type":"portmap","backend":"nftables","capabilities":{"portMappings":true},"snat":true}]}
CONFLIST
    cat >"$work/conf/zone.conflist" <<'CONFLIST'
{"cniVersion":"1.0.0","name":"zone","plugins":[
 {"type":"bridge","bridge":"zone0","ipMasq":true,"isGateway":true,
  "ipam":{"type":"host-local","ranges":[[{"subnet":"10.91.0.0/22"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"tuning","sysctl":{"net.core.somaxconn":"500"},"mtu":1400,"txQLen":500},
 {"type":"firewall","backend":"firewalld"},
 {"type":"portmap","backend":"iptables","capabilities":{"portMappings":true},"snat":true}]}
CONFLIST
}

# A bus and a firewalld of our own, which end with this script.
start_firewalld() {
    mkdir -p "$work/firewalld"
    printf 'DefaultZone=public\nFirewallBackend=nftables\nIPv6_rpfilter=no\nCleanupModulesOnExit=no\n' \
        >"$work/firewalld/firewalld.conf"
    cat >"$work/bus.conf" <<BUS
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><listen>unix:path=$work/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow own="*"/><allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
BUS
    export DBUS_SYSTEM_BUS_ADDRESS="unix:path=$work/bus"
    setpriv --pdeathsig KILL dbus-daemon --config-file="$work/bus.conf" --nofork --nopidfile --nosyslog >/dev/null 2>&1 &
    DAEMONS+=("$!")
    until firewalld_says getDefaultZone >/dev/null 2>&1; do
        if [ -S "$work/bus" ] && [ "${#DAEMONS[@]}" -eq 1 ]; then
            setpriv --pdeathsig KILL firewalld --nofork --nopid --system-config "$work/firewalld" \
                --log-file "$work/firewalld.log" >/dev/null 2>&1 &
            DAEMONS+=("$!")
        fi
        sleep 0.1
    done
}

# firewalld_says METHOD
firewalld_says() {
    dbus-send --bus="$DBUS_SYSTEM_BUS_ADDRESS" --print-reply=literal --reply-timeout=60000 \
        --dest=org.fedoraproject.FirewallD1 /org/fedoraproject/FirewallD1 "org.fedoraproject.FirewallD1.$1"
}

# problem TEXT FILE: what went wrong, with what was said.
problem() {
    printf 'PROBLEM: %s\n%s\n' "$1" "$(cat "$2")" >>"$work/problems"
}

ports_of() {
    printf '{"portMappings":[{"hostPort":%s,"containerPort":80,"protocol":"tcp"}]}' "$1"
}

# The network of a container: the first word of its name.
network_of() { printf '%s' "${1%%-*}"; }

# cni VERB NAME PORT: every fourth call is measured.
cni() {
    local plugins=$work/bin
    [ $((RANDOM % 4)) -ne 0 ] || plugins=$work/measured
    CNI_PATH=$plugins CAP_ARGS=$(ports_of "$3") cnitool "$1" "$(network_of "$2")" "/run/netns/$2"
}

# killed VERB NAME PORT: with all the plugins that it runs, at some moment.
killed() {
    local delay
    delay=$(printf '0.0%02d' $((RANDOM % 60 + 1)))
    # The inner shell is the one that reports the death.
    (
        CAP_ARGS=$(ports_of "$3")
        export CAP_ARGS
        timeout --signal KILL "$delay" cnitool "$1" "$(network_of "$2")" "/run/netns/$2" || true
    ) >/dev/null 2>&1
}

# What `nft flush ruleset` does, but for firewalld, which would have to be started again.
delete_tables() {
    nft list tables | grep -v ' firewalld$' | sed 's/^/delete /' | nft -f - >"$said" 2>&1 || problem "deletion of tables" "$said"
}

reload_firewalld() { firewalld_says reload >"$said" 2>&1 || problem "reload of firewalld" "$said"; }

# Containers are added and looked at under a shared lock, and rules flushed and repaired under an exclusive one: what is
# flushed during an ADD is missed by a repair before its end.
flush_and_repair() {
    (
        flock -x 9
        case $((RANDOM % 5)) in
        0) iptables -t nat -F && iptables -F ;;
        1) ip6tables -t nat -F && ip6tables -F && iptables -t nat -F ;;
        2) iptables -t nat -F CNI-HOSTPORT-DNAT 2>/dev/null || true ;;
        3) reload_firewalld ;;
        *) delete_tables ;;
        esac
        "$CNI_PATH/cni-plugins" repair >"$said" 2>&1 || problem "repair" "$said"
    ) 9>"$work/rules.lock"
}

add() {
    (
        flock -s 9
        cni add "$1" "$2" >"$said" 2>&1
    ) 9>"$work/rules.lock"
}

look() {
    (
        flock -s 9
        cni check "$1" "$2" >"$said" 2>&1 || problem "CHECK of $1" "$said"
        local address
        for address in $(ip -n "$1" -brief address show dev eth0 scope global | grep -oE '[0-9a-f.:]+/[0-9]+' | cut -d/ -f1); do
            ping -q -n -c 1 -W 2 "$address" >"$said" 2>&1 || problem "ping $1 at $address" "$said"
        done
        if [ $((RANDOM % 4)) -eq 0 ]; then
            reach "$1" "$2" || problem "port $2 of $1" "$said"
        fi
    ) 9>"$work/rules.lock"
}

# One request through the published port, answered by a listener in the container.
reach() {
    local listener result=0
    ip netns exec "$1" python3 -c '
import socket
s = socket.create_server(("", 80)); s.settimeout(5); print("up", flush=True)
c, _ = s.accept(); c.sendall(b"hello"); c.close()' >"$work/up-$1" 2>&1 &
    listener=$!
    for _ in $(seq 100); do
        [ -s "$work/up-$1" ] && break
        sleep 0.02
    done
    timeout 5 bash -c "exec 3<>/dev/tcp/192.0.2.1/$2; read -r -t 4 -n 5 said <&3; [ \"\$said\" = hello ]" >"$said" 2>&1 || result=1
    wait "$listener" || true
    rm -f "$work/up-$1"
    return "$result"
}

# Whether a plugin has given up waiting, as it must after ten seconds: firewalld may take longer for a reload.
is_late() {
    grep -qE 'did not answer within|gave up after' "$said" && head -n 1 "$said" >>"$work/late"
}

# One life. Each runtime repeats a DEL that was not answered, until it succeeds.
life() {
    local name=$1 port=$2
    ip netns add "$name"
    if [ $((RANDOM % 5)) -eq 0 ]; then
        killed add "$name" "$port"
    elif add "$name" "$port"; then
        look "$name" "$port"
        case $((RANDOM % 12)) in
        0) flush_and_repair && look "$name" "$port" ;;
        1 | 2) "$CNI_PATH/cni-plugins" repair >"$said" 2>&1 || problem "repair" "$said" ;;
        *) ;;
        esac
    else
        is_late || problem "ADD of $name" "$said"
    fi
    [ $((RANDOM % 4)) -ne 0 ] || ip netns del "$name"
    [ $((RANDOM % 5)) -ne 0 ] || killed del "$name" "$port"
    until cni del "$name" "$port" >"$said" 2>&1; do
        is_late || {
            problem "DEL of $name" "$said"
            break
        }
    done
    ip netns del "$name" 2>/dev/null || true
    echo "$name" >>"$work/lives"
}

worker() {
    local number=$1 until=$2 count=0
    said=$work/said-$number
    while [ "$(date +%s)" -lt "$until" ]; do
        count=$((count + 1))
        life "${NETWORKS[count % ${#NETWORKS[@]}]}-m$minute-w$number-$count" $((20000 + number * 1000 + count % 1000))
    done
}

# What stands on the host: a line for each thing that a container could leave, or take along.
traces() {
    ip -brief link show | grep -v outside | awk '{ print "link", $1 }'
    ip -brief address show | grep -v '^outside\|^veth' | awk '{ for (i = 3; i <= NF; i++) if ($i !~ /^fe80/) print "address", $1, $i }'
    ip route show && ip -6 route show | grep -v fe80 | sed 's/ linkdown//; s/^/route /'
    { iptables-save && ip6tables-save; } | grep -v '^#' | sed 's/\[[0-9:]*\]//'
    nft --stateless list ruleset 2>/dev/null | tables_but_those_of_iptables
    find /run/cni /var/lib/cni -type f ! -name 'last_reserved_ip*' ! -name '*.lock' ! -name lock ! -name stamp 2>/dev/null
    ip neigh show | grep PERMANENT || true
    sysctl -a --pattern 'forwarding$|route_localnet$' 2>/dev/null | grep -v '\.veth'
}

# firewalld gives chains and sets other names and orders after a reload, so its lines are counted elsewhere.
tables_but_those_of_iptables() {
    awk '$1 == "table" { kept = $3 !~ /^(nat|filter|mangle|raw|security|firewalld)$/; table = $2 " " $3 } kept { print "nft", table, $0 }'
}

# The sources of zones, which firewalld has been told by us.
sources() {
    dbus-send --bus="$DBUS_SYSTEM_BUS_ADDRESS" --print-reply=literal --dest=org.fedoraproject.FirewallD1 \
        /org/fedoraproject/FirewallD1 org.fedoraproject.FirewallD1.zone.getSources string:trusted | grep -oE '[0-9a-f.:]+/[0-9]+' | sed 's/^/source /'
}

files_below() { find "$@" -type f 2>/dev/null | wc -l; }

# How many rules each table has, without those of firewalld itself.
count_rules() {
    local program
    for program in iptables ip6tables; do
        "$program-save" | awk -v program="$program" '/^\*/ { table = substr($0, 2) } /^-A/ { rules[table]++ }
            END { for (table in rules) printf "%s %s %d, ", program, table, rules[table] }'
    done
    nft --stateless list ruleset 2>/dev/null | awk '$1 == "table" { table = $2 " " $3; next }
        /[a-z0-9]/ && !/[{]$/ && !/^\t\ttype / && table !~ / (nat|filter|mangle|raw|security|firewalld)$/ { lines[table]++ }
        END { for (table in lines) printf "%s %d, ", table, lines[table] }'
}

netfilter_sockets() { awk '$2 == 12' /proc/net/netlink | wc -l; }

tell() {
    say "minute $1: $(wc -l <"$work/lives") containers, $(wc -l <"$work/differences") differences from the start," \
        "$(wc -l <"$work/late") calls repeated since somebody did not answer"
    say "  a plugin's memory: $(sort -n "$work/memory" | tail -n 1) KiB at most, of $(wc -l <"$work/memory") calls"
    say "  files: $(files_below /run/cni) below /run/cni, $(files_below /var/lib/cni) below /var/lib/cni," \
        "$(files_below /run/cni/nomad /var/lib/cni/networks) of leases"
    say "  rules: $(count_rules)$(netfilter_sockets) netfilter sockets ($sockets at the start)," \
        "$(cat /proc/sys/net/netfilter/nf_conntrack_count) tracked connections"
}

# One container of each network lives all the time.
add_residents() {
    local network
    for network in "${NETWORKS[@]}"; do
        for name in "$network-resident" "$network-first"; do
            ip netns add "$name"
            cni add "$name" "$(port_of_resident "$name")" >"$said" 2>&1 || die "ADD of $name: $(cat "$said")"
        done
        cni del "$network-first" 19999 >"$said" 2>&1 || die "DEL of $network-first: $(cat "$said")"
        ip netns del "$network-first"
    done
}

port_of_resident() {
    case "$1" in
    nomad-resident) echo 19001 ;;
    sets-resident) echo 19002 ;;
    zone-resident) echo 19003 ;;
    *) echo 19999 ;;
    esac
}

look_at_residents() {
    local network name
    for network in "${NETWORKS[@]}"; do
        name=$network-resident
        look "$name" "$(port_of_resident "$name")"
        reach "$name" "$(port_of_resident "$name")" || problem "port of $name" "$said"
    done
}

inside() {
    minutes=$1 work=$2
    DAEMONS=()
    need_cnitool
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /var/lib
    mkdir -p /run/netns "$work/conf"
    write_networks
    export NETCONFPATH="$work/conf" CNI_PATH="$work/bin"
    said=$work/said
    : >"$work/problems"
    : >"$work/lives"
    : >"$work/memory"
    : >"$work/late"
    ip link set lo up
    ip link add outside0 type veth peer name outside1
    ip address add 192.0.2.1/24 dev outside0
    ip link set outside0 up
    ip link set outside1 up
    start_firewalld
    trap 'kill "${DAEMONS[@]}"' EXIT
    add_residents
    { traces && sources; } | sort >"$work/before"
    sockets=$(netfilter_sockets)
    for minute in $(seq "$minutes"); do
        until=$(($(date +%s) + 60))
        workers=()
        for number in $(seq "$WORKERS"); do
            worker "$number" "$until" &
            workers+=("$!")
        done
        wait "${workers[@]}"
        look_at_residents
        { traces && sources; } | sort >"$work/after"
        diff "$work/before" "$work/after" | grep '^[<>]' >"$work/differences" || true
        tell "$minute"
        [ ! -s "$work/differences" ] || problem "not as at the start after minute $minute" "$work/differences"
    done
    if [ -s "$work/problems" ]; then
        cat "$work/problems"
        die "$(grep -c '^PROBLEM' "$work/problems") problems"
    fi
    say "no problem"
}

case "${1:-}" in
--inside) inside "$2" "$3" ;;
-h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0" ;;
*)
    minutes=${1:-1} bin_dir=${2:-}
    [[ $minutes =~ ^[1-9][0-9]*$ ]] || die "MINUTES is a number: $minutes"
    prepare
    ;;
esac
