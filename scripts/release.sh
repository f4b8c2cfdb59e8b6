#!/usr/bin/env bash
# Makes a release: for each processor a tarball laid out like the reference's, packages for Debian, RPM, Alpine and Arch, and a list
# of what the binary is made of; an OCI image for all processors; and the checksums of all. The same commit and compiler give the same
# bytes. Installs what is missing. The binary for aarch64 is made on x86-64, and tried there in an emulator.
#
#   scripts/release.sh [--out DIR] [ARCH...]      ARCH is amd64 or arm64, both unless given; DIR is target/release-files
#   scripts/release.sh --binary FILE [--out DIR] ARCH      packs a binary that has been built already, and tries nothing
#
# The package cni-plugins-rs is installed beside other plugins, in a folder of its own; containernetworking-plugins-rs in place of
# the distribution's.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/packages.sh
. "$(dirname "$0")/packages.sh"
# shellcheck source=scripts/image.sh
. "$(dirname "$0")/image.sh"

HOST=$(uname -m)

target_of() {
    case $1 in
    amd64) echo x86_64-unknown-linux-musl ;;
    arm64) echo aarch64-unknown-linux-musl ;;
    *) die "unknown processor $1: amd64 and arm64 are known" ;;
    esac
}

need_packers() {
    need jq jq
    need_nfpm
}

# need_cross: what links for aarch64 on another processor, and runs what was linked.
need_cross() {
    need aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    need qemu-aarch64-static qemu-user-static
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64-static
}

is_cross() { [ "$1" = arm64 ] && [ "$HOST" != aarch64 ]; }

# answers BINARY [EMULATOR...]: what every plugin of it says about itself and its versions, and how it does.
answers() {
    local binary=$1 dir name verb
    shift
    dir=$(mktemp -d)
    "$@" "$binary" install "$dir" >/dev/null
    for name in "$dir"/*; do
        name=${name##*/}
        "$@" "$dir/$name" version 2>&1 || printf '%s ends with %s\n' "$name" "$?"
    done
    for verb in VERSION STATUS; do
        for name in loopback host-local static; do
            printf '%s %s: ' "$name" "$verb"
            CNI_COMMAND=$verb CNI_PATH=$dir "$@" "$dir/$name" <<<'{"cniVersion":"1.1.0","name":"n","type":"'"$name"'",
                "ipam":{"type":"'"$name"'","ranges":[[{"subnet":"10.1.2.0/24"}]],"dataDir":"'"$dir/leases"'"}}' 2>&1 ||
                printf ' (exit status %s)' "$?"
            echo
        done
    done
    rm -rf "$dir"
}

# try_cross BINARY TARGET: the emulated plugins answer as those of this machine do, and pass the tests of what is pure.
try_cross() {
    local native
    say "comparing the answers of arm64, emulated, with this machine's"
    native=$(build_static)
    diff <(answers "$native") <(answers "$1" qemu-aarch64-static) || die "the binary for arm64 answers otherwise"
    say "unit tests on arm64, emulated"
    (cd "$TOP" && RUSTFLAGS="-C target-feature=+crt-static" cargo test --quiet --locked --target "$2" --lib \
        --package cni-core --package cni-netfilter --package cni-plugin --package cni-interface >&2)
}

# release ARCH OUT
release() {
    local arch=$1 out=$2 target binary
    target=$(target_of "$arch")
    need_standard_library "$target" || die "install it: rustup target add $target"
    if is_cross "$arch"; then need_cross; fi
    say "building the plugins for $arch (two or three minutes; seconds when nothing has changed)"
    binary=$(build_static_for "$target")
    if is_cross "$arch"; then try_cross "$binary" "$target"; fi
    pack "$binary" "$arch" "$out"
}

# pack BINARY ARCH OUT
pack() {
    local bill
    say "packing for $2"
    bill=$3/cni-plugins-rs-linux-$2-v$(our_version).cdx.json
    "$TOP/scripts/sbom.sh" "$(target_of "$2")" >"$bill"
    local emulator=()
    ! is_cross "$2" || emulator=(qemu-aarch64-static)
    pack_tarball "$1" "$2" "$3" "${emulator[@]}"
    pack_packages "$1" "$2" "$3" "$bill" "${emulator[@]}"
    packed+=("$2" "$1")
}

out=$TARGET/release-files
binary='' archs=() packed=()
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --out) out=${2:?--out needs a folder} && shift 2 ;;
    --binary) binary=${2:?--binary needs a file} && shift 2 ;;
    -*) die "unknown argument: $1" ;;
    *) archs+=("$1") && shift ;;
    esac
done
[ ${#archs[@]} -gt 0 ] || archs=(amd64 arm64)
[ -z "$binary" ] || [ ${#archs[@]} -eq 1 ] || die "--binary needs the one processor that the file is for"

umask 022
export LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$TOP" log -1 --format=%ct)} ||
    die "no commit tells the time of the sources: set SOURCE_DATE_EPOCH"
export SOURCE_DATE_EPOCH
need_rust
need_packers
mkdir -p "$out"
rm -f "$out"/SHA256SUMS "$out"/cni-plugins-rs* "$out"/containernetworking-plugins-rs*
if [ -n "$binary" ]; then
    pack "$binary" "${archs[0]}" "$out"
else
    # Or the sources would not be those of the commit.
    [ -z "$(git -C "$TOP" status --porcelain)" ] || die "there are changes that no commit has: commit them first"
    for arch in "${archs[@]}"; do release "$arch" "$out"; done
fi
say "packing the image"
pack_image "$out" "${packed[@]}"
sum_up "$out"
say "the release is in $out"
ls -l "$out"
