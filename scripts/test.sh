#!/usr/bin/env bash
# Tests the plugins. Whole: format, scripts, lints, documentation, licences and versions of crates, unit tests, tests on the
# kernel in private namespaces, black-box tests of the static binary, a minute of the soak test, real runtimes, and some
# thousand inputs of each fuzz target; needs root, and installs what is missing.
# Quick: what needs neither root nor any package but Rust, in under a minute once built.
#
#   scripts/test.sh               all of it
#   scripts/test.sh --quick       format, scripts, lints, documentation, unit tests, pages, import cycles
#   scripts/test.sh --crates      licences, versions and origin of the crates
#   scripts/test.sh --oldest-rust     whether the oldest supported Rust compiles everything; needs rustup
#   CNI_REFERENCE_DIR=DIR scripts/test.sh    also compares with the plugins in DIR
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# Checks format, lints and documentation.
check_sources() {
    say "format"
    cargo fmt --all --check
    say "lints"
    cargo clippy --quiet --workspace --all-targets --locked -- -D warnings
    say "documentation"
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --locked
}

check_scripts() {
    say "scripts"
    if command -v actionlint >/dev/null 2>&1; then actionlint; else say "workflows: not checked, actionlint is missing"; fi
    shellcheck -x scripts/*.sh scripts/runtimes/*.sh .ci/run conformance/uml/init.sh conformance/guest/init.sh
}

# Checks licences, versions and origin of the dependencies. deny.toml says why it does not check advisories.
check_crates() {
    say "crates"
    cargo deny --version >/dev/null 2>&1 || {
        say "installing cargo-deny (cargo install)"
        # Not optimised: it runs for a second, and takes minutes less to build.
        cargo install --quiet --locked --debug cargo-deny
    }
    cargo deny --locked --log-level warn check bans licenses sources
}

check_oldest_rust() {
    local oldest
    oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    say "Rust $oldest"
    rustup toolchain install --profile minimal "$oldest" >&2
    cargo "+$oldest" check --quiet --workspace --all-targets --locked
}

quick() {
    need_rust
    check_sources
    if command -v shellcheck >/dev/null 2>&1; then check_scripts; else say "scripts: not checked, shellcheck is missing"; fi
    say "unit tests, pages, import cycles"
    # Tests that only root can set up are in modules of this name; the whole test runs them.
    cargo test --quiet --workspace --locked --lib --bins --no-fail-fast -- --skip as_root
    cargo test --quiet --package cni-netfilter --package cni-plugin --locked --test rules --test call
    cargo test --quiet --package cni-plugin --package cni-interface --locked --doc
    cargo test --quiet --package cni-repo --locked --test repo -- --skip packages
    say "the quick tests passed"
}

install_tools() {
    say "what the tests need"
    need_rust
    local pair
    for pair in iptables:iptables nft:nftables ip:iproute2 ping:iputils-ping python3:python3 strace:strace \
        shellcheck:shellcheck dbus-daemon:dbus modprobe:kmod jq:jq xz:xz-utils strip:binutils \
        c++:g++ zsh:zsh fish:fish groff:groff-base nsenter:util-linux dnsmasq:dnsmasq-base \
        rpm:rpm pacman:pacman-package-manager zstd:zstd systemd-analyze:systemd; do
        need "${pair%%:*}" "${pair##*:}"
    done
    # A kernel with VLAN filtering on bridges, if this one has none.
    [ "$(uname -m)" != x86_64 ] || need linux.uml user-mode-linux
    # Virtual machines, with a kernel that is not installed.
    need qemu-system-x86_64 qemu-system-x86
    { command -v busybox && ! ldd "$(command -v busybox)"; } >/dev/null 2>&1 || need_package busybox-static
    "$TOP/scripts/guest-kernel.sh"
    need_firewalld
    # It is in /usr/sbin, and its package would start a service that waits for a configuration.
    [ -x /usr/sbin/dhcpd ] || need_package isc-dhcp-server
    need_promtool
    python3 -c "import jsonschema" 2>/dev/null || need_package python3-jsonschema
    [ -e /etc/services ] || need_package netbase
    [ -x "${CNI_REFERENCE_DIR:-/usr/lib/cni}/bridge" ] || need_package containernetworking-plugins
    # To read the manifests in the pages.
    /usr/bin/python3 -c 'import yaml' 2>/dev/null || need_package python3-yaml
    /usr/bin/python3 -c 'import hcl' 2>/dev/null || need_package python3-pyhcl
    need_cnitool
    need_nfpm
    need_actionlint
    cargo fmt --version >/dev/null 2>&1 || need rustfmt rustfmt
    cargo clippy --version >/dev/null 2>&1 || need clippy-driver rust-clippy
    # Here, since nothing may be installed beside the tests. build_static says what it does without this library.
    need_standard_library "$(uname -m)-unknown-linux-musl" || true
}

# show_runtimes PLUGINS: shows cnitool and Debian's runtimes, and nerdctl, Nomad, Consul and Firecracker where installed. Returns 3,
# and names the runtime, if one of them is missing.
show_runtimes() {
    local names=(cnitool containerd podman)
    ! command -v nerdctl >/dev/null || names+=(nerdctl)
    ! command -v nomad >/dev/null || names+=(nomad)
    ! { command -v nomad && command -v consul; } >/dev/null || names+=(consul)
    ! command -v firecracker >/dev/null || names+=(firecracker)
    "$TOP/scripts/runtimes.sh" --plugins "$1" "${names[@]}"
}

# beside NAME COMMAND...: runs a command in the background, in its own process group, which ends with this script. Its output goes to
# a log.
declare -A BESIDE=()
end_beside() {
    local group
    for group in "${BESIDE[@]}"; do kill -- "-$group" 2>/dev/null || true; done
}
trap end_beside EXIT
beside() {
    local name=$1
    shift
    set -m
    "$@" </dev/null >"$TARGET/$name.log" 2>&1 &
    BESIDE[$name]=$!
    set +m
}

# await NAME: waits for a background command, prints its log, and returns its status.
await() {
    local status=0
    wait "${BESIDE[$1]}" || status=$?
    unset "BESIDE[$1]"
    cat "$TARGET/$1.log"
    return $status
}

# run_program TEST: runs the program of a test of conformance. `cargo test --test` would build its dependencies once more, with other
# features.
run_program() {
    local program
    program=$(jq -r --arg name "$1" 'select(.reason == "compiler-artifact" and .target.name == $name).executable' "$TARGET/tests.json")
    cd "$TOP/conformance"
    "$program"
}

# crates_with_examples: "--package NAME" for each crate whose documentation has examples. For every other crate rustdoc would take a
# second to find none.
crates_with_examples() {
    local manifest
    grep -rlE '^ *//[/!] ```' --include='*.rs' common plugins conformance | cut -d / -f 1-2 | sort -u | while read -r crate; do
        manifest=$crate/Cargo.toml
        printf -- '--package\n%s\n' "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)"
    done
}

# Builds all tests of the workspace, and writes down which program is which.
build_tests() {
    say "unit tests, kernel tests, conformance: the build"
    cargo test --quiet --workspace --locked --no-run --message-format json-render-diagnostics >"$TARGET/tests.json"
}

# run_some THREADS OPTION...: runs tests of the workspace, so many at once for each core.
run_some() {
    local threads=$1
    shift
    RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((threads * $(nproc)))} cargo test --workspace --locked --no-fail-fast "$@"
}

# Runs all tests of the workspace, which build_tests has built. Those on another kernel use one core for minutes, so they run beside the
# others. Those of single plugins wait for the kernel most of their time: more of them run at once, beside the build of the fuzz targets.
run_tests() {
    local kernel=other_kernel rest examples result=0
    mapfile -t examples < <(crates_with_examples)
    mapfile -t rest < <(cargo metadata --no-deps --locked --format-version 1 | jq -r --arg kernel $kernel \
        '.packages[].targets[] | select(.kind == ["test"] and .name != $kernel and .name != "plugins") | "--test", .name')
    say "unit tests, kernel tests, conformance"
    beside $kernel run_program $kernel
    run_some 2 --lib --bins "${rest[@]}" || result=1
    beside fuzz nice -n 19 "$TOP/scripts/fuzz.sh" --build
    run_some 4 --test plugins || result=1
    cargo test "${examples[@]}" --locked --no-fail-fast --doc || result=1
    say "tests on another kernel (in the background)"
    await $kernel || result=1
    await fuzz || result=1
    return $result
}

whole() {
    need_root "the test suite"
    # Tests need no debug information: a panic names its line without it. Nothing is built twice in one run, so nothing is incremental.
    export CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
    # So many faults are tried for each case.
    export CNI_CASE_FAULTS=${CNI_CASE_FAULTS:-2}
    # Some thousand inputs take less time than an optimised build.
    export CARGO_PROFILE_FUZZ_OPT_LEVEL=0
    install_tools
    mkdir -p "$TARGET"
    # The last step of its build, the longest, uses only one core.
    beside binary build_static
    check_sources
    check_scripts
    check_crates
    build_tests
    say "the binary (built in the background)"
    await binary
    local binary bin_dir=$TARGET/cni-bin
    binary=$(build_static)
    install_plugins "$binary" "$bin_dir"
    CNI_BIN_DIR=$bin_dir run_tests
    say "a minute of the soak test, some thousand inputs of each fuzz target, and real runtimes (nerdctl, Nomad, Consul and Firecracker where installed)"
    # The soak test and the runtimes wait for most of their time; the fuzz targets use what is left of the processors.
    beside soak "$TOP/scripts/soak.sh" 1 "$bin_dir"
    beside runtimes show_runtimes "$bin_dir"
    nice -n 19 "$TOP/scripts/fuzz.sh" 0
    local missing='' status=0
    await soak
    await runtimes || status=$?
    [ "$status" -eq 0 ] || [ "$status" -eq 3 ] || return "$status"
    [ "$status" -eq 0 ] || missing=", but not all runtimes could be had: see NOT RUN above"
    say "all passed$missing"
}

cd "$TOP"
case "${1:-}" in
-h | --help) sed -n '2,11s/^# \{0,1\}//p' "$0" ;;
--quick) quick ;;
--crates) need_rust && check_crates ;;
--oldest-rust) check_oldest_rust ;;
'') whole ;;
*) die "unknown argument: $1" ;;
esac
