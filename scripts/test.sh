#!/usr/bin/env bash
# Tests the plugins. Whole: format, scripts, lints, documentation, licences and versions of crates, unit tests, tests on the
# kernel in private namespaces, black-box tests of the static binary, some thousand inputs of each fuzz target, a minute of
# the soak test, and real runtimes; needs root, and installs what is missing.
# Quick: what needs no root; a minute or two, once built.
#
#   scripts/test.sh               all of it
#   scripts/test.sh --quick       format, scripts, lints, documentation, unit tests, examples, pages, crates, import cycles, the cases of Nomad's network
#   scripts/test.sh --differences runs with the reference's plugins the cases that say what these do otherwise: each must fail; some minutes
#   scripts/test.sh --faults [PLUGIN...]  lets each system call of ADD and DEL fail in two cases of each plugin, and kills them there; hours
#   scripts/test.sh --oldest-rust     whether the oldest supported Rust compiles everything; needs rustup
#   CNI_REFERENCE_DIR=DIR scripts/test.sh    also compares with the plugins in DIR
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# With the seconds since the start.
say() { printf '==> %4d s: %s\n' "$SECONDS" "$*" >&2; }

check_format() {
    say "format"
    cargo fmt --all --check
}

# Checks lints and documentation.
check_sources() {
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

check_oldest_rust() {
    local oldest
    oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
    say "Rust $oldest"
    rustup toolchain install --profile minimal "$oldest" >&2
    cargo "+$oldest" check --quiet --workspace --all-targets --locked
}

# Runs the cases that say what the reference does otherwise, with its plugins.
check_differences() {
    need_root "cases"
    install_compilers
    install_tools
    say "differences to ${CNI_REFERENCE_DIR:=/usr/lib/cni}"
    cargo run --quiet --locked --bin cni-conformance -- run --differences --plugins "$CNI_REFERENCE_DIR"
}

# check_faults PLUGIN...: disturbs each system call in two cases of these plugins, by default of all.
check_faults() {
    need_root "cases"
    install_compilers
    install_tools
    local binary plugin name names skips result=0
    export CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0 CNI_CASE_FAULTS=all CNI_BIN_DIR=$TARGET/cni-bin
    binary=$(build_static)
    install_plugins "$binary" "$CNI_BIN_DIR"
    [ $# -gt 0 ] || set -- "${PLUGINS[@]}"
    for plugin; do
        names=() skips=()
        for name in example life add del keys dns again check; do
            # A case that does not restore has no faults.
            [ ! -e "conformance/cases/$plugin/$name.case" ] ||
                grep -q '^# off: restored' "conformance/cases/$plugin/$name.case" || names+=("$plugin/$name")
        done
        [ ${#names[@]} -gt 0 ] || say "NOT RUN: there are no cases of $plugin"
        # A filter is a part of a name: vlan/check is one of macvlan/check.
        for name in "${PLUGINS[@]}"; do [[ $name != ?*"$plugin" ]] || skips+=(--skip "$name/"); done
        for name in "${names[@]:0:2}"; do
            say "every fault of $name"
            cargo test --quiet --package cni-conformance --locked --test cases -- "$name" "${skips[@]}" || result=1
        done
    done
    [ $result -eq 0 ] || die "faults have left something"
    say "no fault has left anything"
}

quick() {
    need_rust
    check_format
    check_sources
    if command -v shellcheck >/dev/null 2>&1; then check_scripts; else say "scripts: not checked, shellcheck is missing"; fi
    say "unit tests, pages, crates, import cycles"
    # Tests that only root can set up are in modules of this name; the whole test runs them.
    cargo test --quiet --workspace --locked --lib --bins --no-fail-fast -- --skip as_root
    cargo test --quiet --package cni-netfilter --package cni-plugin --locked --test rules --test call
    cargo test --quiet --workspace --locked --doc
    cargo test --quiet --package cni-repo --locked --test repo -- --skip packages
    local missing=''
    if command -v nft >/dev/null && command -v iptables >/dev/null && command -v ip >/dev/null && unshare --user --map-root-user --net true 2>/dev/null; then
        say "the cases of Nomad's network, in user namespaces"
        cargo build --quiet --package cni-plugins --locked
        "$TARGET/debug/cni-plugins" install "$TARGET/quick-bin" >/dev/null
        CNI_BIN_DIR=$TARGET/quick-bin cargo test --quiet --package cni-conformance --locked --test cases -- nomad/
    else
        say "NOT RUN: cases, which need iptables, nft, ip, and a kernel that lets users make namespaces"
        missing=", but for the cases"
    fi
    say "the quick tests passed$missing"
}

# What the builds need: nothing of it may change while they run.
install_compilers() {
    need_rust
    cargo fmt --version >/dev/null 2>&1 || need rustfmt rustfmt
    cargo clippy --version >/dev/null 2>&1 || need clippy-driver rust-clippy
    # Here, since nothing may be installed beside the tests. build_static says what it does without this library.
    need_standard_library "$(uname -m)-unknown-linux-musl" || true
}

install_tools() {
    say "what the tests need"
    local pair programs packages=()
    programs=(iptables:iptables nft:nftables ip:iproute2 ping:iputils-ping python3:python3 strace:strace
        shellcheck:shellcheck dbus-daemon:dbus modprobe:kmod jq:jq xz:xz-utils strip:binutils
        zsh:zsh fish:fish groff:groff-base nsenter:util-linux dnsmasq:dnsmasq-base
        rpm:rpm pacman:pacman-package-manager zstd:zstd systemd-analyze:systemd
        qemu-system-x86_64:qemu-system-x86)
    # A kernel with VLAN filtering on bridges, if this one has none.
    [ "$(uname -m)" != x86_64 ] || programs+=(linux.uml:user-mode-linux)
    for pair in "${programs[@]}"; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || packages+=("${pair##*:}")
    done
    { command -v busybox && ! ldd "$(command -v busybox)"; } >/dev/null 2>&1 || packages+=(busybox-static)
    # It is in /usr/sbin, and its package would start a service that waits for a configuration.
    [ -x /usr/sbin/dhcpd ] || packages+=(isc-dhcp-server)
    [ -e /etc/services ] || packages+=(netbase)
    [ -x "${CNI_REFERENCE_DIR:-/usr/lib/cni}/bridge" ] || packages+=(containernetworking-plugins)
    # Modules that validate configurations, and read the manifests in the pages.
    for pair in jsonschema:jsonschema yaml:yaml hcl:pyhcl; do
        /usr/bin/python3 -c "import ${pair%%:*}" 2>/dev/null || packages+=("python3-${pair##*:}")
    done
    # Together: each call of apt-get takes seconds of its own.
    [ ${#packages[@]} -eq 0 ] || need_package "${packages[@]}"
    for pair in "${programs[@]}"; do need "${pair%%:*}" "${pair##*:}"; done
    # A kernel for virtual machines that is not installed.
    "$TOP/scripts/guest-kernel.sh"
    need_firewalld
    need_promtool
    need_cnitool
    need_nfpm
    need_actionlint
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
# a log, and its status to a file: bash forgets the status of a process whose ID was reused.
declare -A BESIDE=()
end_beside() {
    local group
    for group in "${BESIDE[@]}"; do kill -- "-$group" 2>/dev/null || true; done
}
trap end_beside EXIT
beside() {
    local name=$1
    shift
    rm -f "$TARGET/$name.status"
    set -m
    (
        trap 'echo $? >"$TARGET/$name.status"' EXIT
        "$@"
    ) </dev/null >"$TARGET/$name.log" 2>&1 &
    BESIDE[$name]=$!
    set +m
}

# await NAME: waits for a background command, prints its log, and returns its status.
await() {
    wait "${BESIDE[$1]}" 2>/dev/null || true
    unset "BESIDE[$1]"
    cat "$TARGET/$1.log"
    return "$(cat "$TARGET/$1.status" || echo 1)"
}

# run_programs THREADS FILTER: runs the test programs that pass a filter of jq one after the other, by their names, each in the folder
# of its crate, with so many tests at once for each core. cargo would wait for the lints.
run_programs() {
    local threads=$(($1 * $(nproc))) programs folder program result=0
    programs=$(jq -rs "map(select(.reason == \"compiler-artifact\" and .profile.test and .executable) | select($2)) |
        sort_by(.target.name)[] | [.manifest_path, .executable] | @tsv" "$TARGET/tests.json") || return
    [ -n "$programs" ] || { say "no test program passes $2" && return 1; }
    while IFS=$'\t' read -r folder program; do
        folder=${folder%/Cargo.toml}
        printf '%s\n' "Running $program"
        (cd "$folder" && RUST_TEST_THREADS=${RUST_TEST_THREADS:-$threads} CARGO_MANIFEST_DIR=$folder "$program") </dev/null || result=1
    done <<<"$programs"
    return $result
}

# Builds all tests of the workspace, and writes down which program is which. The binary comes first: its last part keeps one processor
# busy alone.
build_tests() {
    renice -n 10 $BASHPID >/dev/null
    cargo test --quiet --workspace --locked --no-run --message-format json-render-diagnostics >"$TARGET/tests.json"
    cargo build --quiet --workspace --locked --bin soak
}

# Checks the sources, and the examples in the documentation of crates, with the processor time that the tests leave.
check_sources_beside() {
    renice -n 19 $BASHPID >/dev/null
    check_sources
    # For the whole workspace: for single crates cargo would build their dependencies a second time.
    cargo test --quiet --workspace --locked --no-fail-fast --doc
}

# The end of the last line, if a runtime is missing.
MISSING=''

# run_tests PLUGINS: runs all tests of the workspace, which build_tests has built, a minute of the soak test, and runtimes. They wait
# for the kernel most of their time, so several programs run at once.
run_tests() {
    local result=0 status=0 long='.target.name == "cases" or .target.name == "plugins"' kernel='.target.name == "other_kernel"'
    say "cases and tests of single plugins, and beside them all others"
    beside other_kernel run_programs 2 "$kernel"
    beside long run_programs 4 "$long"
    beside sources check_sources_beside
    run_programs 2 "$long or $kernel | not" || result=1
    say "a minute of the soak test, and real runtimes (nerdctl, Nomad, Consul and Firecracker where installed)"
    # Cargo would wait for the lints.
    SOAK=$TARGET/debug/soak beside soak "$TOP/scripts/soak.sh" 1 "$1"
    show_runtimes "$1" || status=$?
    case $status in
    0) ;;
    3) MISSING=", but not all runtimes could be had: see NOT RUN above" ;;
    *) result=1 ;;
    esac
    say "the soak test (in the background)"
    await soak || result=1
    say "cases and tests of single plugins (in the background)"
    await long || result=1
    say "tests on another kernel (in the background)"
    await other_kernel || result=1
    say "lints and documentation (in the background)"
    await sources || result=1
    return $result
}

whole() {
    need_root "the test suite"
    # Tests need no debug information: a panic names its line without it. Nothing is built twice in one run, so nothing is incremental.
    export CARGO_PROFILE_DEV_DEBUG=false CARGO_INCREMENTAL=0
    # So many faults are tried for each case.
    export CNI_CASE_FAULTS=${CNI_CASE_FAULTS:-10}
    mkdir -p "$TARGET"
    say "compilers"
    install_compilers
    # While packages are downloaded the processors have nothing else to do.
    beside binary build_static
    beside tests build_tests
    install_tools
    check_format
    check_scripts
    say "the binary (built in the background)"
    await binary
    local binary bin_dir=$TARGET/cni-bin
    binary=$(build_static)
    install_plugins "$binary" "$bin_dir"
    say "unit tests, kernel tests, conformance: the build (in the background)"
    await tests
    CNI_BIN_DIR=$bin_dir run_tests "$bin_dir"
    say "all passed$MISSING"
}

cd "$TOP"
case "${1:-}" in
-h | --help) sed -n '2,12s/^# \{0,1\}//p' "$0" ;;
--quick) quick ;;
--differences) check_differences ;;
--faults) check_faults "${@:2}" ;;
--oldest-rust) check_oldest_rust ;;
'') whole ;;
*) die "unknown argument: $1" ;;
esac
