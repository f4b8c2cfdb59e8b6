# shellcheck shell=bash
# nerdctl on containerd: its own default list (bridge, portmap, firewall, tuning), which it writes after it has asked for the
# versions of the plugins, and one that it is told to make, of both families. It deletes twice, with an empty CNI_NETNS.

# shellcheck source=scripts/runtimes/containerd.sh
. /scripts/runtimes/containerd.sh

# As podman's: the first process of a container takes no other signal.
nerdctl_run() {
    local name=$1
    shift
    nerdctl run --detach --name "$name" --stop-signal SIGKILL --security-opt apparmor=unconfined --snapshotter native "$@" \
        --rootfs /rootfs /bin/busybox httpd -f -p 80 -h /www
}

expect_published() {
    expect_answer "$1, from outside" 192.0.2.1:8080 outside
    expect_answer "$1, from the host" 127.0.0.1:8080
}

nerdctl_default_network() {
    local id
    expect "nerdctl run with a published port" nerdctl_run web --publish 8080:80
    id=$(nerdctl inspect --format '{{.ID}}' web)
    expect_published "published port"
    expect "the container reaches a host outside" nerdctl exec web ping -q -c 1 -W 3 192.0.2.2
    expect "nerdctl stop" nerdctl stop web
    expect_silence "stopped, from outside" 192.0.2.1:8080 outside
    expect "nerdctl start" nerdctl start web
    expect_published "started again"
    expect "nerdctl restart" nerdctl restart web
    expect_published "restarted"
    expect "nerdctl rm --force" nerdctl rm --force web
    expect_no_trace "$id"
    expect_as_before "removed"
}

nerdctl_own_network() {
    expect "nerdctl network create, both families" \
        nerdctl network create --ipv6 --subnet 10.90.0.0/24 --subnet fd00:90::/64 both
    expect "nerdctl run with an address that was asked for" nerdctl_run web --network both --ip 10.90.0.7 --publish 8080:80
    expect_answer "the address that was asked for" 10.90.0.7
    expect_published "published port"
    # nerdctl writes no route of IPv6 into its list.
    expect "the container reaches its gateway by IPv6" nerdctl exec web ping -q -c 1 -W 3 fd00:90::1
    expect "nerdctl rm --force" nerdctl rm --force web
    expect "nerdctl network rm" nerdctl network rm both
    expect_no_trace 10.90.0. fd00:90::
}

show_nerdctl() {
    printf 'version: nerdctl %s, containerd %s\n' "$(nerdctl --version | cut -d" " -f3)" "$(containerd --version | cut -d' ' -f3)"
    start_containerd
    nerdctl_run first --publish 8081:80 >/dev/null
    nerdctl rm --force first >/dev/null
    remember
    nerdctl_default_network
    nerdctl_own_network
}
