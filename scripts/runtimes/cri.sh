# shellcheck shell=bash
# containerd's CRI on the hosts of a cluster, called as kubelet calls it. Images come from a file, since there is no registry: the
# pause container and the others are busybox.

IMAGE=localhost/busybox:1

# prepare_cri: what all hosts share.
prepare_cri() {
    declare -gA pods=() containers=() namespaces=()
    protoc --proto_path=/scripts/runtimes --python_out=/tmp cri.proto
    make_image /tmp/busybox.tar
    cat >/tmp/containerd.toml <<CONFIG
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$IMAGE"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
CONFIG
}

# make_image FILE: as docker save writes it. Its first process does nothing.
make_image() {
    local work=/tmp/image content
    mkdir "$work"
    tar -C /rootfs -cf "$work/layer.tar" .
    content=$(sha256sum <"$work/layer.tar")
    printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/bin/busybox","sleep","infinity"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$(dpkg --print-architecture)" "${content%% *}" >"$work/config.json"
    printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$IMAGE" >"$work/manifest.json"
    tar -C "$work" -cf "$1" manifest.json config.json layer.tar
}

# start_cri HOST
start_cri() {
    on "$1" containerd --config /tmp/containerd.toml --log-level warn >>"/tmp/containerd-$1.log" 2>&1 &
    until_true 300 on "$1" ctr version || { tail -n 20 "/tmp/containerd-$1.log" && wrong "containerd of host $1 does not start"; }
    on "$1" ctr --namespace k8s.io images import --snapshotter native /tmp/busybox.tar >/tmp/said 2>&1 ||
        { cat /tmp/said && wrong "host $1 cannot have the image"; }
}

cri() {
    local host=$1
    shift
    on "$host" env PYTHONPATH=/stage/packages/usr/lib/python3/dist-packages:/tmp /usr/bin/python3 /scripts/runtimes/cri.py "$@"
}

# begin HOST POD [PORT:PORT [RATE]]: a pod whose container serves a page.
begin() {
    local told
    told=$(cri "$1" run "$2" "$IMAGE" "${3:--}" "${4:--}" -- /bin/busybox httpd -f -p 80 -h /www 2>/tmp/said) ||
        { cat /tmp/said && tail -n 20 "/tmp/containerd-$1.log" && wrong "pod $2 does not start on host $1"; }
    read -r "pods[$2]" "containers[$2]" "namespaces[$2]" <<<"$told"
}

# end HOST POD
end() { cri "$1" end "${pods[$2]}" 2>/tmp/said || { cat /tmp/said && wrong "pod $2 of host $1 cannot be removed"; }; }

# inside HOST POD COMMAND...
inside() {
    local host=$1 pod=$2
    shift 2
    cri "$host" exec "${containers[$pod]}" /bin/busybox "$@"
}

# in_network HOST POD COMMAND...: a program of the host, in the pod's network.
in_network() {
    local host=$1 pod=$2
    shift 2
    on "$host" nsenter --net="${namespaces[$pod]}" "$@"
}

# address HOST POD FAMILY
address() {
    local without=-v
    [ "$3" = -4 ] || without=''
    # shellcheck disable=SC2086 # a word or none
    cri "$1" addresses "${pods[$2]}" | grep $without : | head -n 1
}
