#!/usr/bin/env bash
# Compares the speed of the plugins with that of others, turn by turn in one run, in namespaces of its own.
#
#   scripts/bench.sh [--quick] [--tool] [--many] [--others N] [REFERENCE_DIR]
#
#   --quick           in less than two minutes, once all is built: beside 0 and 100 containers instead of 0, 300 and 1000
#   --tool            the administrator's tool alone: its verbs beside 1500 containers, and then with 300 dead ones
#   --many            many containers at once, beside 0 and 1000 others: how many a second
#   --others N        with --tool or --many: beside N others
#   REFERENCE_DIR     /usr/lib/cni unless given
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

reference='' options=()
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --quick | --tool | --many) options+=("$1") ;;
    --others) options+=("$1" "${2:?--others needs a number}") && shift ;;
    -*) die "unknown option $1; see $0 --help" ;;
    *) reference=$1 ;;
    esac
    shift
done
need_root "the comparison"
need_rust
need iptables iptables
need ip iproute2
need strace strace
if [ -z "$reference" ]; then
    reference=/usr/lib/cni
    [ -x "$reference/bridge" ] || need_package containernetworking-plugins
fi
[ -x "$reference/bridge" ] || die "$reference has no plugins to compare with"
binary=$(build_static)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_plugins "$binary" "$work"
say "building the measurement (a minute or two; seconds when nothing has changed)"
(cd "$TOP" && cargo build --quiet --release --locked --package cni-bench --bin bench)
say "ours against $reference ($(CNI_COMMAND='' "$reference/bridge" 2>&1 | head -n 1))"
CNI_BIN_DIR=$work "$TARGET/release/bench" "$work" "$reference" "${options[@]}"
