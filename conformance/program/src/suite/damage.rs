//! How to take away what a plugin has made beside its result.

use std::fs;

use super::host::PrivateHost;
use super::subject::LEASES;

/// The plugins that make something of that kind.
pub const PLUGINS: [&str; 8] = ["host-local", "firewall", "portmap", "tuning", "bandwidth", "sbr", "vrf", "consul-cni"];

/// Takes away what the plugin under test has made for `ctr1`.
///
/// # Panics
/// When there is nothing, or the plugin is none of [`PLUGINS`].
pub fn of(host: &PrivateHost) {
    let container = &host.guest.container;
    match host.subject.plugin.as_str() {
        "host-local" => remove_lease(),
        "firewall" => flush(host, "filter", "CNI-FORWARD"),
        "portmap" => flush(host, "nat", "CNI-HOSTPORT-DNAT"),
        "tuning" => drop(container.sh("ip link set eth0 mtu 1500")),
        "bandwidth" => drop(host.sandbox.sh(&format!("tc qdisc del dev {} root", host.guest.host_end()))),
        "sbr" => remove_rules(host),
        "vrf" => drop(container.sh("ip link set eth0 nomaster")),
        "consul-cni" => drop(container.sh("iptables --wait -t nat -F")),
        other => panic!("nothing is known of what {other} makes"),
    }
}

fn flush(host: &PrivateHost, table: &str, chain: &str) {
    host.sandbox.sh(&format!("iptables --wait -t {table} -F {chain}"));
}

fn remove_lease() {
    let lease = format!("{LEASES}/n1/10.88.0.2");
    fs::remove_file(&lease).unwrap_or_else(|error| panic!("remove the lease {lease}: {error}"));
}

/// Removes the rules by source address, whatever their number.
fn remove_rules(host: &PrivateHost) {
    let container = &host.guest.container;
    let rules = container.sh("ip rule show");
    let of_address = rules.lines().filter(|line| line.contains("from 10.88.0."));
    for line in of_address {
        let number = line.split(':').next().unwrap_or_default();
        container.sh(&format!("ip rule del pref {number}"));
    }
}
