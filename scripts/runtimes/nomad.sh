# shellcheck shell=bash
# Nomad, server and client in one agent with its state on disk: a job with a bridge network and a static port, twenty
# allocations at once, and the agent's restart, at which it calls CHECK. Tasks are raw_exec's, so no image is needed.
#
# Debian has no package of Nomad, and Go's registry has not all of its modules, so this is for machines where somebody has
# installed it. Nobody has yet run this file with one: it was written after Nomad's sources, versions 1.9.5 to 2.0.5.

write_agent() {
    mkdir -p /etc/nomad.d /var/lib/nomad
    cat >/etc/nomad.d/agent.hcl <<'AGENT'
data_dir  = "/var/lib/nomad"
bind_addr = "127.0.0.1"
log_level = "DEBUG"
advertise {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
  serf = "127.0.0.1"
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client {
  enabled                    = true
  network_interface          = "uplink"
  cni_path                   = "/opt/cni/bin"
  bridge_network_subnet_ipv6 = "fd00:a110:c8::/120"
  cpu_total_compute          = 100000
}
plugin "raw_exec" {
  config {
    enabled = true
  }
}
AGENT
}

# write_job NAME COUNT PORT: PORT is what stands in the block of the port, one line for each key.
write_job() {
    cat >"/etc/nomad.d/$1.job" <<JOB
job "$1" {
  group "g" {
    count = $2
    network {
      mode = "bridge"
      port "http" {
$3
        to = 80
      }
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    task "web" {
      driver = "raw_exec"
      config {
        command = "$BUSYBOX"
        args    = ["httpd", "-f", "-p", "80", "-h", "/rootfs/www"]
      }
      resources {
        cpu    = 20
        memory = 16
      }
    }
  }
}
JOB
}

start_agent() {
    nomad agent -config /etc/nomad.d/agent.hcl >>/tmp/nomad.log 2>&1 &
    agent=$!
    until_true 600 is_ready || { tail -n 40 /tmp/nomad.log && wrong "the agent does not become ready"; }
}

stop_agent() {
    kill -INT "$agent"
    wait "$agent" || true
}

is_ready() { [ "$(nomad node status -self -t '{{.Status}}')" = ready ]; }

attribute() { nomad node status -self -t "{{index .Attributes \"$1\"}}"; }

# What a plugin says of itself: CNI bridge plugin v1.9.1+...
version_of() { CNI_COMMAND='' "/opt/cni/bin/$1" 2>&1 </dev/null | awk 'NR == 1 { print $4 }'; }

running() { nomad job allocs -t '{{range .}}{{if eq .ClientStatus "running"}}{{.ID}}{{"\n"}}{{end}}{{end}}' "$1"; }

all_run() { [ "$(running "$1" | grep -c .)" -eq "$2" ]; }

# run_job NAME COUNT: the server places a job of a bridge network only where the five plugins have told their versions.
run_job() {
    nomad job run -detach "/etc/nomad.d/$1.job"
    until_true 600 all_run "$1" "$2" || { nomad job status "$1" && tail -n 40 /tmp/nomad.log && wrong "$1 does not run $2 times"; }
}

stop_job() { nomad job stop -purge -detach "$1"; }

port_of() { nomad alloc status -t '{{range .AllocatedResources.Shared.Ports}}{{.Value}}{{end}}' "$1"; }

expect_versions() {
    local plugin
    for plugin in bridge firewall host-local loopback portmap; do
        [ "$(attribute "plugins.cni.version.$plugin")" = "$(version_of "$plugin")" ] || wrong "the fingerprint of $plugin is not its version"
    done
    shown "the fingerprint has our versions: $(version_of bridge)"
}

expect_web() {
    expect_answer "$1, from outside" 192.0.2.1:8080 outside
    expect_answer "$1, from the host" 127.0.0.1:8080
    expect_answer "$1, from outside by IPv6" '[2001:db8::1]:8080' outside
}

many_at_once() {
    local allocation ids
    expect "twenty allocations at once" run_job many 20
    ids=$(running many)
    for allocation in $ids; do
        until_true 50 answers "192.0.2.1:$(port_of "$allocation")" outside || wrong "allocation $allocation does not answer"
    done
    shown "each of the twenty answers through its port"
    expect "the job is stopped" stop_job many
    # shellcheck disable=SC2086  # one word for each
    until_true 300 has_no_trace $ids || expect_no_trace $ids
    shown "nothing is left of the twenty"
}

has_no_trace() { (expect_no_trace "$@"); }

restart() {
    local before
    before=$(running web)
    stop_agent
    expect_web "while no agent runs"
    : >/tmp/nomad.log
    start_agent
    expect "CHECK passed at the agent's restart" until_true 300 grep -q 'network namespace exists and passed check' /tmp/nomad.log
    [ "$(running web)" = "$before" ] || wrong "the restart has cost the allocation"
    expect_web "after the agent's restart"
}

show_nomad() {
    printf 'version: nomad %s\n' "$(nomad version | awk 'NR == 1 { print $2 }')"
    write_agent
    write_job web 1 '        static = 8080'
    write_job many 20 ''
    start_agent
    expect_versions
    run_job web 1 >/dev/null
    stop_job web >/dev/null
    until_true 300 all_run web 0
    until_true 300 has_no_trace 172.26.64.2/32 || expect_no_trace 172.26.64.2/32
    remember
    expect "a job with a bridge network and a static port" run_job web 1
    expect_web "static port"
    many_at_once
    restart
    expect "the job is stopped" stop_job web
    until_true 300 is_as_before || true
    expect_as_before "all jobs stopped"
    stop_agent
}
