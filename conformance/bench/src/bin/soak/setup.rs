//! Sets up the links, routers and servers of the private host.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::child::Running;
use cni_conformance::{Namespace, Sandbox, flannel};

use crate::container::DEVICES;
use crate::networks::{NetworkTemplate, Router};

const SERVER: &str = "/usr/sbin/dnsmasq";

/// The socket of the dhcp plugin's daemon.
const SOCKET: &str = "/run/cni/dhcp.sock";

/// Whether a DHCP server is installed.
pub fn has_dhcp_server() -> bool {
    Path::new(SERVER).is_file()
}

/// Makes the bridge to which all devices are connected. It has a MAC address of its own: otherwise it changes with the devices,
/// and a container sends to the former one for half a minute.
pub fn make_devices(host: &Namespace) {
    host.ip(&[
        &format!("link add {DEVICES} address 02:00:00:00:95:01 type bridge"),
        &format!("address add 10.95.0.1/16 dev {DEVICES}"),
        &format!("link set {DEVICES} up"),
    ]);
}

/// Writes flannel's lease, which leaves the masquerade to the plugin.
pub fn write_lease() {
    flannel::write_lease(
        "FLANNEL_NETWORK=10.100.0.0/16\nFLANNEL_SUBNET=10.100.0.1/20\nFLANNEL_IPV6_NETWORK=fd00:100::/56\n\
         FLANNEL_IPV6_SUBNET=fd00:100::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n",
    );
}

/// Makes the master interfaces, and returns the routers behind those of macvlan.
pub fn make_masters(sandbox: &Sandbox, networks: &[NetworkTemplate]) -> BTreeMap<&'static str, Namespace> {
    let mut routers = BTreeMap::new();
    for network in networks {
        if let Some(Router::Lan(name)) = network.reached_from {
            let router = sandbox.container(&format!("router-{name}"));
            sandbox.sh(&format!("ip link add {name}0 type veth peer name up0 netns router-{name}"));
            sandbox.sh(&format!("ip link set {name}0 up"));
            router.ip(&["address add 10.94.0.1/20 dev up0", "link set up0 up"]);
            routers.insert(name, (*router).clone());
        } else if ["vlan", "ipvlan"].contains(&network.name) {
            sandbox.sh(&format!("ip link add {}m type bridge", network.name));
            sandbox.sh(&format!("ip link set {}m up", network.name));
        }
    }
    routers
}

/// Starts a process that is also killed when this program ends.
fn start(program: &Path, words: &[&str]) -> Running {
    let mut command = Command::new("/usr/bin/setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(program).args(words);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(command.spawn().unwrap_or_else(|error| panic!("start {}: {error}", program.display())))
}

/// Starts a DHCP server for the devices, and the daemon of the dhcp plugin.
pub fn start_dhcp(folder: &Path) -> [Running; 2] {
    let interface = format!("--interface={DEVICES}");
    let words = [
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--port=0",
        &interface,
        "--bind-interfaces",
        "--user=root",
        "--pid-file=",
        "--dhcp-authoritative",
        "--dhcp-leasefile=/run/conformance/leases",
        "--no-ping",
        "--dhcp-range=10.95.1.1,10.95.250.254,255.255.0.0,2m",
    ];
    let running = [start(Path::new(SERVER), &words), start(&folder.join("dhcp"), &["daemon"])];
    let started = Instant::now();
    while !Path::new(SOCKET).exists() {
        assert!(started.elapsed() < Duration::from_secs(10), "the dhcp plugin's daemon does not start");
        thread::sleep(Duration::from_millis(20));
    }
    running
}
