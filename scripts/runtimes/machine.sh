#!/usr/bin/env bash
# A private machine for one runtime: namespaces of all kinds but users, control groups of its own, and a root that has this
# machine's programs and nothing of its state. All of it is gone with the last process, and each process with the first one.
#
#   CNI_RUNTIMES_STAGE=DIR scripts/runtimes/machine.sh NAME      called by scripts/runtimes.sh
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
CGROUPS=/sys/fs/cgroup
NOT_RUN=3

# One line for each hierarchy of control groups: where it is mounted, and what mount needs to mount it again.
hierarchies() {
    awk '$3 == "cgroup" || $3 == "cgroup2" { print $2, $3, $4 }' /proc/mounts | sed 's/ rw,[a-z]*,\?/ /; s/\(relatime\|nodev\|noexec\|nosuid\),\?//g'
}

enter_group() {
    local folder=$1/$2
    mkdir "$folder"
    if [ -e "$1/cpuset.mems" ] && [ ! -e "$1/cgroup.controllers" ]; then
        cat "$1/cpuset.cpus" >"$folder/cpuset.cpus"
        cat "$1/cpuset.mems" >"$folder/cpuset.mems"
    fi
    # Where version 2 hands controllers down, processes may only be in leaves.
    if [ -e "$folder/cgroup.controllers" ]; then
        mkdir "$folder/first"
        echo $$ >"$folder/first/cgroup.procs"
    else
        echo $$ >"$folder/cgroup.procs"
    fi
}

leave_groups() {
    local mounted rest tries
    while read -r mounted rest; do
        [ -d "$mounted/$group" ] || continue
        echo $$ >"$mounted/cgroup.procs" || true
        # The kernel takes a moment to let go of the dead.
        for tries in $(seq 50); do
            find "$mounted/$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
            [ "$tries" -lt 50 ] || echo "the control group $mounted/$group is left behind ($rest)" >&2
            sleep 0.1
        done
    done < <(hierarchies)
}

outside() {
    local mounted rest status=0
    group=cni-runtimes-$$
    trap leave_groups EXIT
    while read -r mounted rest; do
        enter_group "$mounted" "$group" || { echo "not run: no control group can be made in $mounted ($rest)" && exit "$NOT_RUN"; }
    done < <(hierarchies)
    # The first process of the namespace ends all others by its own end.
    unshare --net --mount --pid --fork --kill-child --ipc --uts --cgroup --propagation private \
        "$HERE/machine.sh" --root "$1" || status=$?
    exit "$status"
}

# What is bound from this machine: programs and devices.
bind_programs() {
    local folder
    for folder in bin sbin lib lib32 lib64 libx32 usr dev; do
        if [ -L "/$folder" ]; then
            cp -a "/$folder" "$root/"
        elif [ -d "/$folder" ]; then
            mkdir "$root/$folder"
            mount --rbind "/$folder" "$root/$folder"
        fi
    done
}

mount_groups() {
    local mounted kind options
    mount -t tmpfs -o mode=755 tmpfs "$root$CGROUPS"
    while read -r mounted kind options; do
        mkdir -p "$root$mounted"
        mount -t "$kind" ${options:+-o "$options"} "$kind" "$root$mounted"
    done < <(hierarchies)
}

make_root() {
    root=$CNI_RUNTIMES_STAGE/root
    mkdir -p "$root"
    mount -t tmpfs -o mode=755 tmpfs "$root"
    mkdir -p "$root"/{old,proc,sys,root,tmp,run/netns,var/lib,var/log,var/tmp,opt/cni/bin,stage,scripts}
    chmod 1777 "$root/tmp" "$root/var/tmp"
    ln -s ../run "$root/var/run"
    bind_programs
    cp -a /etc "$root/etc"
    rm -rf "$root"/etc/{cni,containers,containerd,nomad.d}
    mkdir -p "$root/etc/cni/net.d"
    mount --bind "$CNI_RUNTIMES_STAGE" "$root/stage"
    mount --bind "$CNI_RUNTIMES_STAGE/plugins" "$root/opt/cni/bin"
    mount --bind "${HERE%/*}" "$root/scripts"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    [ ! -d $CGROUPS ] || mount_groups
}

enter_root() {
    make_root
    cd "$root"
    pivot_root . old
    umount --lazy /old
    cd /
    exec /scripts/runtimes/show.sh "$1"
}

case $1 in
--root) enter_root "$2" ;;
*) outside "$1" ;;
esac
