# shellcheck shell=bash
# Gets each runtime without a change of the machine: Debian's packages are unpacked below $STAGE, go install puts its programs
# there, and Nomad and Consul are those in PATH. A function get_NAME that fails prints the reason as its last line. What it
# says to the user goes to descriptor 9.

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
    say "unpacking Debian's $1" 2>&9
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
    take_from_path nerdctl || install_nerdctl || { echo "there is no program nerdctl in PATH, and go install does not bring it" && return 1; }
}

# As a user installs it. Its own version is not in it then.
install_nerdctl() {
    [ ! -x "$STAGE/tools/nerdctl-$NERDCTL_VERSION" ] || { ln -f "$STAGE/tools/nerdctl-$NERDCTL_VERSION" "$STAGE/tools/nerdctl" && return; }
    need_go || return
    say "installing nerdctl $NERDCTL_VERSION below $STAGE/tools (go install, some minutes)" 2>&9
    CGO_ENABLED=0 GOBIN=$STAGE/tools/go go install "github.com/containerd/nerdctl/cmd/nerdctl@$NERDCTL_VERSION" || return
    mv "$STAGE/tools/go/nerdctl" "$STAGE/tools/nerdctl-$NERDCTL_VERSION"
    ln -f "$STAGE/tools/nerdctl-$NERDCTL_VERSION" "$STAGE/tools/nerdctl"
}

need_go() {
    command -v go >/dev/null 2>&1 || PATH="/usr/local/go/bin:$PATH"
    command -v go >/dev/null 2>&1
}

# Nomad and Consul are in neither Debian nor, for the rules in their go.mod that replace modules, to be had with go install.
get_nomad() {
    unpack busybox-static || return
    take_from_path nomad || { echo "there is no program nomad in PATH" && return 1; }
}

get_consul() {
    get_nomad || return
    take_from_path consul || { echo "there is no program consul in PATH" && return 1; }
}

# take_from_path NAME: the program that is installed here.
take_from_path() {
    local program
    program=$(command -v "$1") || return
    cp -f "$program" "$STAGE/tools/$1"
}
