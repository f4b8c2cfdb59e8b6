#!/usr/bin/env bash
# Lets containers come and go for a while, eight at a time, as on a bad day: some ADDs and DELs are killed, some
# namespaces are lost, rules are flushed and repaired. After each minute nothing may be left of them.
# Installs what is missing, and runs everything in network namespaces of its own.
#
#   scripts/soak.sh [MINUTES] [BIN_DIR]    one minute unless given; BIN_DIR has the plugins, or else they are built
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

WORKERS=8

prepare() {
    need_root "the soak test"
    need ip iproute2
    need iptables iptables
    need ping iputils-ping
    need python3 python3
    need unshare util-linux
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
    unshare --net --mount --propagation private bash "$0" --inside "$minutes" "$work"
}

# problem TEXT FILE: what went wrong, with what was said.
problem() {
    printf 'PROBLEM: %s\n%s\n' "$1" "$(cat "$2")" >>"$work/problems"
}

# cni VERB NAME PORT
cni() {
    CAP_ARGS="{\"portMappings\":[{\"hostPort\":$3,\"containerPort\":80,\"protocol\":\"tcp\"}]}" \
        cnitool "$1" nomad "/run/netns/$2"
}

# killed VERB NAME PORT: with all the plugins that it runs, at some moment.
killed() {
    local delay
    delay=$(printf '0.0%02d' $((RANDOM % 60 + 1)))
    # The inner shell is the one that reports the death.
    (
        export CAP_ARGS="{\"portMappings\":[{\"hostPort\":$3,\"containerPort\":80,\"protocol\":\"tcp\"}]}"
        timeout --signal KILL "$delay" cnitool "$1" nomad "/run/netns/$2" || true
    ) >/dev/null 2>&1
}

# Containers are added and looked at under a shared lock, and rules flushed and repaired under an exclusive one: what is
# flushed during an ADD is missed by a repair before its end.
flush_and_repair() {
    (
        flock -x 9
        if [ $((RANDOM % 2)) -eq 0 ]; then
            iptables -t nat -F && iptables -F
        else
            iptables -t nat -F CNI-HOSTPORT-DNAT 2>/dev/null || true
        fi
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
        address=$(ip -n "$1" -4 -brief address show dev eth0 | grep -oE '172\.26\.[0-9.]+')
        ping -q -n -c 1 -W 2 "$address" >"$said" 2>&1 || problem "ping $1 at $address" "$said"
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
        problem "ADD of $name" "$said"
    fi
    [ $((RANDOM % 4)) -ne 0 ] || ip netns del "$name"
    [ $((RANDOM % 5)) -ne 0 ] || killed del "$name" "$port"
    cni del "$name" "$port" >"$said" 2>&1 || problem "DEL of $name" "$said"
    ip netns del "$name" 2>/dev/null || true
    echo "$name" >>"$work/lives"
}

worker() {
    local number=$1 until=$2 count=0
    said=$work/said-$number
    while [ "$(date +%s)" -lt "$until" ]; do
        count=$((count + 1))
        life "m$minute-w$number-$count" $((20000 + number * 1000 + count % 1000))
    done
}

# Everything of which containers leave something: a line for each.
traces() {
    ip -brief link show type veth | grep -v outside || true
    { iptables-save && ip6tables-save; } | grep -v '^#' | sed 's/\[[0-9:]*\]//' | sort
    find /run/cni /var/lib/cni/results -type f ! -name 'last_reserved_ip*' ! -name '*.lock' ! -name lock ! -path '*/.index/*' 2>/dev/null | sort
    ip neigh show dev nomad 2>/dev/null | grep PERMANENT || true
}

inside() {
    minutes=$1 work=$2
    need_cnitool
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /var/lib
    mkdir -p /run/netns "$work/conf"
    nomad_conflist >"$work/conf/nomad.conflist"
    export NETCONFPATH="$work/conf" CNI_PATH="$work/bin"
    said=$work/said
    : >"$work/problems"
    : >"$work/lives"
    ip link set lo up
    ip link add outside0 type veth peer name outside1
    ip address add 192.0.2.1/24 dev outside0
    ip link set outside0 up
    ip link set outside1 up
    # What all containers share is made by the first.
    ip netns add first
    cni add first 19999 >/dev/null
    cni del first 19999
    ip netns del first
    traces >"$work/before"
    for minute in $(seq "$minutes"); do
        until=$(($(date +%s) + 60))
        for number in $(seq "$WORKERS"); do
            worker "$number" "$until" &
        done
        wait
        traces | comm -13 "$work/before" - >"$work/left" || true
        say "minute $minute: $(wc -l <"$work/lives") containers, $(wc -l <"$work/left") traces left, $(iptables-save | wc -l) rules, $(awk '$2 == 12' /proc/net/netlink | wc -l) netfilter sockets"
        [ ! -s "$work/left" ] || problem "left after minute $minute" "$work/left"
    done
    if [ -s "$work/problems" ]; then
        cat "$work/problems"
        die "$(grep -c '^PROBLEM' "$work/problems") problems"
    fi
    say "no problem"
}

case "${1:-}" in
--inside) inside "$2" "$3" ;;
-h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0" ;;
*)
    minutes=${1:-1} bin_dir=${2:-}
    [[ $minutes =~ ^[1-9][0-9]*$ ]] || die "MINUTES is a number: $minutes"
    prepare
    ;;
esac
