#!/bin/busybox sh
# shellcheck shell=dash
# The first process of the virtual machines that src/guest.rs boots. Takes its addresses from the kernel's command line, tries to
# reach what it is told, and serves a page. With a file /script it runs that instead.
#
#   ip=ADDRESS::GATEWAY:MASK::DEVICE:off   as the kernel's own parameter, which Debian's kernel leaves to the first process
#   ip6=ADDRESS/PREFIX,GATEWAY             the same for IPv6, for which the kernel has no parameter
#   reach=ADDRESS,...                      servers on port 7; what each answers is printed
#   says=TEXT                              what the page says
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t devtmpfs none /dev
while read -r module; do insmod "/modules/$module"; done </modules/order

if [ -f /script ]; then
    sh /script 2>&1
    echo ready
    while :; do sleep 60; done
fi

# shellcheck disable=SC2013
for word in $(cat /proc/cmdline); do
    case $word in
    ip=*) ip=${word#*=} ;;
    ip6=*) ip6=${word#*=} ;;
    reach=*) reach=${word#*=} ;;
    says=*) says=${word#*=} ;;
    esac
done

ip link set lo up
echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
if [ -n "$ip" ]; then
    IFS=: read -r address _ gateway mask _ device _ <<END
$ip
END
    ifconfig "$device" "$address" netmask "$mask" up
    route add default gw "$gateway"
fi
if [ -n "$ip6" ]; then
    ip link set eth0 up
    ip -6 addr add "${ip6%,*}" dev eth0
    ip -6 route add default via "${ip6#*,}" dev eth0
fi

mkdir /www
echo "$says" >/www/index.html
httpd -p 80 -h /www
for server in $(echo "$reach" | tr , ' '); do
    echo "reached $server: $(nc -w 10 "$server" 7 </dev/null)"
done
echo ready
while :; do sleep 60; done
