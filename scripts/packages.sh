# shellcheck shell=bash
# How a built binary becomes a release: the tarball, the packages of distributions, and the checksums. The same binary and the same
# SOURCE_DATE_EPOCH give the same bytes, on every host and at any time. Source lib.sh first.

our_version() { sed -n 's/^version = "\(.*\)"$/\1/p' "$TOP/Cargo.toml"; }

# The release of the reference whose features we have, as the plugins report it.
reference_version() { sed -n 's/^const REFERENCE_LEVEL: &str = "\(.*\)";$/\1/p' "$TOP/common/plugin/src/run.rs"; }

# settle DIR: what tells the time or the user that packed.
settle() {
    find "$1" -type d -exec chmod 0755 {} +
    find "$1" -type f -perm /111 -exec chmod 0755 {} +
    find "$1" -type f ! -perm /111 -exec chmod 0644 {} +
    find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# reproducible_tar DIR NAME...: these of a folder, in an order and with owners that depend on nothing else.
reproducible_tar() {
    tar --create --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --directory="$1" "${@:2}"
}

# pack_tarball BINARY ARCH OUT EMULATOR...: laid out like the reference's, so that it can be unpacked into the plugins' folder.
pack_tarball() {
    local root
    root=$(mktemp -d)
    "${@:4}" "$1" install "$root" >/dev/null
    cp "$TOP/LICENSE" "$TOP/README.md" "$root"
    settle "$root"
    reproducible_tar "$root" . | gzip --no-name --best >"$3/cni-plugins-rs-linux-$2-v$(our_version).tgz"
    rm -rf "$root"
}

# pack_packages BINARY ARCH OUT BILL EMULATOR...: two packages for each kind of distribution, by packaging/*.yaml. One is installed
# beside any other plugins; the other one, with the first, in place of the distribution's. The binary is run, by an emulator if need
# be, to say what it is.
pack_packages() {
    local stage description format release
    stage=$(mktemp -d)
    stage_plugins "$stage" "$1" "${@:5}"
    stage_pages "$stage/pages" "${@:5}" "$1"
    stage_units "$stage"
    mkdir "$stage/doc"
    cp "$TOP/packaging/copyright" "$stage/doc/copyright"
    cp "$4" "$stage/doc/sbom.cdx.json"
    gzip --no-name --best <"$TOP/CHANGELOG.md" >"$stage/doc/changelog.gz"
    settle "$stage"
    for description in beside in-place; do
        for format in deb rpm apk archlinux; do
            # Alpine's versions end with the number of a release, and so does what depends on them.
            release='' && [ "$format" != apk ] || release=0
            STAGE=$stage VERSION=$(our_version) RELEASE=$release REFERENCE=$(reference_version) ARCH=$2 \
                nfpm package --config "$TOP/packaging/$description.yaml" --packager "$format" --target "$3/" >/dev/null
        done
    done
    rm -rf "$stage"
}

# stage_plugins STAGE BINARY EMULATOR...: the names, as symbolic links: packages know no hard links.
stage_plugins() {
    local stage=$1 name
    "${@:3}" "$2" install "$stage/plugins" >/dev/null
    mkdir "$stage/links"
    for name in "$stage"/plugins/*; do
        name=${name##*/}
        [ "$name" != cni-plugins ] || continue
        ln -sf cni-plugins "$stage/plugins/$name"
        ln -s ../../lib/cni-plugins-rs/cni-plugins "$stage/links/$name"
    done
}

# stage_pages DIR PROGRAM...: the manual pages and completions.
stage_pages() {
    local dir=$1 verb shell
    shift
    mkdir -p "$dir/man"
    "$@" manual | gzip --no-name --best >"$dir/man/cni-plugins.8.gz"
    for verb in $("$@" help | awk '/^Commands:/ { on = 1; next } on && !NF { exit } on { print $1 }'); do
        "$@" manual "$verb" | gzip --no-name --best >"$dir/man/cni-plugins-$verb.8.gz"
    done
    for shell in bash zsh fish; do "$@" completion "$shell" >"$dir/$shell"; done
}

# stage_units STAGE: systemd's units, with the place of the packages' plugins.
stage_units() {
    mkdir "$1/tool" "$1/dhcp"
    cp "$TOP"/plugins/admin/systemd/* "$1/tool"
    cp "$TOP"/plugins/dhcp/systemd/cni-dhcp.* "$1/dhcp"
    sed -i 's|/opt/cni/bin/|/usr/lib/cni-plugins-rs/|' "$1"/tool/* "$1"/dhcp/*
}

# sum_up OUT: the checksums of the packages there.
sum_up() {
    local sums
    sums=$(cd "$1" && sha256sum -- *plugins-rs*)
    printf '%s\n' "$sums" >"$1/SHA256SUMS"
}
