# shellcheck shell=bash
# A cluster of flanneld on three hosts: etcd, flanneld with the back ends vxlan and host-gw, and on each host the list that k3s
# writes. Each host is a network, mount and PID namespace with its own /run and /var/lib. The real libcni, by cnitool, adds
# network namespaces with busybox in them.

# shellcheck source=scripts/lib.sh
. /scripts/lib.sh

HOSTS=(a b c)
ETCD=http://198.51.100.1:2379

# The list of k3s, word for word (pkg/agent/flannel/setup.go).
k3s_list() {
    cat <<'LIST'
{
  "name":"cbr0",
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

# on HOST COMMAND...: runs a command in the namespaces of a host.
on() {
    local host=$1
    shift
    nsenter --target "${hosts[$host]}" --net --mount --pid -- "$@"
}

# start_host NAME NUMBER: a host on the wire between all hosts.
start_host() {
    local name=$1 number=$2 starter
    # shellcheck disable=SC2016 # the host's shell expands it
    unshare --net --mount --pid --fork --kill-child --propagation private bash -c '
        mount -t proc proc /proc && mount -t sysfs sysfs /sys
        for folder in /run /var/lib; do mount -t tmpfs -o mode=755 tmpfs "$folder"; done
        mkdir -p /run/netns /run/flannel /run/host
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

etcdctl_() { ETCDCTL_API=3 etcdctl --endpoints "$ETCD" "$@"; }

# configure BACKEND: both families.
configure() {
    etcdctl_ put /coreos.com/network/config "{\"EnableIPv4\":true,\"EnableIPv6\":true,\"Network\":\"10.42.0.0/16\",\"IPv6Network\":\"fd00:42::/56\",\"Backend\":{\"Type\":\"$1\"}}" >/dev/null
}

# start_flanneld HOST: waits for its lease.
start_flanneld() {
    nsenter --target "${hosts[$1]}" --net --mount --pid -- flanneld -etcd-endpoints "$ETCD" -iface eth0 -ip-masq >>"/tmp/flanneld-$1.log" 2>&1 &
    flannelds[$1]=$!
    until_true 300 on "$1" test -s /run/flannel/subnet.env ||
        { tail -n 20 "/tmp/flanneld-$1.log" && wrong "flanneld of host $1 writes no lease"; }
}

# stop_flanneld HOST
stop_flanneld() {
    on "$1" pkill -x flanneld || true
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

# cni HOST VERB CONTAINER [CAPABILITIES]
cni() {
    on "$1" env NETCONFPATH=/etc/cni/net.d CNI_PATH=/opt/cni/bin CAP_ARGS="${4:-}" cnitool "$2" cbr0 "/run/netns/$3"
}

# begin HOST CONTAINER [CAPABILITIES]: a container that serves a page.
begin() {
    on "$1" ip netns add "$2"
    cni "$1" add "$2" "${3:-}" >"/tmp/result-$2" 2>"/tmp/said" || { cat /tmp/said "/tmp/result-$2" && wrong "ADD of $2 on host $1"; }
    on "$1" ip netns exec "$2" "$BUSYBOX" httpd -p 80 -h /rootfs/www
}

# end HOST CONTAINER [CAPABILITIES]
end() {
    on "$1" bash -c "ip netns pids $2 | xargs -r kill"
    cni "$1" del "$2" "${3:-}" >/tmp/said 2>&1 || { cat /tmp/said && wrong "DEL of $2 on host $1"; }
    on "$1" ip netns del "$2"
}

# address HOST CONTAINER FAMILY
address() { on "$1" ip netns exec "$2" ip -o "$3" address show dev eth0 scope global | awk '{ sub("/.*", "", $4); print $4; exit }'; }

# fetches HOST CONTAINER URL [BYTES]
fetches() {
    local bytes
    bytes=$(on "$1" ip netns exec "$2" "$BUSYBOX" timeout 20 "$BUSYBOX" wget -q -O - "$3" 2>/dev/null | wc -c)
    [ "$bytes" -ge "${4:-1}" ]
}

pings() { on "$1" ip netns exec "$2" "$BUSYBOX" ping -q -c 1 -W 2 "$3"; }

reaches() {
    until_true 100 "$@" || wrong "a container of host $2 does not reach another host's: $*"
}

# cross BACKEND: containers of different hosts reach each other.
cross() {
    local backend=$1 v4 v6 mtu ports='{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}'
    begin a "web-$backend" "$ports"
    begin b "peer-$backend"
    begin c "far-$backend"
    v4=$(address a "web-$backend" -4) v6=$(address a "web-$backend" -6)
    for host in b:peer c:far; do
        reaches pings "${host%:*}" "${host#*:}-$backend" "$v4"
        reaches pings "${host%:*}" "${host#*:}-$backend" "$v6"
        reaches fetches "${host%:*}" "${host#*:}-$backend" "http://$v4/"
        reaches fetches "${host%:*}" "${host#*:}-$backend" "http://[$v6]/"
    done
    shown "$backend: containers of three hosts reach each other by ping and TCP, both families"
    reaches fetches b "peer-$backend" "http://$v4/big" 1000000
    mtu=$(on a ip netns exec "web-$backend" cat /sys/class/net/eth0/mtu 2>/dev/null || on a ip netns exec "web-$backend" ip link show eth0 | grep -o 'mtu [0-9]*' | cut -d' ' -f2)
    [ "$mtu" = "$(on a sed -n 's/^FLANNEL_MTU=//p' /run/flannel/subnet.env)" ] || wrong "the MTU is $mtu, not that of the lease"
    on b ip netns exec "peer-$backend" ping -q -c 1 -W 3 -M "do" -s $((mtu - 28)) "$v4" >/tmp/said 2>&1 || { cat /tmp/said && wrong "a packet of $mtu bytes does not pass"; }
    shown "$backend: 1 MB passes between hosts, and a packet of the whole MTU of $mtu"
    until_true 50 on b "$BUSYBOX" wget -q -O /dev/null http://198.51.100.10:8080/ || wrong "the host port is not reached from another host"
    shown "$backend: a host port is reached from another host"
    cni a check "web-$backend" "$ports" >/tmp/said 2>&1 || { cat /tmp/said && wrong "CHECK"; }
    end a "web-$backend" "$ports"
    end b "peer-$backend"
    end c "far-$backend"
}

limited() {
    local limits='{"bandwidth":{"ingressRate":8000000,"ingressBurst":800000,"egressRate":0,"egressBurst":0}}'
    begin a limited "$limits"
    on a tc qdisc show | grep -q 'qdisc tbf .*rate 8Mbit' || { on a tc qdisc show && wrong "there is no limit"; }
    end a limited "$limits"
    ! on a tc qdisc show | grep -q tbf || wrong "the limit stays"
    shown "a limit of the bandwidth is there, and removed"
}

# Containers of a host live on while flanneld and etcd are down, and new ones are added with the lease that is there.
interrupted() {
    local v4
    begin a before
    v4=$(address a before -4)
    begin b witness
    kill "$etcd_pid"
    wait "$etcd_pid" 2>/dev/null || true
    begin a meanwhile
    reaches pings b witness "$v4"
    reaches pings a meanwhile "$(address b witness -4)"
    end a meanwhile
    shown "etcd is down: a container starts, reaches another host's, and is removed"
    start_etcd
    stop_flanneld b
    start_flanneld b
    reaches pings b witness "$v4"
    end a before
    shown "flanneld was started again: the lease is the same, and traffic passes"
    # Another subnet for host b, as after its lease has expired.
    stop_flanneld b
    local former
    former=$(on b sed -n 's/^FLANNEL_SUBNET=//p' /run/flannel/subnet.env)
    etcdctl_ del --prefix /coreos.com/network/subnets >/dev/null
    on b rm /run/flannel/subnet.env
    for host in a c; do stop_flanneld "$host"; done
    on b bash -c 'ip link del flannel.1; ip link del flannel-v6.1' 2>/dev/null || true
    for host in a b c; do start_flanneld "$host"; done
    local now
    now=$(on b sed -n 's/^FLANNEL_SUBNET=//p' /run/flannel/subnet.env)
    if [ "$former" = "$now" ]; then wrong "host b has the same subnet, $now"; fi
    begin b moved
    on b ip -o -4 address show dev cni0 | grep -q "${now%/*}/" || { on b ip address show cni0 && wrong "cni0 has not the gateway of $now"; }
    ! cni b check witness >/tmp/said 2>&1 || wrong "CHECK does not see that the lease has changed"
    end b moved
    end b witness
    shown "host b has another subnet ($former, then $now): forceAddress gives cni0 the new gateway, CHECK of the old container fails, and both are removed"
}

nothing_is_left() {
    local host left
    for host in "${HOSTS[@]}"; do
        left=$(on "$host" bash -c '
            find /var/lib/cni/flannel /var/lib/cni/results /run/cni -type f 2>/dev/null | grep -v "/lock$\|\.lock$\|/stamp$\|last_reserved\|/filter-"
            find /var/lib/cni/networks -type f 2>/dev/null | grep -v "/lock$\|last_reserved\|\.cni-plugins-rs"
            ip -brief link show type veth | grep -v "^eth0"; ip -brief link show type ifb
            iptables-save | grep "CNI-DN-\|CNI-[0-9a-f]\{24\}"; ls /run/netns' || true)
        [ -z "$left" ] || wrong "on host $host is left: $left"
    done
    shown "all removed: no link, lease, rule, state file or result is left on the three hosts"
}

show_flannel() {
    local name number=0 backend
    declare -gA hosts=() flannelds=()
    printf 'version: flanneld %s, etcd %s\n' "$FLANNELD_VERSION" "$(etcd --version | sed -n 's/^etcd Version: //p')"
    k3s_list >/etc/cni/net.d/10-flannel.conflist
    head -c 1000000 /dev/zero >/rootfs/www/big
    ip link add wire type bridge
    ip address add 198.51.100.1/24 dev wire
    ip address add 2001:db8:1::1/64 dev wire nodad
    ip link set wire up
    for name in "${HOSTS[@]}"; do
        start_host "$name" "$number"
        number=$((number + 1))
    done
    start_etcd
    for backend in host-gw vxlan; do
        [ "$backend" = host-gw ] || ip link add vxlan-probe type vxlan id 1 dstport 8472 2>/dev/null || wrong "the kernel has no vxlan"
        ip link del vxlan-probe 2>/dev/null || true
        configure "$backend"
        for name in "${HOSTS[@]}"; do start_flanneld "$name"; done
        shown "$backend: flanneld has written a lease on three hosts"
        cross "$backend"
        if [ "$backend" = host-gw ]; then
            for name in "${HOSTS[@]}"; do
                stop_flanneld "$name"
                on "$name" rm /run/flannel/subnet.env
                remove_routes "$name"
            done
            etcdctl_ del --prefix /coreos.com/network/subnets >/dev/null
        fi
    done
    [ -n "$(on a pgrep -x flanneld || true)" ] || for name in "${HOSTS[@]}"; do start_flanneld "$name"; done
    limited
    interrupted
    nothing_is_left
}
