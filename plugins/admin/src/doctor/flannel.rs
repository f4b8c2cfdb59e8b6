//! Networks of flannel: whether flanneld has leased a subnet for this host and keeps it, and whether the bridge has an address of it.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::json::Json;
use cni_flannel::{Config, DelegateConfig, Flannel, LeaseCause, LeaseError, SubnetLease};
use cni_kernel::netlink::Socket;
use cni_linux::host::LinuxHost;
use cni_plugin::run::Plugin as _;
use serde_json::Value;

use super::configurations;
use super::finding::Finding;
use crate::calls::status_request;
use crate::output::error_line;

const TOPIC: &str = "flannel";

/// The bridge of a delegate that names none.
const BRIDGE: &str = "cni0";

/// The programs that write a lease: k3s does what flanneld does inside its own process.
const DAEMONS: [&str; 5] = ["flanneld", "flannel", "k3s", "k3s-server", "k3s-agent"];

/// What is known of one network.
#[derive(Debug)]
struct FlannelFacts {
    path: String,
    lease: Result<SubnetLease, LeaseError>,
    bridge: Option<BridgeAddresses>,
    has_daemon: bool,
}

/// The bridge that the delegate uses, where it exists.
#[derive(Clone, Debug)]
struct BridgeAddresses {
    name: String,
    addresses: Vec<Cidr>,
    /// `forceAddress`: the next ADD replaces another address.
    is_forced: bool,
}

/// Looks at the networks of flannel among the configurations of one folder, or of the usual ones.
pub fn look(folder: Option<&Path>) -> Vec<Finding> {
    let networks = configurations::of_plugin(Flannel.kind(), folder);
    let has_daemon = !networks.is_empty() && has_daemon(Path::new("/proc"));
    let judged = networks.into_iter().map(|config| match observe(config, has_daemon) {
        Ok(Some(facts)) => judge(&facts),
        Ok(None) => Vec::new(),
        Err(error) => vec![Finding::problem(TOPIC, error_line(&error), "run it as root, on the host itself")],
    });
    judged.flatten().collect()
}

/// Reads the lease, and the addresses of the bridge. What is wrong with a configuration, the plugin itself reports.
fn observe(config: Value, has_daemon: bool) -> Result<Option<FlannelFacts>, Error> {
    let Ok(request) = status_request(config, &Flannel) else { return Ok(None) };
    let Ok(config) = Config::load(&request) else { return Ok(None) };
    let lease = SubnetLease::load(&config.subnet_file, &mut LinuxHost::new(&request));
    let composed = lease.as_ref().ok().and_then(|lease| DelegateConfig::new(&config, lease).ok());
    let bridge = composed.map_or(Ok(None), |composed| observe_bridge(&composed))?;
    Ok(Some(FlannelFacts { path: config.subnet_file, lease, bridge, has_daemon }))
}

fn observe_bridge(composed: &DelegateConfig) -> Result<Option<BridgeAddresses>, Error> {
    if cni_builtin::plugin(&composed.plugin).is_none_or(|plugin| plugin.kind() != "bridge") {
        return Ok(None);
    }
    let name = if let Some(Json::String(name)) = composed.get("bridge") { name } else { BRIDGE };
    let mut socket = Socket::open()?;
    let Some(link) = socket.link_called(name)? else { return Ok(None) };
    let addresses = socket.addresses(link.index, None)?.into_iter().map(|address| address.cidr);
    let addresses = addresses.filter(|address| !is_link_local(address.address())).collect();
    let is_forced = composed.get("forceAddress") == Some(&Json::Bool(true));
    Ok(Some(BridgeAddresses { name: name.to_owned(), addresses, is_forced }))
}

const fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Whether a program that writes a lease runs in this network namespace. A process whose name cannot be read has ended.
fn has_daemon(processes: &Path) -> bool {
    let namespace = |process: &Path| fs::read_link(process.join("ns/net")).ok();
    let own = namespace(&processes.join("self"));
    let is_daemon = |process: &PathBuf| {
        let name = fs::read_to_string(process.join("comm"));
        name.is_ok_and(|name| DAEMONS.contains(&name.trim_end())) && namespace(process) == own
    };
    let entries = fs::read_dir(processes).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|process| is_daemon(&process))
}

fn judge(facts: &FlannelFacts) -> Vec<Finding> {
    let lease = match &facts.lease {
        Ok(lease) => lease,
        Err(error) => return vec![no_lease(facts, error)],
    };
    let found: Vec<Finding> =
        [stale(facts), disagreement(facts, lease), former(facts, lease)].into_iter().flatten().collect();
    if found.is_empty() {
        vec![Finding::fine(TOPIC, format!("flanneld has leased {} for this host ({})", subnets(lease), facts.path))]
    } else {
        found
    }
}

fn no_lease(facts: &FlannelFacts, error: &LeaseError) -> Finding {
    let path = &facts.path;
    match (&error.cause, facts.has_daemon) {
        (LeaseCause::Absent { .. }, true) => Finding::problem(
            TOPIC,
            format!("flanneld has not written {path}, so ADD fails"),
            "look into its log: it needs etcd or the Kubernetes API, and there a network and a subnet for this host",
        ),
        (LeaseCause::Absent { .. }, false) => Finding::problem(
            TOPIC,
            format!("flanneld has not written {path} and does not run, so ADD fails"),
            "start flanneld, or wait for its DaemonSet",
        ),
        (LeaseCause::Unusable { .. }, _) => Finding::problem(
            TOPIC,
            format!("the lease cannot be used: {}", error.cause),
            "restart flanneld, which writes the file again",
        ),
    }
}

fn stale(facts: &FlannelFacts) -> Option<Finding> {
    (!facts.has_daemon).then(|| {
        Finding::note(
            TOPIC,
            format!("flanneld does not run: the lease in {} may be stale", facts.path),
            "start flanneld: it renews the lease, and keeps the routes to other hosts",
        )
    })
}

/// The bridge keeps the address of an earlier lease until the next ADD, which replaces it or fails.
fn disagreement(facts: &FlannelFacts, lease: &SubnetLease) -> Option<Finding> {
    let BridgeAddresses { name, addresses, is_forced } = facts.bridge.as_ref()?;
    let other = addresses.iter().find(|address| is_of_another(**address, addresses, lease))?;
    let says = format!("{name} has the address {other}, and {} says {}", facts.path, subnets(lease));
    Some(if *is_forced {
        let cure = "create the containers again: other hosts do not reach their addresses; the first ADD gives the bridge its new one";
        Finding::note(TOPIC, says, cure)
    } else {
        let cure = format!(
            "delete its containers and then the bridge (ip link del {name}), or set \"forceAddress\" in \"delegate\""
        );
        Finding::problem(TOPIC, says + ", so ADD fails", cure)
    })
}

/// Whether an address shows that the bridge belongs to another lease: in its family the bridge has none of this one.
fn is_of_another(address: Cidr, addresses: &[Cidr], lease: &SubnetLease) -> bool {
    let family = address.family();
    let has_family = lease.subnets.iter().any(|subnet| subnet.family() == family);
    has_family && !addresses.iter().any(|one| one.family() == family && lease.has(one.address()))
}

/// An address of an earlier lease beside that of this one: the bridge plugin replaces an IPv6 address only if the networks overlap. The
/// host has a route to that subnet, and flanneld cannot add one to another host that has it now.
fn former(facts: &FlannelFacts, lease: &SubnetLease) -> Option<Finding> {
    let BridgeAddresses { name, addresses, .. } = facts.bridge.as_ref()?;
    let is_former = |address: &&Cidr| {
        lease.networks.iter().any(|network| network.contains(address.address()))
            && !lease.has(address.address())
            && !is_of_another(**address, addresses, lease)
    };
    let former = addresses.iter().find(is_former)?;
    Some(Finding::note(
        TOPIC,
        format!(
            "{name} has the address {former} of an earlier lease too, so another host with that subnet is not reached"
        ),
        format!(
            "when no container uses that subnet any more: ip address del {former} dev {name}, and restart flanneld"
        ),
    ))
}

fn subnets(lease: &SubnetLease) -> String {
    lease.subnets.iter().map(|subnet| subnet.network().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_recognized_by_its_name_and_namespace() {
        let own = fs::read_to_string("/proc/self/comm").expect("a name");
        assert!(!DAEMONS.contains(&own.trim_end()));
        let folder = tempfile::tempdir().expect("a folder");
        let process = |name: &str, comm: &str, netns: &str| {
            let process = folder.path().join(name);
            fs::create_dir_all(process.join("ns")).expect("a folder");
            fs::write(process.join("comm"), format!("{comm}\n")).expect("a name");
            std::os::unix::fs::symlink(netns, process.join("ns/net")).expect("a link");
        };
        process("self", "cni-plugins", "net:[1]");
        process("7", "flanneld", "net:[2]");
        process("8", "sleep", "net:[1]");
        assert!(!has_daemon(folder.path()));
        process("9", "k3s-server", "net:[1]");
        assert!(has_daemon(folder.path()));
    }
}
