#!/usr/bin/env bash
# Prints what the binary is made of, as a software bill of materials in the form of CycloneDX 1.5: the crates that are
# compiled into it or help to compile it, from Cargo.lock, each with its licence, its checksum and what it needs; and the
# standard library and C library that are linked.
#
#   SOURCE_DATE_EPOCH=SECONDS scripts/sbom.sh TARGET     TARGET is one of Rust's, such as aarch64-unknown-linux-musl
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

case "${1:-}" in -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0" && exit 0 ;; esac
target=${1:?TARGET is missing: see --help}

# The checksums of Cargo.lock, as one object with keys like "serde 1.0.0".
checksums() {
    awk -F'"' '/^name = /{ name = $2 } /^version = /{ version = $2 } /^checksum = /{ print name " " version "\t" $2 }' \
        "$TOP/Cargo.lock" | jq -Rn '[inputs / "\t" | { (.[0]): .[1] }] | add'
}

# What is compiled for this target, as one array of texts like "serde 1.0.0". Cargo's metadata has more: what other members of
# the workspace ask of the same crates.
compiled() {
    cargo tree --quiet --locked --package cni-plugins --edges normal,build --target "$target" --prefix none --format '{p}' |
        sed 's/^\([^ ]*\) v\([^ ]*\).*/\1 \2/' | jq -Rn '[inputs] | unique'
}

# c_library: the version of musl, which is a part of Rust's standard library.
c_library() {
    local library
    need_standard_library "$target" || die "install it: rustup target add $target"
    library=$(rustc --print sysroot)/lib/rustlib/$target/lib/self-contained/libc.a
    [ -e "$library" ] || die "the C library for $target is not known to this script"
    grep --text --only-matching --extended-regexp --max-count=1 '1\.[0-9]+\.[0-9]+' "$library" | head -n 1
}

need jq jq
cd "$TOP"
cargo metadata --format-version 1 --locked --filter-platform "$target" | jq --sort-keys \
    --argjson checksums "$(checksums)" --argjson compiled "$(compiled)" --arg target "$target" --arg rust "$(rustc --version | cut -d' ' -f2)" \
    --arg libc "$(c_library)" --arg time "$(date --utc --date="@${SOURCE_DATE_EPOCH:?}" +%Y-%m-%dT%H:%M:%SZ)" '
    def purl: "pkg:cargo/\(.name)@\(.version)";
    def key: "\(.name) \(.version)";
    (.packages | map(select(IN(key; $compiled[]))) | INDEX(.id)) as $packages
    | (.resolve.nodes | INDEX(.id)) as $nodes
    # What a crate needs, but for its tests.
    | def needed: [$nodes[.id].deps[] | select(any(.dep_kinds[]; .kind != "dev")) | $packages[.pkg] | values | purl];
    ($packages[] | select(.name == "cni-plugins")) as $top
    | ($packages | map(.) | sort_by(purl))
    | {
        bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
        metadata: {
            timestamp: $time,
            component: { type: "application", "bom-ref": ($top | purl), name: "cni-plugins-rs", version: $top.version,
                licenses: [{ expression: $top.license }], properties: [{ name: "rust:target", value: $target }] }
        },
        components: ([.[] | select(.id != $top.id) | {
            type: "library", "bom-ref": purl, name, version, purl: purl,
            licenses: [{ expression: (.license // "NOASSERTION" | gsub("/"; " OR ")) }],
            hashes: [$checksums[key] | values | { alg: "SHA-256", content: . }]
        }] + [
            { type: "library", "bom-ref": "rust-std", name: "rust-std", version: $rust, licenses: [{ expression: "MIT OR Apache-2.0" }] },
            { type: "library", "bom-ref": "musl", name: "musl", version: $libc, licenses: [{ expression: "MIT" }] }
        ]),
        dependencies: [.[] | { ref: purl,
            dependsOn: (needed + if .id == $top.id then ["musl", "rust-std"] else [] end | unique) }]
    }'
