#!/usr/bin/env bash
# Shows the plugins under the runtimes that people use, each from start to end on a private machine: namespaces, a root, /etc,
# /run, /var and control groups of its own. Nothing is installed on this machine: Debian's packages are unpacked into a folder
# of target/runtimes, where go install puts its programs as well; Nomad, Consul and Firecracker are those in PATH. There is no
# registry of images, so the containers' root is busybox.
#
#   scripts/runtimes.sh [--plugins DIR] [NAME...]     needs root; NAME: cnitool containerd podman nerdctl nomad consul
#                                                     flannel flannel_nomad firecracker; all unless given
#
#   --plugins DIR     the plugins in DIR instead of a build of this tree
#
# The exit status is 0 when all was shown, 1 when something is wrong, 2 for wrong arguments, and 3 when nothing is wrong but a
# runtime is not available: the summary then says NOT RUN and why.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=scripts/packages.sh
. "$(dirname "$0")/packages.sh"
# shellcheck source=scripts/image.sh
. "$(dirname "$0")/image.sh"
# shellcheck source=scripts/runtimes/get.sh
. "$TOP/scripts/runtimes/get.sh"

ALL=(cnitool containerd podman nerdctl nomad consul flannel flannel_nomad firecracker)
NOT_RUN=3

usage() {
    printf 'error: %s; see %s --help\n' "$1" "$0" >&2
    exit 2
}

is_runtime() { [[ " ${ALL[*]} " == *" $1 "* ]]; }

# show NAME: prints the line of the summary, and fails when something is wrong.
show() {
    local name=$1 log=$STAGE/$1.log status=0
    if ! "get_$name" 9>&2 >"$log" 2>&1; then
        printf 'NOT RUN: %-13s %s\n' "$name" "$(tail -n 1 "$log")"
        not_run=1
        return 0
    fi
    say "$name"
    CNI_RUNTIMES_STAGE=$STAGE "$TOP/scripts/runtimes/machine.sh" "$name" >"$log" 2>&1 || status=$?
    sed -n 's/^shown: /    /p' "$log" >&2
    case $status in
    0) printf 'SHOWN:   %-13s %s: %s statements\n' "$name" "$(sed -n 's/^version: //p' "$log")" "$(grep -c '^shown: ' "$log")" ;;
    "$NOT_RUN")
        printf 'NOT RUN: %-13s %s\n' "$name" "$(sed -n 's/^not run: //p' "$log")"
        not_run=1
        ;;
    *)
        local reason
        reason=$(sed -n '/^wrong: /{s///p;q}' "$log")
        reason=${reason:-"its machine ended with status $status"}
        say "$name: WRONG: $reason; the end of its log:"
        grep -v '^shown: ' "$log" | tail -n 60 >&2
        printf 'WRONG:   %-13s %s (all of it in %s)\n' "$name" "$reason" "$log"
        wrong=1
        ;;
    esac
}

plugins='' names=()
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "$0" && exit 0 ;;
    --plugins)
        [ $# -ge 2 ] || usage "--plugins needs a folder"
        plugins=$2
        shift
        ;;
    *)
        is_runtime "$1" || usage "$1 is not one of ${ALL[*]}"
        names+=("$1")
        ;;
    esac
    shift
done
[ ${#names[@]} -gt 0 ] || names=("${ALL[@]}")
need_root "a runtime"
STAGE=$TARGET/runtimes
mkdir -p "$STAGE/tools"
# Another run of this script in the same tree waits for the end of this one.
exec 8>"$STAGE/lock"
flock 8
rm -rf "$STAGE/plugins"
if [ -n "$plugins" ]; then
    [ -x "$plugins/bridge" ] || usage "$plugins has no plugins"
    cp -al "$plugins" "$STAGE/plugins" 2>/dev/null || cp -a "$plugins" "$STAGE/plugins"
else
    need_rust
    install_plugins "$(build_static)" "$STAGE/plugins"
fi
need iptables iptables
need ip iproute2
# The image of a release, for podman to run. It contains no C library, so other sets of plugins have none.
rm -rf "$STAGE/image"
if ldd "$STAGE/plugins/cni-plugins" 2>&1 | grep -q 'statically linked\|not a dynamic'; then
    need jq jq
    mkdir "$STAGE/image"
    SOURCE_DATE_EPOCH=1700000000 pack_image "$STAGE/image" "$(dpkg --print-architecture)" "$STAGE/plugins/cni-plugins"
fi

wrong='' not_run='' summary=$STAGE/summary
: >"$summary"
for name in "${names[@]}"; do show "$name" >>"$summary"; done
cat "$summary"
[ -z "$wrong" ] || exit 1
[ -z "$not_run" ] || exit "$NOT_RUN"
