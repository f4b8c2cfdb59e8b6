# shellcheck shell=bash
# The list of k3s on a cluster of flanneld, with the back ends vxlan and host-gw. containerd's CRI makes pods of busybox, as kubelet
# has it do; cnitool adds the one container that needs a CHECK, since CRI has none.

# shellcheck source=scripts/runtimes/cluster.sh
. /scripts/runtimes/cluster.sh
# shellcheck source=scripts/runtimes/cri.sh
. /scripts/runtimes/cri.sh

# cni HOST VERB CONTAINER
cni() { on "$1" env NETCONFPATH=/etc/cni/net.d CNI_PATH=/opt/cni/bin cnitool "$2" cbr0 "/run/netns/$3"; }

pings() { inside "$1" "$2" ping -q -c 1 -W 2 "$3"; }

# fetches HOST POD URL [BYTES]
fetches() {
    local bytes
    bytes=$(inside "$1" "$2" timeout 20 /bin/busybox wget -q -O - "$3" 2>/dev/null | wc -c)
    [ "$bytes" -ge "${4:-1}" ]
}

reaches() {
    until_true 60 "$@" || { way && wrong "a pod of host $2 does not reach another host's: $*"; }
}

# way: what decides on the packets between the hosts.
way() {
    local host family
    for host in "${HOSTS[@]}"; do
        printf 'host %s:\n' "$host"
        on "$host" ip -brief address
        on "$host" bridge fdb show
        for family in -4 -6; do
            on "$host" ip "$family" route
            on "$host" ip "$family" neigh show nud all
        done
        tail -n 40 "/tmp/flanneld-$host.log"
    done
}

# passes_whole_packet HOST POD ADDRESS MTU
passes_whole_packet() { in_network "$1" "$2" ping -q -c 1 -W 3 -M "do" -s $(($4 - 28)) "$3"; }

has_port() { on b timeout 5 "$BUSYBOX" wget -q -O /dev/null "http://198.51.100.10:8080/"; }

# is_whole HOST COUNT: the tool finds so many pods, and nothing missing.
is_whole() { [ "$(on "$1" /opt/cni/bin/cni-plugins list | grep -c '^cbr0 .* whole$')" -eq "$2" ]; }

# cross BACKEND: pods of different hosts reach each other.
cross() {
    local backend=$1 v4 v6 mtu host
    begin a "web-$backend" 8080:80
    begin b "peer-$backend"
    begin c "far-$backend"
    v4=$(address a "web-$backend" -4) v6=$(address a "web-$backend" -6)
    for host in b:peer c:far; do
        reaches pings "${host%:*}" "${host#*:}-$backend" "$v4"
        reaches pings "${host%:*}" "${host#*:}-$backend" "$v6"
        reaches fetches "${host%:*}" "${host#*:}-$backend" "http://$v4/"
        reaches fetches "${host%:*}" "${host#*:}-$backend" "http://[$v6]/"
    done
    shown "$backend: containerd's pods on three hosts reach each other by ping and TCP, both families"
    reaches fetches b "peer-$backend" "http://$v4/big" 1000000
    mtu=$(inside a "web-$backend" cat /sys/class/net/eth0/mtu)
    [ "$mtu" = "$(on a sed -n 's/^FLANNEL_MTU=//p' /run/flannel/subnet.env)" ] || wrong "the MTU is $mtu, not that of the lease"
    expect "$backend: 1 MB passes between hosts, and a packet of the whole MTU of $mtu" passes_whole_packet b "peer-$backend" "$v4" "$mtu"
    expect "$backend: a host port is reached from another host" until_true 50 has_port
    expect "$backend: nothing is missing of the pod" is_whole a 1
    flushed
    end a "web-$backend"
    end b "peer-$backend"
    end c "far-$backend"
}

# Somebody flushes the packet filter of host a, on which a pod with a port runs.
flushed() {
    on a bash -c 'iptables -t nat -F && iptables -F && ip6tables -t nat -F && ip6tables -F'
    ! has_port || wrong "the host port answers after a flush"
    on a /opt/cni/bin/cni-plugins repair >/tmp/said 2>&1 || { cat /tmp/said && wrong "repair fails"; }
    expect "rules flushed, then repaired: the host port answers again" until_true 50 has_port
    expect "repair leaves nothing missing" is_whole a 1
}

limited() {
    begin a limited - 8M
    on a tc qdisc show | grep -q 'qdisc tbf .*rate 8Mbit' || { on a tc qdisc show && wrong "there is no limit"; }
    end a limited
    ! on a tc qdisc show | grep -q tbf || wrong "the limit stays"
    shown "a limit of the bandwidth, by an annotation of the pod, is there, and removed"
}

# Pods of a host live on while flanneld and etcd are down, and new ones are added with the lease that is there.
interrupted() {
    local v4
    begin a before
    v4=$(address a before -4)
    begin b witness
    stop_etcd
    begin a meanwhile
    reaches pings b witness "$v4"
    reaches pings a meanwhile "$(address b witness -4)"
    end a meanwhile
    shown "etcd is down: a pod starts, reaches another host's, and is removed"
    start_etcd
    stop_flanneld b
    start_flanneld b
    reaches pings b witness "$v4"
    end a before
    shown "flanneld was started again: the lease is the same, and traffic passes"
}

# Another subnet for host b, as after its lease has expired.
moved() {
    local former now host
    on b ip netns add checked
    cni b add checked >/tmp/said 2>&1 || { cat /tmp/said && wrong "ADD by cnitool on host b"; }
    former=$(subnet b)
    for host in "${HOSTS[@]}"; do stop_flanneld "$host"; done
    etcdctl_ del --prefix /coreos.com/network/subnets >/dev/null
    configure vxlan 128
    on b rm /run/flannel/subnet.env
    on b bash -c 'ip link del flannel.1; ip link del flannel-v6.1' 2>/dev/null || true
    for host in "${HOSTS[@]}"; do start_flanneld "$host"; done
    now=$(subnet b)
    if [ "$former" = "$now" ]; then wrong "host b has the same subnet, $now"; fi
    on b /opt/cni/bin/cni-plugins doctor >/tmp/doctor 2>&1 || true
    grep -q "flannel: cni0 has the address $former, and /run/flannel/subnet.env says ${now%.*}.0/24" /tmp/doctor ||
        { cat /tmp/doctor && wrong "doctor does not say that lease and bridge disagree"; }
    shown "host b has another subnet ($former, then $now), and doctor says that lease and bridge disagree"
    begin b moved
    on b ip -o -4 address show dev cni0 | grep -q "${now%/*}/" || { on b ip address show cni0 && wrong "cni0 has not the gateway of $now"; }
    begin c distant
    reaches pings c distant "$(address b moved -4)"
    shown "forceAddress gives cni0 the new gateway, and another host reaches a new pod"
    ! cni b check checked >/tmp/said 2>&1 || wrong "CHECK does not see that the lease has changed"
    end c distant
    end b moved
    end b witness
    cni b del checked >/tmp/said 2>&1 || { cat /tmp/said && wrong "DEL by cnitool on host b"; }
    on b ip netns del checked
    shown "CHECK of an old container fails, and old and new are removed"
}

# Ends the back end host-gw, whose routes flanneld leaves behind.
leave_host_gw() {
    local name
    for name in "${HOSTS[@]}"; do
        stop_flanneld "$name"
        on "$name" rm /run/flannel/subnet.env
        remove_routes "$name"
    done
    etcdctl_ del --prefix /coreos.com/network/subnets >/dev/null
}

show_flannel() {
    local name
    printf 'version: flanneld %s, etcd %s, containerd %s\n' "$FLANNELD_VERSION" "$(etcd --version | sed -n 's/^etcd Version: //p')" \
        "$(containerd --version | cut -d' ' -f3)"
    k3s_list cbr0 >/etc/cni/net.d/10-flannel.conflist
    head -c 1000000 /dev/zero >/rootfs/www/big
    start_hosts
    prepare_cri
    for name in "${HOSTS[@]}"; do start_cri "$name"; done
    start_flannel host-gw 32
    cross host-gw
    leave_host_gw
    ip link add vxlan-probe type vxlan id 1 dstport 8472 || wrong "the kernel has no vxlan"
    ip link del vxlan-probe
    start_flannel vxlan 64
    cross vxlan
    limited
    interrupted
    moved
    expect_nothing_left
}
