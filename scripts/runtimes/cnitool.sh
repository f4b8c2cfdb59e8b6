# shellcheck shell=bash
# The real cnitool, on libcni: the list that Nomad writes, through all that cnitool can ask for, and the same list in version
# 1.1.0, which has STATUS and GC.

# shellcheck source=scripts/lib.sh
. /scripts/lib.sh
export NETCONFPATH=/etc/cni/net.d CNI_PATH=/opt/cni/bin

# cni VERB NETWORK NAME: with the port that the container publishes.
cni() {
    CAP_ARGS='{"portMappings":[{"HostPort":8080,"ContainerPort":80,"Protocol":"tcp","HostIP":""}]}' \
        CNI_ARGS="IgnoreUnknown=true;NOMAD_ALLOC_ID=$3" cnitool "$1" "$2" "/run/netns/$3"
}

serve() { ip netns exec "$1" "$BUSYBOX" httpd -f -p 80 -h /rootfs/www & }

# live NETWORK: one container from ADD to DEL.
live() {
    local network=$1 server
    ip netns add web
    remember
    expect "$network: status" cni status "$network" web
    expect "$network: add" cni add "$network" web
    serve web
    server=$!
    expect_answer "$network: published port, from outside" 192.0.2.1:8080 outside
    expect_answer "$network: published port, from outside by IPv6" '[2001:db8::1]:8080' outside
    expect_answer "$network: published port, from the host" 127.0.0.1:8080
    expect "$network: the container reaches a host outside by IPv6" ip netns exec web "$BUSYBOX" ping -q -c 1 -W 3 2001:db8::2
    expect "$network: check" cni check "$network" web
    iptables -t nat -F POSTROUTING
    if cni check "$network" web >/dev/null 2>&1; then wrong "$network: check misses the masquerade"; fi
    shown "$network: check fails while the masquerade is gone"
    expect "$network: add again after del" eval "cni del $network web && cni add $network web && cni check $network web"
    kill "$server"
    expect "$network: del" cni del "$network" web
    expect "$network: del twice" cni del "$network" web
    expect_as_before "$network: deleted"
    ip netns del web
}

# lose NETWORK: containers whose namespaces are gone without DEL.
lose() {
    local name
    remember
    for name in one two; do
        ip netns add "$name"
        CNI_ARGS='' cnitool add "$1" "/run/netns/$name" >/dev/null
        ip netns del "$name"
    done
    ! is_as_before || wrong "$1: two containers make no difference"
    expect "$1: gc of two containers that were lost" cnitool gc "$1" /run/netns/one
    expect_as_before "$1: gc"
}

show_cnitool() {
    local network
    printf 'version: cnitool %s\n' "$CNITOOL_VERSION"
    nomad_conflist >/etc/cni/net.d/nomad.conflist
    nomad_conflist | sed 's/0\.4\.0/1.1.0/; s/"name":"nomad"/"name":"nomad-newer"/' >/etc/cni/net.d/nomad-newer.conflist
    iptables -P FORWARD DROP
    iptables -N NOMAD-ADMIN
    iptables -A NOMAD-ADMIN -o nomad -d 172.26.64.0/20 -j ACCEPT
    ip netns add first
    for network in nomad nomad-newer; do
        cni add "$network" first >/dev/null
        cni del "$network" first
    done
    ip netns del first
    live nomad
    live nomad-newer
    lose nomad-newer
}
