# shellcheck shell=bash
# How each runtime is had without a change of the machine: Debian's packages are unpacked, Go's tools are built, both below
# $STAGE. A function get_NAME that fails has printed the reason as its last line.

NERDCTL_VERSION=v1.7.7

# unpack PACKAGE...: Debian packages and those that they need and this machine has not, into $STAGE/packages.
unpack() {
    local missing
    command -v apt-get >/dev/null 2>&1 || { echo "no apt-get to fetch the Debian packages $*" && return 1; }
    missing=$(needed_packages "$@") || { apt-get update -qq && missing=$(needed_packages "$@"); } ||
        { echo "the Debian packages cannot be had: $*" && return 1; }
    mkdir -p "$STAGE/archives" "$STAGE/packages"
    local package
    for package in $missing "$@"; do
        [ -e "$STAGE/archives/$package.done" ] || unpack_one "$package" || { echo "the Debian package $package cannot be had" && return 1; }
    done
}

# The packages that an installation would bring; those that are here already in an older version stay as they are.
needed_packages() {
    local said
    said=$(apt-get install --simulate --no-install-recommends "$@") || return
    awk '$1 == "Inst" && $3 !~ /^\[/ { print $2 }' <<<"$said"
}

unpack_one() {
    say "unpacking Debian's $1"
    rm -rf "$STAGE/archives/$1"
    mkdir "$STAGE/archives/$1"
    (cd "$STAGE/archives/$1" && apt-get download -qq "$1") || return
    dpkg -x "$STAGE/archives/$1"/*.deb "$STAGE/packages" || return
    touch "$STAGE/archives/$1.done"
}

get_cnitool() {
    unpack busybox-static || return
    (need_cnitool && cp -f "$(command -v cnitool)" "$STAGE/tools/") || { echo "cnitool cannot be had with go install" && return 1; }
}

get_containerd() { unpack busybox-static containerd runc; }

get_podman() { unpack busybox-static podman conmon runc; }

get_nerdctl() {
    get_containerd || return
    [ -x "$STAGE/tools/nerdctl-$NERDCTL_VERSION" ] || build_nerdctl || { echo "nerdctl $NERDCTL_VERSION cannot be built from the Go module" && return 1; }
    ln -f "$STAGE/tools/nerdctl-$NERDCTL_VERSION" "$STAGE/tools/nerdctl"
}

# In the module's own folder, so that its go.sum says what each of its dependencies is.
build_nerdctl() {
    local folder
    need_go || return
    say "building nerdctl $NERDCTL_VERSION (some minutes)"
    folder=$(go mod download -json "github.com/containerd/nerdctl@$NERDCTL_VERSION" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') || return
    [ -n "$folder" ] || return
    (cd "$folder" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -o "$STAGE/tools/nerdctl-$NERDCTL_VERSION" \
        -ldflags "-s -w -X github.com/containerd/nerdctl/pkg/version.Version=$NERDCTL_VERSION" ./cmd/nerdctl)
}

need_go() {
    command -v go >/dev/null 2>&1 || PATH="/usr/local/go/bin:$PATH"
    command -v go >/dev/null 2>&1
}

get_nomad() {
    command -v nomad >/dev/null 2>&1 || { echo "no program nomad in PATH; Debian has no package of it, and Go's registry has not all of its modules" && return 1; }
    unpack busybox-static || return
    cp -f "$(command -v nomad)" "$STAGE/tools/nomad"
}
