# shellcheck shell=bash
# Nomad on a cluster of flanneld: a server on host a and clients on hosts b and c, with jobs whose network has the mode cni/flannel.
# Services are Nomad's own, registered with the allocations' addresses. Tasks are raw_exec's, so no image is needed.

# shellcheck source=scripts/runtimes/cluster.sh
. /scripts/runtimes/cluster.sh
# shellcheck source=scripts/runtimes/nomad_blocks.sh
. /scripts/runtimes/nomad_blocks.sh

export NOMAD_ADDR=http://198.51.100.10:4646

# write_agent HOST NUMBER: what all agents have in common; the blocks of the role come by standard input.
write_agent() {
    mkdir -p /etc/nomad.d
    {
        cat <<AGENT
name      = "$1"
data_dir  = "/var/lib/nomad"
bind_addr = "198.51.100.1$2"
log_level = "DEBUG"
leave_on_terminate = true
AGENT
        cat
    } >"/etc/nomad.d/$1.hcl"
}

write_server() {
    write_agent a 0 <<'AGENT'
server {
  enabled          = true
  bootstrap_expect = 1
}
AGENT
}

# write_client HOST NUMBER: the control groups of the clients are not shared.
write_client() {
    write_agent "$1" "$2" <<AGENT
client {
  enabled           = true
  servers           = ["198.51.100.10:4647"]
  network_interface = "eth0"
  cni_path          = "/opt/cni/bin"
  cni_config_dir    = "/etc/cni/net.d"
  cgroup_parent     = "nomad-$1.slice"
  cpu_total_compute = 100000
$(cloud_fingerprints_off)
}
$(raw_exec)
AGENT
}

write_job() {
    cat >/etc/nomad.d/web.job <<JOB
job "web" {
  spread {
    attribute = "\${node.unique.name}"
  }
  group "g" {
    count = 2
    network {
      mode = "cni/flannel"
      port "http" {
        to = 80
      }
    }
    service {
      name         = "web"
      provider     = "nomad"
      port         = "http"
      address_mode = "alloc"
    }
$(web_task)
  }
}
JOB
}

start_agent() { on "$1" nomad agent -config "/etc/nomad.d/$1.hcl" >"/tmp/nomad-$1.log" 2>&1 & }

# ready: the hosts whose clients are ready. By a template nomad prints an empty line last, which sort would put first.
ready() { nomad node status -t '{{range .}}{{if eq .Status "ready"}}{{.Name}}{{"\n"}}{{end}}{{end}}' | sed '/^$/d' | sort; }

are_ready() { [ "$(ready)" = "$(printf 'b\nc')" ]; }

node_of() { nomad node status -t "{{range .}}{{if eq .Name \"$1\"}}{{.ID}}{{end}}{{end}}"; }

# allocations: a line for each that runs, with the name of its host.
allocations() { nomad job allocs -t '{{range .}}{{if eq .ClientStatus "running"}}{{.ID}} {{.NodeName}}{{"\n"}}{{end}}{{end}}' web | sed '/^$/d'; }

# run_on HOST...: the job runs on just these hosts, once for each time that one is named.
run_on() { [ "$(allocations | awk '{ print $2 }' | sort)" = "$(printf '%s\n' "$@")" ]; }

# services: the addresses and ports that the service has, a line for each.
services() { nomad service info -t '{{range .}}{{.Address}}:{{.Port}}{{"\n"}}{{end}}' web | sed '/^$/d'; }

# serve_each_other COUNT: from the namespace of each allocation, each of so many addresses of the service answers.
serve_each_other() {
    local allocation host service
    [ "$(services | grep -c .)" -eq "$1" ] || return
    while read -r allocation host; do
        for service in $(services); do
            [ "$(on "$host" ip netns exec "$allocation" timeout 3 "$BUSYBOX" wget -q -O - "http://$service/" </dev/null)" = "hello from a container" ] || return
        done
    done <<<"$(allocations)"
}

# are_in_subnet HOST: all addresses of the service are in the lease of a host.
are_in_subnet() {
    local prefix
    prefix=$(subnet "$1")
    ! services | grep -v "^${prefix%.*}\."
}

fail_with_logs() {
    local name
    nomad job status web || true
    for name in "${HOSTS[@]}"; do tail -n 20 "/tmp/nomad-$name.log"; done
    wrong "$1"
}

drain() { nomad node drain -enable -yes -detach -deadline 30s "$(node_of "$1")"; }

show_flannel_nomad() {
    local name
    printf 'version: nomad %s, flanneld %s\n' "$(nomad version | awk 'NR == 1 { print $2 }')" "$FLANNELD_VERSION"
    # Nomad leaves lo down unless the list has loopback, and k3s's has none: an allocation would not reach its own address.
    k3s_list flannel | sed 's/"plugins":\[/&{"type":"loopback"},/' >/etc/cni/net.d/flannel.conflist
    start_hosts
    start_flannel vxlan 64
    write_server
    write_client b 1
    write_client c 2
    write_job
    for name in "${HOSTS[@]}"; do start_agent "$name"; done
    until_true 900 are_ready || fail_with_logs "the clients do not become ready"
    shown "one server and two clients are ready"
    nomad job run -detach /etc/nomad.d/web.job >/tmp/said 2>&1 || { cat /tmp/said && fail_with_logs "the job is refused"; }
    until_true 900 run_on b c || fail_with_logs "the job does not run on both clients"
    shown "mode cni/flannel: an allocation runs on each client"
    expect "the addresses of the service reach each other across hosts" until_true 300 serve_each_other 2
    expect "host b is drained" drain b
    until_true 900 run_on c c || fail_with_logs "the allocation of host b does not move to host c"
    until_true 300 is_clean b || wrong "on host b is left: $(left_on b)"
    shown "the allocation has moved to host c, and nothing is left on host b"
    expect "the service has the addresses of host c alone, and they reach each other" until_true 300 serve_each_other 2
    expect "they are in the lease of host c" are_in_subnet c
    expect "the job is stopped" nomad job stop -purge -detach web
    expect_nothing_left
}
