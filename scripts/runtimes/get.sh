# shellcheck shell=bash
# How each runtime is had without a change of the machine: Debian's packages are unpacked, Go's tools are built, both below
# $STAGE. A function get_NAME that fails has printed the reason as its last line. What it
# says to the one who waits goes to descriptor 9.

NERDCTL_VERSION=v1.7.7
NOMAD_VERSION=v1.10.5
# Of the same commit.
NOMAD_API=v0.0.0-20250909143645-a3b86c697f38
CONSUL_VERSION=v1.20.5

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
    say "building nerdctl $NERDCTL_VERSION (some minutes)" 2>&9
    folder=$(module_folder "github.com/containerd/nerdctl@$NERDCTL_VERSION") || return
    (cd "$folder" && CGO_ENABLED=0 GOFLAGS=-mod=readonly go build -trimpath -o "$STAGE/tools/nerdctl-$NERDCTL_VERSION" \
        -ldflags "-s -w -X github.com/containerd/nerdctl/pkg/version.Version=$NERDCTL_VERSION" ./cmd/nerdctl)
}

# module_folder MODULE@VERSION: downloads it, and prints where its sources are.
module_folder() {
    local folder
    folder=$(go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && [ -n "$folder" ] && echo "$folder"
}

need_go() {
    command -v go >/dev/null 2>&1 || PATH="/usr/local/go/bin:$PATH"
    command -v go >/dev/null 2>&1
}

# get_hashicorp NAME VERSION: the program that is installed here, or one that build_NAME builds.
get_hashicorp() {
    local program
    unpack busybox-static || return
    if ! program=$(command -v "$1"); then
        program=$STAGE/tools/$1-$2
        [ -x "$program" ] || "build_$1" "$program" || { echo "there is no program $1 in PATH, and $1 $2 cannot be built from the Go module" && return 1; }
    fi
    cp -f "$program" "$STAGE/tools/$1"
}

get_nomad() { get_hashicorp nomad "$NOMAD_VERSION"; }

get_consul() { get_nomad && get_hashicorp consul "$CONSUL_VERSION"; }

# copy_module MODULE@VERSION NAME: prints where its sources are, and copies its go.mod and go.sum, which are to be changed.
copy_module() {
    local folder file
    folder=$(module_folder "$1") || return
    for file in mod sum; do install -m 644 "$folder/go.$file" "$STAGE/$2.$file" || return; done
    echo "$folder"
}

# Nomad's sources take its API from a folder beside them, which the registry has as a module of its own.
build_nomad() {
    local folder
    need_go || return
    say "building nomad $NOMAD_VERSION (ten minutes or more)" 2>&9
    folder=$(copy_module "github.com/hashicorp/nomad@$NOMAD_VERSION" nomad) || return
    go mod edit -replace "github.com/hashicorp/nomad/api=github.com/hashicorp/nomad/api@$NOMAD_API" "$STAGE/nomad.mod" || return
    (cd "$folder" && CGO_ENABLED=1 go build -modfile "$STAGE/nomad.mod" -mod=mod -trimpath -tags hashicorpmetrics \
        -ldflags '-s -w' -o "$1" .)
}

# Consul's sources do so with five folders, whose modules its go.mod names by their versions.
build_consul() {
    local folder name changes=()
    need_go || return
    say "building consul $CONSUL_VERSION (five minutes or more)" 2>&9
    folder=$(copy_module "github.com/hashicorp/consul@$CONSUL_VERSION" consul) || return
    for name in api envoyextensions proto-public sdk troubleshoot; do changes+=(-dropreplace "github.com/hashicorp/consul/$name"); done
    go mod edit "${changes[@]}" "$STAGE/consul.mod" || return
    (cd "$folder" && CGO_ENABLED=0 go build -modfile "$STAGE/consul.mod" -mod=mod -trimpath -ldflags '-s -w' -o "$1" .)
}
