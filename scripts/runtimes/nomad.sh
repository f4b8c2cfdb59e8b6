# shellcheck shell=bash
# Nomad, with server and client in one agent and its state on disk: a job with a bridge network and a static port, twenty
# allocations at once, and the agent's restart, when it calls CHECK. Tasks use raw_exec, so no image is needed.

# shellcheck source=scripts/runtimes/nomad_blocks.sh
. /scripts/runtimes/nomad_blocks.sh

write_agent() {
    mkdir -p /etc/nomad.d /var/lib/nomad
    cat >/etc/nomad.d/agent.hcl <<AGENT
data_dir  = "/var/lib/nomad"
bind_addr = "127.0.0.1"
log_level = "TRACE"
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
$(cloud_fingerprints_off)
}
$(raw_exec)
AGENT
}

# write_job NAME COUNT PORT: PORT is the content of the block of the port, one line for each key.
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
      delay          = "5s"
      delay_function = "constant"
      unlimited      = true
    }
$(web_task)
  }
}
JOB
}

start_agent() {
    nomad agent -config /etc/nomad.d/agent.hcl >/tmp/nomad.log 2>&1 &
    agent=$!
    until_true 600 is_ready || { tail -n 40 /tmp/nomad.log && wrong "the agent does not become ready"; }
}

stop_agent() {
    kill -INT "$agent"
    wait "$agent" || true
}

is_ready() { [ "$(nomad node status -self -t '{{.Status}}')" = ready ]; }

attribute() { nomad node status -self -t "{{index .Attributes \"$1\"}}"; }

# version_of PLUGIN: the version in its line "CNI bridge plugin v1.9.1+...".
version_of() { CNI_COMMAND='' "/opt/cni/bin/$1" 2>&1 </dev/null | awk 'NR == 1 { print $4 }'; }

running() { nomad job allocs -t '{{range .}}{{if eq .ClientStatus "running"}}{{.ID}}{{"\n"}}{{end}}{{end}}' "$1"; }

all_run() { [ "$(running "$1" | grep -c .)" -eq "$2" ]; }

# run_job NAME COUNT: Nomad places a job with a bridge network only on a node on which all five plugins have printed their versions.
run_job() {
    nomad job run -detach "/etc/nomad.d/$1.job" >/dev/null
    until_true 600 all_run "$1" "$2" || { nomad job status "$1" && tail -n 40 /tmp/nomad.log && wrong "$1 does not run $2 times"; }
}

stop_job() { nomad job stop -purge -detach "$1"; }

port_of() { nomad alloc status -t '{{range .AllocatedResources.Shared.Ports}}{{.Value}}{{end}}' "$1"; }

# remember_after NAME: remembers the machine's state after an allocation, since the bridge and the shared chains stay.
remember_after() {
    run_job "$1" 1
    stop_job "$1" >/dev/null
    until_true 300 all_run "$1" 0
    until_true 300 has_no_trace 172.26.64.2/32 || expect_no_trace 172.26.64.2/32
    remember
}

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
    expect "twenty allocations at once" run_job many 20
    expect_all_answer 100
    stop_many
}

# Kills the agent between the first and the last ADD of twenty. Nomad 2 takes up to 45 seconds to run all of them again.
killed_agent() {
    nomad job run -detach /etc/nomad.d/many.job
    until_true 100 has_namespaces 3
    sleep "0.$((RANDOM % 10))"
    kill -KILL "$agent"
    wait "$agent" || true
    start_agent
    shown "the agent was killed while it started twenty allocations"
    expect_all_answer 1200
    stop_many
}

has_namespaces() { [ "$(ip netns list | grep -c .)" -ge "$1" ]; }

all_answer() {
    local allocation
    all_run many 20 || return
    for allocation in $(running many); do
        answers "192.0.2.1:$(port_of "$allocation")" outside || return
    done
}

# expect_all_answer TENTHS
expect_all_answer() { expect "each of the twenty answers through its port" until_true "$1" all_answer; }

stop_many() {
    local ids
    ids=$(running many)
    expect "the job is stopped" stop_job many
    # shellcheck disable=SC2086  # one word for each
    until_true 300 has_no_trace $ids || expect_no_trace $ids
    shown "nothing is left of the twenty"
}

has_no_trace() { (expect_no_trace "$@"); }

# expect_check WHAT ALLOCATION: the agent's CHECK has passed, and the same allocation runs.
expect_check() {
    expect "CHECK passed $1" until_true 300 grep -q 'network namespace exists and passed check' /tmp/nomad.log
    [ "$(running web)" = "$2" ] || wrong "$1: another allocation runs"
    expect_web "$1"
}

restart() {
    local before
    before=$(running web)
    stop_agent
    expect_web "while no agent runs"
    start_agent
    expect_check "at the agent's restart" "$before"
}

flush() {
    local program table
    for program in iptables ip6tables; do
        for table in nat filter; do "$program" -t "$table" -F; done
    done
}

# Does the same as the drop-in for nomad.service in plugins/admin/README.md.
flush_and_repair() {
    local before
    before=$(running web)
    stop_agent
    flush
    expect_silence "the packet filter is flushed while no agent runs" 192.0.2.1:8080 outside
    expect "the rules are repaired before the agent starts" /opt/cni/bin/cni-plugins repair
    start_agent
    expect_check "after flush and repair" "$before"
}

# Removes the name of the allocation's namespace, which Nomad passes to DEL.
lost_namespace() {
    local allocation
    until_true 300 all_run web 1 || wrong "web does not run"
    allocation=$(running web)
    ip netns delete "$allocation"
    expect_web "without the name of its namespace"
    expect "the job is stopped" stop_job web
    until_true 300 has_no_trace "$allocation" || expect_no_trace "$allocation"
    shown "nothing is left of it"
    run_job web 1
}

has_another() { all_run web 1 && [ "$(running web)" != "$1" ]; }

# Nomad gives up an allocation whose CHECK fails, although its task still runs, and places another one.
flush_only() {
    local before
    before=$(running web)
    stop_agent
    flush
    start_agent
    expect "CHECK failed after the flush, and another allocation runs" until_true 600 has_another "$before"
    expect_web "the other allocation"
    until_true 300 has_no_trace "$before" || expect_no_trace "$before"
    shown "nothing is left of the first"
}

show_nomad() {
    printf 'version: nomad %s\n' "$(nomad version | awk 'NR == 1 { print $2 }')"
    write_agent
    write_job web 1 '        static = 8080'
    write_job many 20 ''
    start_agent
    expect_versions
    remember_after web
    expect "a job with a bridge network and a static port" run_job web 1
    expect_web "static port"
    many_at_once
    restart
    flush_and_repair
    flush_only
    lost_namespace
    killed_agent
    expect "the job is stopped" stop_job web
    until_true 300 is_as_before || true
    expect_as_before "all jobs stopped"
    stop_agent
}
