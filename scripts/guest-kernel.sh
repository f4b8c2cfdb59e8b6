#!/usr/bin/env bash
# Unpacks the kernel that virtual machines of the tests run into target/guest-kernel: vmlinuz and modules. It is Debian's for
# virtual machines, and is not installed. The tests find it there; CNI_GUEST_KERNEL names another folder.
#
#   scripts/guest-kernel.sh
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

FOLDER=$TARGET/guest-kernel

# The package of a release, which the package without a number depends on.
kernel_package() {
    apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-.*\)$/\1/p' | head -n 1
}

unpack_kernel() {
    local draft package
    package=$(kernel_package)
    if [ -z "$package" ]; then
        apt-get update -qq >&2
        package=$(kernel_package)
    fi
    [ -n "$package" ] || die "there is no Debian package linux-image-cloud-amd64 here"
    say "unpacking Debian's $package"
    mkdir -p "$TARGET"
    draft=$(mktemp -d "$TARGET/.guest-kernel.XXXXXX")
    # As in scripts/runtimes/get.sh: apt leaves downloads to a user who may not write here.
    (cd "$draft" && apt-get download -qq -o APT::Sandbox::User=root "$package")
    dpkg-deb -x "$draft"/*.deb "$draft"
    mv "$draft"/boot/vmlinuz-* "$draft/vmlinuz"
    mv "$draft"/lib/modules/* "$draft/modules"
    rm -rf "${draft:?}"/{*.deb,boot,lib,usr}
    chmod 0755 "$draft"
    mv -T "$draft" "$FOLDER"
}

case "${1:-}" in
-h | --help) sed -n '2,5s/^# \{0,1\}//p' "$0" ;;
'') [ -e "$FOLDER/vmlinuz" ] || unpack_kernel ;;
*) die "unknown argument: $1" ;;
esac
