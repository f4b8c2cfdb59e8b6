#!/bin/sh
# The first process of the User-Mode-Linux kernel that src/uml.rs boots over the host's files, read-only.
# Runs a test binary and switches the machine off.
#
#   init.sh PLUGINS TESTS FEATURES WORDS FAULTS TABLE    the folder with the plugins under test, the test binary, what it is to test,
#                                                        its arguments, CNI_CASE_FAULTS, and CNI_LOSSES_TABLE or -; FEATURES and WORDS
#                                                        have commas between them. The kernel adds arguments of its own
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run

# The kernel loads what it lacks by a program of ours, since its modules are not in /lib/modules.
mkdir -p /run/kernel/lib
ln -s /usr/lib/uml/modules /run/kernel/lib/modules
printf '#!/bin/sh\nexec modprobe -d /run/kernel "$@"\n' >/run/kernel/modprobe
chmod 0755 /run/kernel/modprobe
echo /run/kernel/modprobe >/proc/sys/kernel/modprobe
/run/kernel/modprobe ipv6

[ "$6" = - ] || export CNI_LOSSES_TABLE="$6"
IFS=,
# shellcheck disable=SC2086
CNI_UML=$3 CNI_BIN_DIR=$1 CNI_CASE_FAULTS=$5 "$2" $4
echo o >/proc/sysrq-trigger
sleep 60
