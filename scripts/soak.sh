#!/usr/bin/env bash
# Attacks the plugins for a while: eight workers add and delete containers in networks of all plugins that this kernel has, while
# plugins are killed, rules flushed, namespaces lost and used again, interfaces renamed, and `gc --remove` and `repair` run all
# the time. After each minute nobody who lives may have lost anything, and nothing may be left of the others.
# Installs what is missing. It all happens in a private host; conformance/bench/src/bin/soak says what is done and what is checked.
#
#   scripts/soak.sh [MINUTES] [BIN_DIR] [OPTION...]
#                     one minute unless given; BIN_DIR has the plugins, or else they are built
#   --reference       in every second minute the reference's plugins take part: Debian's, or those of CNI_REFERENCE_DIR
#   --seed N          the choices of an earlier run, which has printed it
#   --without WHO     leaves out gc, repair, or user (who holds the networks' addresses elsewhere)
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

attack() {
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
    say "building the attack (a minute or two; seconds when nothing has changed)"
    (cd "$TOP" && cargo build --quiet --locked --workspace --bin soak)
    # The checks of a busy minute take about another.
    timeout --kill-after=10 $((minutes * 240 + 300)) "$TARGET/debug/soak" "$minutes" "$work/bin" "$@"
}

minutes=1 bin_dir='' options=()
while [ $# -gt 0 ]; do
    case "$1" in
    -h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --reference) options+=("$1") ;;
    --seed | --without) options+=("$1" "${2:?$1 needs a value}") && shift ;;
    -*) die "unknown argument: $1" ;;
    *[!0-9]*) bin_dir=$1 ;;
    *) minutes=$1 ;;
    esac
    shift
done
need_root "the soak test"
attack "$minutes" "$bin_dir" "${options[@]}"
