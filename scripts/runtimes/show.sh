#!/usr/bin/env bash
# Runs on the private machine that machine.sh has made: a host with an uplink, and one runtime on it.
# Each thing that was seen is a line `shown: ...`; the first that is otherwise is a line `wrong: ...`, and the end.
set -eEuo pipefail
# shellcheck source=scripts/runtimes/machine_state.sh
. /scripts/runtimes/machine_state.sh

export PATH=/stage/tools:/stage/packages/usr/bin:/stage/packages/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LD_LIBRARY_PATH=$(echo /stage/packages/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH
BUSYBOX=/stage/packages/bin/busybox

shown() { printf 'shown: %s\n' "$*"; }
wrong() {
    printf 'wrong: %s\n' "$*"
    exit 1
}

# until_true TENTHS COMMAND...: waits at most so many tenths of a second for a command to succeed.
until_true() {
    local tenths=$1
    shift
    until "$@" >/dev/null 2>&1; do
        tenths=$((tenths - 1))
        [ "$tenths" -gt 0 ] || return 1
        sleep 0.1
    done
}

# An uplink to a host outside, which knows no way to the containers' networks; a host that forwards nothing by itself.
make_uplink() {
    ip link set lo up
    ip netns add outside
    ip link add uplink type veth peer name eth0 netns outside
    ip address add 192.0.2.1/24 dev uplink
    ip address add 2001:db8::1/64 dev uplink nodad
    ip link set uplink up
    ip -n outside address add 192.0.2.2/24 dev eth0
    ip -n outside address add 2001:db8::2/64 dev eth0 nodad
    ip -n outside link set eth0 up
    ip route add default via 192.0.2.2
    ip -6 route add default via 2001:db8::2
}

# make_rootfs DIR: busybox under all its names, and a page to be served that says what it is.
make_rootfs() {
    mkdir -p "$1"/{bin,proc,sys,dev,tmp,etc,www}
    cp "$BUSYBOX" "$1/bin/busybox"
    chroot "$1" /bin/busybox --install -s /bin
    echo "hello from a container" >"$1/www/index.html"
}

# answers ADDRESS:PORT [NAMESPACE]: whether a container's page comes back.
answers() {
    local from=()
    [ $# -eq 1 ] || from=(ip netns exec "$2")
    [ "$("${from[@]}" "$BUSYBOX" timeout 3 "$BUSYBOX" wget -q -O - "http://$1/" 2>/dev/null)" = "hello from a container" ]
}

# expect_answer WHAT ADDRESS:PORT [NAMESPACE]
expect_answer() {
    local what=$1
    shift
    until_true 50 answers "$@" || wrong "$what: no answer from $1"
    shown "$what: answered from $1"
}

expect_silence() {
    local what=$1
    shift
    ! answers "$@" || wrong "$what: $1 still answers"
    shown "$what: $1 is silent"
}

# expect WHAT COMMAND...: a command that finds something wrong itself says it first.
expect() {
    local what=$1
    shift
    ("$@") >/tmp/said 2>&1 || { cat /tmp/said && wrong "$what: $*"; }
    shown "$what"
}

main() {
    make_uplink
    make_rootfs /rootfs
    # shellcheck source=/dev/null
    . "/scripts/runtimes/$1.sh"
    "show_$1"
}

trap 'echo "wrong: stopped by line $LINENO of ${BASH_SOURCE[0]}: $BASH_COMMAND" >&2' ERR
main "$1"
