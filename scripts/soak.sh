#!/usr/bin/env bash
# The soak test: eight workers add and delete containers in networks of all plugins that this kernel supports, while plugins are
# killed, rules flushed, namespaces removed and their names used again, interfaces renamed, and `gc --remove` and `repair` run all
# the time. After each minute every living container must be unharmed, and nothing may be left of the others.
# Installs missing programs. Everything happens in private namespaces; conformance/bench/src/bin/soak/main.rs has the details.
#
#   scripts/soak.sh [MINUTES] [BIN_DIR] [OPTION...]
#                     one minute by default; BIN_DIR has the plugins, which are built if it is not given
#   --reference       calls the reference's plugins too in every second minute: Debian's, or those of CNI_REFERENCE_DIR
#   --seed N          repeats the steps of an earlier run, which printed this seed
#   --without JOB     leaves out gc, repair, or user (which holds the networks' addresses in another namespace)
#   SOAK=PROGRAM      does not build the program
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

install_tools() {
    need ip iproute2
    need iptables iptables
    need nft nftables
    need ping iputils-ping
    need setpriv util-linux
    need dnsmasq dnsmasq-base
    need_rust
}

soak() {
    local minutes=$1 bin_dir=$2 work binary
    shift 2
    install_tools
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder is known now
    trap "rm -rf '$work'" EXIT
    if [ -n "$bin_dir" ]; then
        [ -x "$bin_dir/bridge" ] || die "$bin_dir has no plugins"
        cp -a "$bin_dir" "$work/bin"
    else
        binary=$(build_static)
        install_plugins "$binary" "$work/bin"
    fi
    if [ -z "${SOAK:-}" ]; then
        say "building the soak test (a minute or two; seconds when nothing has changed)"
        (cd "$TOP" && cargo build --quiet --locked --workspace --bin soak)
    fi
    # The checks of a busy minute take about another.
    timeout --kill-after=10 $((minutes * 240 + 300)) "${SOAK:-$TARGET/debug/soak}" "$minutes" "$work/bin" "$@"
}

minutes=1 bin_dir='' options=()
while [ $# -gt 0 ]; do
    case "$1" in
    -h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --reference) options+=("$1") ;;
    --seed | --without) options+=("$1" "${2:?$1 needs a value}") && shift ;;
    -*) die "unknown argument: $1" ;;
    *[!0-9]*) bin_dir=$1 ;;
    *) minutes=$1 ;;
    esac
    shift
done
need_root "the soak test"
soak "$minutes" "$bin_dir" "${options[@]}"
