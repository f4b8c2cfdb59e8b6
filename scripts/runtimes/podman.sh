# shellcheck shell=bash
# podman 4 with its CNI back end: its own default list (bridge, portmap, firewall, tuning), and one that it writes itself, of
# both families, to which a container is connected while it runs.

write_podman_settings() {
    mkdir -p /etc/containers
    cat >/etc/containers/containers.conf <<'SETTINGS'
[network]
network_backend = "cni"
cni_plugin_dirs = ["/opt/cni/bin"]
network_config_dir = "/etc/cni/net.d"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
conmon_path = ["/stage/packages/usr/bin/conmon"]
[engine.runtimes]
runc = ["/stage/packages/usr/sbin/runc"]
[containers]
log_driver = "k8s-file"
SETTINGS
    printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n' \
        >/etc/containers/storage.conf
    echo '{"default":[{"type":"insecureAcceptAnything"}]}' >/etc/containers/policy.json
}

# run_web NAME OPTION...: podman takes SIGKILL for a request to stop, since the first process of a container takes no other.
# Whether a container may ping by default depends on the distribution.
run_web() {
    local name=$1
    shift
    podman run --detach --name "$name" --stop-signal KILL --cap-add NET_RAW "$@" --rootfs /rootfs /bin/busybox httpd -f -p 80 -h /www
}

expect_port() {
    expect_answer "$1, from outside" 192.0.2.1:8080 outside
    expect_answer "$1, from the host" 127.0.0.1:8080
}

default_network() {
    local id
    expect "podman run with a published port" run_web web --publish 8080:80
    id=$(podman inspect --format '{{.Id}}' web)
    expect_port "published port"
    expect "the container reaches a host outside" podman exec web ping -q -c 1 -W 3 192.0.2.2
    expect "podman stop" podman stop web
    expect_silence "stopped, from outside" 192.0.2.1:8080 outside
    expect_as_before "stopped"
    expect "podman start" podman start web
    expect_port "started again"
    expect "podman restart" podman restart web
    expect_port "restarted"
    expect "podman rm --force" podman rm --force web
    expect_no_trace "$id"
    expect_as_before "removed"
}

# Networks of podman's own making, one of them joined by a running container.
own_networks() {
    expect "podman network create, both families" \
        podman network create --ipv6 --subnet 10.90.0.0/24 --subnet fd00:90::/64 --disable-dns both
    expect "podman network create" podman network create --subnet 10.91.0.0/24 --disable-dns second
    expect "podman run with addresses that were asked for" \
        run_web web --network both:ip=10.90.0.7,ip=fd00:90::7,mac=02:00:00:00:90:07 --publish 8080:80
    expect_answer "the address that was asked for, IPv4" 10.90.0.7
    expect_answer "the address that was asked for, IPv6" '[fd00:90::7]'
    expect_port "published port"
    expect_answer "published port, from outside by IPv6" '[2001:db8::1]:8080' outside
    expect "the MAC address that was asked for" podman exec web grep -q 02:00:00:00:90:07 /sys/class/net/eth0/address
    expect "podman network connect" podman network connect second web
    expect "a second interface" podman exec web ip addr show dev eth1
    expect "podman network disconnect" podman network disconnect second web
    expect_port "published port after that"
    expect "podman rm --force" podman rm --force web
    expect "podman network rm" podman network rm both second
    expect_no_trace 10.90.0. 10.91.0. fd00:90::
}

# The image of a release installs the plugins into a folder of the host, and removes them.
image() {
    local folder=/var/lib/image-of-plugins run
    [ -d /stage/image ] || return 0
    mkdir "$folder"
    expect "podman load of the image" podman load --quiet --input /stage/image/*.tar
    run=(podman run --rm --network none --volume "$folder:/host/opt/cni/bin"
        "$(podman images --format '{{.Repository}}:{{.Tag}}' cni-plugins-rs)")
    expect "a run of the image" "${run[@]}"
    expect "the plugins are in the folder of the host" cmp "$folder/bridge" /opt/cni/bin/bridge
    expect "the way back" "${run[@]}" uninstall /host/opt/cni/bin
    expect "the folder is empty again" rmdir "$folder"
}

show_podman() {
    printf 'version: podman %s\n' "$(podman --version | cut -d' ' -f3)"
    write_podman_settings
    [ "$(podman info --format '{{.Host.NetworkBackend}}')" = cni ] || wrong "podman does not use CNI"
    run_web first --publish 8081:80 >/dev/null
    podman rm --force first >/dev/null
    remember
    default_network
    own_networks
    image
}
