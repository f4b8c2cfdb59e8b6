# shellcheck shell=bash
# Nomad with Consul: a group whose connections go through a transparent proxy, for which Nomad calls consul-cni. In place of the
# proxy runs a server that answers every request with its own page.
# shellcheck source=scripts/runtimes/nomad.sh
. /scripts/runtimes/nomad.sh

PROXY="hello from the proxy"
OUTSIDE="hello from outside"

write_mesh_job() {
    cat >/etc/nomad.d/mesh.job <<JOB
job "mesh" {
  group "g" {
    network {
      mode = "bridge"
      port "http" {
        static = 8080
        to     = 80
      }
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    service {
      name = "mesh"
      port = "80"
      connect {
        sidecar_service {
          proxy {
            transparent_proxy {
              exclude_outbound_ports = [8081]
              exclude_outbound_cidrs = ["192.0.2.3/32"]
              exclude_uids           = ["1234"]
            }
          }
        }
        sidecar_task {
          driver = "raw_exec"
          config {
            command = "$BUSYBOX"
            args    = ["sh", "-c", "$BUSYBOX httpd -p \${NOMAD_PORT_connect_proxy_mesh} -h /rootfs/proxy && exec $BUSYBOX httpd -f -p 15001 -h /rootfs/proxy"]
          }
          resources {
            cpu    = 20
            memory = 16
          }
        }
      }
    }
$(web_task)
  }
}
JOB
}

# Starts servers outside, on two addresses and two ports.
serve_outside() {
    local port
    mkdir -p /rootfs/proxy /rootfs/outside
    echo "$PROXY" >/rootfs/proxy/index.html
    echo "$OUTSIDE" >/rootfs/outside/index.html
    ip -n outside address add 192.0.2.3/24 dev eth0
    for port in 80 8081; do ip netns exec outside "$BUSYBOX" httpd -p "$port" -h /rootfs/outside; done
}

start_consul() {
    consul agent -dev -bind 127.0.0.1 -client 127.0.0.1 >/tmp/consul.log 2>&1 &
    until_true 300 consul operator raft list-peers || { tail -n 40 /tmp/consul.log && wrong "Consul's agent does not become ready"; }
}

# says TEXT ADDRESS[:PORT] COMMAND...: whether a command fetches a page with this text.
says() {
    local text=$1 from=$2
    shift 2
    [ "$("$@" "$BUSYBOX" timeout 3 "$BUSYBOX" wget -q -O - "http://$from/" 2>/dev/null)" = "$text" ]
}

# expect_page WHAT TEXT ADDRESS[:PORT] COMMAND...
expect_page() {
    local what=$1
    shift
    until_true 50 says "$@" || wrong "$what: no \"$1\" from $2"
    shown "$what: \"$1\" from $2"
}

expect_mesh() {
    local allocation address
    allocation=$(running mesh)
    address=$(ip -n "$allocation" -4 -oneline address show dev eth0 | awk '{ sub("/.*", "", $4); print $4 }')
    local inside=(ip netns exec "$allocation")
    expect_answer "$1: the static port goes past the proxy" 192.0.2.1:8080 outside
    expect_page "$1: another port goes through the proxy" "$PROXY" "$address:81" env
    expect_page "$1: a connection to the outside goes through the proxy" "$PROXY" 192.0.2.2 "${inside[@]}"
    expect_page "$1: to an excluded port it does not" "$OUTSIDE" 192.0.2.2:8081 "${inside[@]}"
    expect_page "$1: to an excluded address it does not" "$OUTSIDE" 192.0.2.3 "${inside[@]}"
    expect_page "$1: of an excluded user it does not" "$OUTSIDE" 192.0.2.2 "${inside[@]}" setpriv --reuid 1234 --clear-groups
    expect_page "$1: of the proxy's own user it does not" "$OUTSIDE" 192.0.2.2 "${inside[@]}" setpriv --reuid 101 --clear-groups
}

show_consul() {
    local before
    printf 'version: nomad %s, consul %s\n' "$(nomad version | awk 'NR == 1 { print $2 }')" "$(consul version | awk 'NR == 1 { print $2 }')"
    write_agent
    write_job first 1 '        static = 8080'
    write_mesh_job
    serve_outside
    start_consul
    start_agent
    remember_after first
    expect "a job with a transparent proxy is placed and runs" run_job mesh 1
    [ "$(attribute plugins.cni.version.consul-cni)" = "$(version_of consul-cni)" ] || wrong "the fingerprint of consul-cni is not its version"
    shown "the fingerprint has the version of consul-cni: $(version_of consul-cni)"
    expect_mesh "proxy"
    before=$(running mesh)
    stop_agent
    start_agent
    expect "CHECK passed at the agent's restart" until_true 300 grep -q 'network namespace exists and passed check' /tmp/nomad.log
    [ "$(running mesh)" = "$before" ] || wrong "the allocation did not survive the restart"
    expect_mesh "after the agent's restart"
    expect "the job is stopped" stop_job mesh
    until_true 300 is_as_before || true
    expect_as_before "the job stopped"
    stop_agent
}
