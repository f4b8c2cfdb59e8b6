# shellcheck shell=bash
# How a built binary becomes packages: the tarball, the Debian packages and the checksums. The same binary and the same
# SOURCE_DATE_EPOCH give the same bytes, whoever packs, wherever and whenever. lib.sh has to be read before.

# What people look for in a package list.
HOMEPAGE=https://github.com/containernetworking/plugins
SUMMARY="CNI plugins in Rust, in place of those of the CNI project"

our_version() { sed -n 's/^version = "\(.*\)"$/\1/p' "$TOP/Cargo.toml"; }

# The release of the reference whose features we have, as the plugins report it.
reference_version() { sed -n 's/^const REFERENCE_LEVEL: &str = "\(.*\)";$/\1/p' "$TOP/common/plugin/src/run.rs"; }

# stage_plugins BINARY DIR: the one file under every name, by hard links.
stage_plugins() {
    local binary=$1 dir=$2 name
    install -D -m 0755 "$binary" "$dir/cni-plugins"
    for name in "${PLUGINS[@]}"; do
        ln "$dir/cni-plugins" "$dir/$name"
    done
}

# settle DIR: what tells the time or the user that packed.
settle() {
    find "$1" -type d -exec chmod 0755 {} +
    find "$1" -type f -perm /111 -exec chmod 0755 {} +
    find "$1" -type f ! -perm /111 -exec chmod 0644 {} +
    find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
}

# pack_tarball BINARY ARCH OUT: laid out like the reference's, so that it can be unpacked into the plugins' folder.
pack_tarball() {
    local binary=$1 arch=$2 out=$3 root
    root=$(mktemp -d)
    stage_plugins "$binary" "$root"
    cp "$TOP/LICENSE" "$TOP/README.md" "$root"
    settle "$root"
    tar --create --format=gnu --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        --directory="$root" . | gzip --no-name --best >"$out/cni-plugins-rs-linux-$arch-v$(our_version).tgz"
    rm -rf "$root"
}

# pack_debs BINARY ARCH OUT BILL EMULATOR...: two packages. One is installed beside any other plugins; the other one, with the
# first, in place of Debian's. The binary is run, by an emulator if need be, to print its pages.
pack_debs() {
    local root
    root=$(mktemp -d)
    pack_pages "$root/beside/usr/share" "${@:5}" "$1"
    stage_plugins "$1" "$root/beside/usr/lib/cni-plugins-rs"
    mkdir -p "$root/beside/usr/sbin"
    ln -s ../lib/cni-plugins-rs/cni-plugins "$root/beside/usr/sbin/cni-plugins"
    pack_deb "$root/beside" cni-plugins-rs "$2" "$3" "$4" <<CONTROL
Recommends: iptables
Description: $SUMMARY
 The plugins that give containers their network on Linux hosts, with the
 configuration, results, rules and files of the CNI project's own plugins.
 .
 This package installs them into /usr/lib/cni-plugins-rs, beside any others, and
 the administrator's tool cni-plugins. Name that folder in the configuration of
 your container runtime, or install containernetworking-plugins-rs.
CONTROL
    stage_plugins "$1" "$root/in-place/usr/lib/cni"
    pack_units "$root/in-place/lib/systemd/system"
    pack_deb "$root/in-place" containernetworking-plugins-rs "$2" "$3" "$4" <<CONTROL
Depends: cni-plugins-rs (= $(our_version))
Provides: container-network-stack (= 1), containernetworking-plugins (= $(reference_version)+rs.$(our_version))
Conflicts: containernetworking-plugins
Replaces: containernetworking-plugins
Description: $SUMMARY (in /usr/lib/cni)
 The plugins of cni-plugins-rs in the folder in which Debian's container runtimes
 look for them. They take the place of the package containernetworking-plugins;
 to go back, install that package again.
CONTROL
    rm -rf "$root"
}

# pack_units DIR: those of the daemon of dhcp, under the names and at the place of Debian's.
pack_units() {
    mkdir -p "$1"
    cp "$TOP"/plugins/dhcp/systemd/cni-dhcp.* "$1"
    sed -i 's|/opt/cni/bin/|/usr/lib/cni/|' "$1"/cni-dhcp.*
}

# pack_pages DIR PROGRAM...: the manual page, and completion where each shell looks for it.
pack_pages() {
    local share=$1
    shift
    mkdir -p "$share"/{man/man8,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    "$@" manual | gzip --no-name --best >"$share/man/man8/cni-plugins.8.gz"
    "$@" completion bash >"$share/bash-completion/completions/cni-plugins"
    "$@" completion zsh >"$share/zsh/vendor-completions/_cni-plugins"
    "$@" completion fish >"$share/fish/vendor_completions.d/cni-plugins.fish"
}

# pack_deb ROOT NAME ARCH OUT BILL: the fields that differ between packages come on standard input.
pack_deb() {
    local root=$1 name=$2 arch=$3 out=$4 bill=$5 doc=$1/usr/share/doc/$2
    install -D -m 0644 "$TOP/packaging/copyright" "$doc/copyright"
    install -m 0644 "$bill" "$doc/sbom.cdx.json"
    gzip --no-name --best <"$TOP/CHANGELOG.md" >"$doc/changelog.gz"
    mkdir "$root/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: %s\n' "$name" "$(our_version)" "$arch"
        printf 'Maintainer: The authors of cni-plugins-rs <nobody@localhost>\nHomepage: %s\n' "$HOMEPAGE"
        printf 'Section: net\nPriority: optional\nMulti-Arch: foreign\nInstalled-Size: %s\n' "$(kilobytes "$root")"
        cat
    } >"$root/DEBIAN/control"
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
    settle "$root"
    # More threads would give other bytes.
    DPKG_DEB_THREADS_MAX=1 dpkg-deb --root-owner-group -Zxz --build "$root" "$out/${name}_$(our_version)_$arch.deb" >/dev/null
}

# The size of a folder's files, each counted once whatever its names, as no file system counts it.
kilobytes() {
    find "$1" -path "$1/DEBIAN" -prune -o -type f -printf '%i %s\n' | sort -u | awk '{ bytes += $2 } END { print int((bytes + 1023) / 1024) }'
}

# sum_up OUT: the checksums of the packages there.
sum_up() {
    local sums
    sums=$(cd "$1" && sha256sum -- *plugins-rs*)
    printf '%s\n' "$sums" >"$1/SHA256SUMS"
}
