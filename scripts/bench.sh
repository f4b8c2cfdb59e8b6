#!/usr/bin/env bash
# Compares the speed of the plugins with that of others, turn by turn in one run, in namespaces of its own.
#
#   scripts/bench.sh [REFERENCE_DIR]     REFERENCE_DIR is /usr/lib/cni unless given
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help) sed -n '2,4s/^# \{0,1\}//p' "$0" && exit 0 ;; esac
reference=${1:-/usr/lib/cni}
need_root "the comparison"
need_rust
need iptables iptables
need ip iproute2
if [ ! -x "$reference/bridge" ] && [ $# -eq 0 ]; then
    need_package containernetworking-plugins
fi
[ -x "$reference/bridge" ] || die "$reference has no plugins to compare with"
say "building"
binary=$(build_static)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
install_plugins "$binary" "$work"
(cd "$TOP" && cargo build --quiet --release --locked --package cni-conformance --bin bench)
say "ours against $reference ($(CNI_COMMAND='' "$reference/bridge" 2>&1 | head -n 1))"
CNI_BIN_DIR=$work "$TARGET/release/bench" "$work" "$reference"
