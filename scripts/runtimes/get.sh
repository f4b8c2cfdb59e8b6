# shellcheck shell=bash
# Gets each runtime without a change of the machine: Debian's packages are unpacked below $STAGE, go install puts its programs
# there, and Nomad and Consul are those in PATH. A function get_NAME that fails prints the reason as its last line. What it
# says to the user goes to descriptor 9.

NERDCTL_VERSION=v1.7.7
export FLANNELD_VERSION=v0.26.7

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

# Debian has no Nomad and no Consul, and go install refuses them, since their go.mod replaces modules.
get_nomad() {
    unpack busybox-static || return
    take_from_path nomad || { echo "there is no program nomad in PATH" && return 1; }
}

get_consul() {
    get_nomad || return
    take_from_path consul || { echo "there is no program consul in PATH" && return 1; }
}

get_firecracker() {
    take_from_path firecracker ||
        { echo "there is no program firecracker in PATH; the tests of conformance boot a virtual machine under qemu" && return 1; }
    [ -w /dev/kvm ] || { echo "firecracker needs /dev/kvm" && return 1; }
    get_cnitool || return
    unpack lz4 || return
    make_guest || { echo "the kernel of the virtual machine cannot be had" && return 1; }
}

# make_guest: Debian's kernel as an ELF file, and busybox with the first process of conformance's virtual machines.
make_guest() {
    local kernel=$TARGET/guest-kernel guest=$STAGE/guest module
    "$TOP/scripts/guest-kernel.sh" 2>&9 || return
    rm -rf "$guest"
    mkdir -p "$guest/root"/{bin,dev,modules,proc}
    unpack_vmlinux "$kernel/vmlinuz" "$guest/vmlinux" || return
    cp "$STAGE/packages/bin/busybox" "$guest/root/bin/busybox"
    install -m 755 "$TOP/conformance/guest/init.sh" "$guest/root/init"
    for module in drivers/virtio/virtio{_ring,,_pci_legacy_dev,_pci_modern_dev,_pci,_mmio} net/core/failover drivers/net/net_failover \
        drivers/net/virtio_net; do
        cp "$kernel/modules/kernel/$module.ko" "$guest/root/modules/" || return
        echo "${module##*/}.ko" >>"$guest/root/modules/order"
    done
    (cd "$guest/root" && find . | "$STAGE/packages/bin/busybox" cpio -o -H newc) >"$guest/initramfs"
}

# unpack_vmlinux IMAGE FILE: what Linux's boot protocol (Documentation/arch/x86/boot.rst) says of the compressed kernel inside of an
# image; its size stands behind it in four bytes.
unpack_vmlinux() {
    local sectors offset length
    sectors=$(od -An -tu1 -j $((0x1f1)) -N 1 "$1")
    offset=$(od -An -tu4 -j $((0x248)) -N 4 "$1")
    length=$(od -An -tu4 -j $((0x24c)) -N 4 "$1")
    dd if="$1" iflag=skip_bytes,count_bytes bs=64K status=none skip=$(((sectors + 1) * 512 + offset)) count=$((length - 4)) |
        "$STAGE/packages/usr/bin/lz4" -d -q - "$2"
}

get_flannel() {
    get_cnitool || return
    get_containerd || return
    # What cri.py needs.
    unpack python3-grpcio python3-protobuf protobuf-compiler || return
    get_cluster
}

# What the hosts of a cluster run.
get_cluster() {
    unpack etcd-server etcd-client || return
    install_flanneld || { echo "flanneld $FLANNELD_VERSION cannot be had with go install" && return 1; }
}

get_flannel_nomad() {
    get_nomad || return
    get_cluster
}

# It is linked with the C library.
install_flanneld() {
    local program=$STAGE/tools/flanneld-$FLANNELD_VERSION
    if [ ! -x "$program" ]; then
        need_go || return
        say "installing flanneld $FLANNELD_VERSION below $STAGE/tools (go install, some minutes)" 2>&9
        CGO_ENABLED=1 GOBIN=$STAGE/tools/go go install "github.com/flannel-io/flannel@$FLANNELD_VERSION" || return
        mv "$STAGE/tools/go/flannel" "$program"
    fi
    ln -f "$program" "$STAGE/tools/flanneld"
}

# take_from_path NAME: the program that is installed here.
take_from_path() {
    local program
    program=$(command -v "$1") || return
    cp -f "$program" "$STAGE/tools/$1"
}
