# shellcheck shell=bash
# A cluster of three hosts with etcd and flanneld. Each host is a network, mount and PID namespace with its own /run and /var/lib.

# shellcheck source=scripts/lib.sh
. /scripts/lib.sh

HOSTS=(a b c)
ETCD=http://198.51.100.1:2379

# k3s_list NAME: the list of k3s, word for word (pkg/agent/flannel/setup.go) but for the name, which is cbr0 there.
k3s_list() {
    cat <<LIST
{
  "name":"$1",
  "cniVersion":"1.0.0",
  "plugins":[
    {
      "type":"flannel",
      "delegate":{
        "hairpinMode":true,
        "forceAddress":true,
        "isDefaultGateway":true
      }
    },
    {
      "type":"portmap",
      "capabilities":{
        "portMappings":true
      }
    },
    {
      "type":"bandwidth",
      "capabilities":{
        "bandwidth":true
      }
    }
  ]
}
LIST
}

# on HOST COMMAND...: runs a command in the namespaces of a host. For a time limit use the machine's timeout: that of busybox ends its
# parent by number, and the number of one outside of the PID namespace is 0, which stands for the whole machine.
on() {
    local host=$1
    shift
    nsenter --target "${hosts[$host]}" --net --mount --pid -- "$@"
}

# start_host NAME NUMBER: a host on the wire between all hosts. Its folder of namespaces is a mount of its own, which ip netns would
# make later, over the namespaces that are there by then.
start_host() {
    local name=$1 number=$2 starter
    # shellcheck disable=SC2016 # the host's shell expands it
    unshare --net --mount --pid --fork --kill-child --propagation private bash -c '
        mount -t proc proc /proc
        mount --rbind /sys/fs/cgroup /old && mount -t sysfs sysfs /sys && mount --move /old /sys/fs/cgroup
        for folder in /run /var/lib; do mount -t tmpfs -o mode=755 tmpfs "$folder"; done
        mkdir -p /run/netns /run/flannel /run/host
        mount --bind /run/netns /run/netns && mount --make-shared /run/netns
        touch /run/host/ready
        exec sleep infinity' &
    starter=$!
    until_true 100 pgrep -P "$starter" || wrong "host $name does not start"
    hosts[$name]=$(pgrep -P "$starter")
    until_true 100 on "$name" test -e /run/host/ready || wrong "host $name has no folders"
    ip link add "wire-$name" master wire type veth peer name eth0 netns "${hosts[$name]}"
    ip link set "wire-$name" up
    on "$name" ip link set lo up
    on "$name" ip address add "198.51.100.1$number/24" dev eth0
    on "$name" ip address add "2001:db8:1::1$number/64" dev eth0 nodad
    on "$name" ip link set eth0 up
    on "$name" ip route add default via 198.51.100.1
    on "$name" ip -6 route add default via 2001:db8:1::1
    on "$name" sysctl -q net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
}

start_etcd() {
    etcd --name one --data-dir /var/lib/etcd --listen-client-urls "$ETCD" --advertise-client-urls "$ETCD" \
        --listen-peer-urls http://127.0.0.1:2380 --logger zap >>/tmp/etcd.log 2>&1 &
    etcd_pid=$!
    until_true 150 etcdctl_ endpoint health || { tail -n 20 /tmp/etcd.log && wrong "etcd does not start"; }
}

stop_etcd() {
    kill "$etcd_pid"
    wait "$etcd_pid" 2>/dev/null || true
}

etcdctl_() { ETCDCTL_API=3 etcdctl --endpoints "$ETCD" "$@"; }

# configure BACKEND FIRST: both families, and the first of the 32 subnets that hosts may have. flanneld chooses one of them at random.
#
# No host may have a subnet that another had before: its bridge keeps the old IPv6 address beside the new one, as the reference's does
# with forceAddress, and so a route of its own to that subnet.
configure() {
    local last=$(($2 + 31))
    etcdctl_ put /coreos.com/network/config "$(printf '{"EnableIPv4":true,"EnableIPv6":true,"Backend":{"Type":"%s"},
        "Network":"10.42.0.0/16","SubnetMin":"10.42.%d.0","SubnetMax":"10.42.%d.0",
        "IPv6Network":"fd00:42::/56","IPv6SubnetMin":"fd00:42:0:%x::","IPv6SubnetMax":"fd00:42:0:%x::"}' \
        "$1" "$2" "$last" "$2" "$last")" >/dev/null
}

# start_flanneld HOST: waits for its lease.
start_flanneld() {
    nsenter --target "${hosts[$1]}" --net --mount --pid -- flanneld -etcd-endpoints "$ETCD" -iface eth0 -ip-masq >>"/tmp/flanneld-$1.log" 2>&1 &
    flannelds[$1]=$!
    until_true 300 on "$1" test -s /run/flannel/subnet.env ||
        { tail -n 20 "/tmp/flanneld-$1.log" && wrong "flanneld of host $1 writes no lease"; }
}

has_no_flanneld() { ! on "$1" pgrep -x flanneld; }

# stop_flanneld HOST: a second signal ends one that waits for what it has started.
stop_flanneld() {
    on "$1" pkill -x flanneld || true
    until_true 100 has_no_flanneld "$1" || on "$1" pkill -x flanneld || true
    wait "${flannelds[$1]}" 2>/dev/null || true
}

# remove_routes HOST: those that flanneld leaves behind.
remove_routes() {
    local route
    on "$1" ip route show | grep '^10\.42\..* via ' | while read -r route; do
        # shellcheck disable=SC2086 # a route is many words
        on "$1" ip route del $route </dev/null
    done
    on "$1" ip -6 route show | grep '^fd00:42:.* via ' | while read -r route; do
        # shellcheck disable=SC2086 # as above
        on "$1" ip -6 route del $route </dev/null
    done || true
}

# start_hosts: three hosts on one wire, and etcd before them.
start_hosts() {
    local name number=0
    declare -gA hosts=() flannelds=()
    ip link add wire type bridge
    ip address add 198.51.100.1/24 dev wire
    ip address add 2001:db8:1::1/64 dev wire nodad
    ip link set wire up
    for name in "${HOSTS[@]}"; do
        start_host "$name" "$number"
        number=$((number + 1))
    done
    start_etcd
}

# start_flannel BACKEND FIRST: on all hosts.
start_flannel() {
    local name
    configure "$1" "$2"
    for name in "${HOSTS[@]}"; do start_flanneld "$name"; done
    shown "$1: flanneld has written a lease on three hosts"
}

# subnet HOST: the IPv4 subnet of its lease.
subnet() { on "$1" sed -n 's/^FLANNEL_SUBNET=//p' /run/flannel/subnet.env; }

# left_on HOST: what containers have left there.
left_on() {
    on "$1" bash -c '
        find /var/lib/cni/flannel /var/lib/cni/results /run/cni -type f 2>/dev/null | grep -v "/lock$\|\.lock$\|/stamp$\|/repaired$\|last_reserved\|/filter-"
        find /var/lib/cni/networks -type f 2>/dev/null | grep -v "/lock$\|last_reserved\|\.cni-plugins-rs"
        ip -brief link show type veth | grep -v "^eth0"; ip -brief link show type ifb
        iptables-save | grep "CNI-DN-\|CNI-[0-9a-f]\{24\}"; ls /run/netns' || true
}

is_clean() { [ -z "$(left_on "$1")" ]; }

# expect_nothing_left: a runtime may take a moment to remove its last namespace.
expect_nothing_left() {
    local host
    for host in "${HOSTS[@]}"; do
        until_true 100 is_clean "$host" || wrong "on host $host is left: $(left_on "$host")"
    done
    shown "all removed: no link, lease, rule, state file, result or namespace is left on the three hosts"
}
