# shellcheck shell=bash
# containerd by ctr, whose `run --cni` uses the library that Nomad and CRI use: the list of containerd's own installation
# script, both families. ctr deletes with an empty CNI_NETNS, after the namespace has gone.

# start_containerd: with its state on this machine alone.
start_containerd() {
    containerd --log-level warn >/tmp/containerd.log 2>&1 &
    until_true 100 ctr version || { cat /tmp/containerd.log && wrong "containerd does not start"; }
}

write_containerd_list() {
    cat >/etc/cni/net.d/10-containerd-net.conflist <<'LIST'
{"cniVersion":"0.4.0","name":"containerd-net","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":true,"promiscMode":true,
  "ipam":{"type":"host-local","ranges":[[{"subnet":"10.88.0.0/16"}],[{"subnet":"2001:4860:4860::/64"}]],
          "routes":[{"dst":"0.0.0.0/0"},{"dst":"::/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
LIST
}

in_container() {
    local name=$1
    shift
    ctr task exec --exec-id "exec-$RANDOM$RANDOM" "$name" /bin/busybox "$@"
}

is_running() { ctr task ls | grep -q "^$1 .*RUNNING"; }

# begin NAME: ctr stays in front of the container until its end, and only then deletes the network.
begin() {
    ctr run --rm --cni --rootfs /rootfs "$1" /bin/busybox httpd -f -p 80 -h /www >"/tmp/ctr-$1.log" 2>&1 &
    fronts[$1]=$!
    until_true 100 is_running "$1" || { cat "/tmp/ctr-$1.log" && wrong "ctr does not run $1"; }
}

end() {
    ctr task kill --signal KILL "$1"
    wait "${fronts[$1]}" || true
    ! grep -i 'cni\|network' "/tmp/ctr-$1.log" || wrong "ctr complains when it deletes $1"
}

address_of() { in_container "$1" ip -o "$2" addr show dev eth0 | grep -oE "inet6? $3[0-9a-f.:]+" | cut -d' ' -f2; }

show_containerd() {
    local name target v4 v6
    declare -gA fronts=()
    printf 'version: containerd %s, %s\n' "$(containerd --version | cut -d' ' -f3)" "$(runc --version | head -n 1)"
    write_containerd_list
    start_containerd
    begin first
    end first
    expect_no_trace first 10.88.0.2/32 2001:4860:4860::2
    remember
    begin web
    begin peer
    v4=$(address_of web -4 10.88.) v6=$(address_of web -6 2001:4860:)
    shown "ctr run --cni: the container has $v4 and $v6"
    expect_answer "from the host, IPv4" "$v4"
    expect_answer "from the host, IPv6" "[$v6]"
    for target in "$v4" "$v6" 10.88.0.1 2001:4860:4860::1 192.0.2.2 2001:db8::2; do
        expect "another container reaches $target" in_container peer ping -q -c 1 -W 3 "$target"
    done
    for name in web peer; do
        [ -e "/var/lib/cni/results/containerd-net-default-$name-eth0" ] || wrong "the runtime has no result of $name"
    done
    end web
    expect_no_trace "default-web" "$v4/32" "networks/containerd-net/$v4"
    shown "one of two containers deleted: nothing of it is left"
    expect "the other still reaches a host outside" in_container peer ping -q -c 1 -W 3 192.0.2.2
    end peer
    expect_as_before "both deleted, with an empty CNI_NETNS"
}
