#!/usr/bin/env bash
# Runs everything: format, lints, documentation, unit tests, tests on the kernel in private namespaces,
# and the black-box conformance tests against the static binary. Installs what is missing.
#
#   scripts/test.sh               all of it; needs root
#   CNI_REFERENCE_DIR=DIR scripts/test.sh    also compares with the plugins in DIR
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0" && exit 0 ;; esac
need_root "the test suite"
cd "$TOP"

say "what the tests need"
need_rust
for pair in iptables:iptables nft:nftables ip:iproute2 ping:iputils-ping strace:strace \
    shellcheck:shellcheck dbus-daemon:dbus modprobe:kmod; do
    need "${pair%%:*}" "${pair##*:}"
done
# A kernel that filters VLANs on bridges, for those tests alone, where this one does not.
[ "$(uname -m)" != x86_64 ] || need linux.uml user-mode-linux
need_firewalld
[ -x "${CNI_REFERENCE_DIR:-/usr/lib/cni}/bridge" ] || need_package containernetworking-plugins
need_cnitool
cargo fmt --version >/dev/null 2>&1 || need rustfmt rustfmt
cargo clippy --version >/dev/null 2>&1 || need clippy-driver rust-clippy

say "format"
cargo fmt --all --check
say "scripts"
shellcheck -x scripts/*.sh .ci/run conformance/uml/init.sh
say "lints"
cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --locked
say "the binary"
binary=$(build_static)
bin_dir=$TARGET/cni-bin
install_plugins "$binary" "$bin_dir"
say "unit tests, kernel tests, conformance"
CNI_BIN_DIR=$bin_dir cargo test --workspace --locked --no-fail-fast
say "all passed"
