//! One interface of a container, and its configuration.
//!
//! The network is `net1`, its bridge `br0`, its leases are in `/run/cni`. A delegate of the tests prints answers that
//! host-local would not give.

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

pub use cni_conformance::keys::with;
use cni_conformance::network::Link;
use cni_conformance::script;
use cni_conformance::traffic::ping;
use cni_conformance::{CniError, Container, Invocation, Network, Sandbox, Skeleton, State, Verb, binaries};
use serde_json::{Value, json};

/// Where delegates of the tests' own lie, which snapshots leave out.
const FOLDER: &str = "/run/conformance/delegates";

/// What the bridge plugin is told, without an IPAM plugin.
pub fn layer_two(keys: Value) -> Value {
    with(&json!({"cniVersion": "1.0.0", "name": "net1", "type": "bridge", "bridge": "br0"}), &keys)
}

/// The same with host-local, one range set for each subnet.
pub fn network(subnets: &[&str], keys: Value) -> Value {
    let ranges: Value = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
    with(&layer_two(json!({"ipam": {"type": "host-local", "ranges": ranges, "dataDir": "/run/cni"}})), &keys)
}

/// The IPv4 subnet of most tests, whose gateway is 10.1.2.1.
pub const V4: &str = "10.1.2.0/24";
/// The IPv6 subnet, whose gateway is fd00:1::1.
pub const V6: &str = "fd00:1::/64";

/// The same with a delegate that answers ADD with this result.
pub fn delegated(result: &Value, keys: Value) -> Value {
    answering(&format!("echo '{result}'"), keys)
}

/// The same with a delegate that answers ADD by a line of shell. It writes down every call, what it
/// got on standard input, and its environment.
pub fn answering(answer: &str, keys: Value) -> Value {
    install(&format!("[ $CNI_COMMAND = ADD ] || exit 0\n{answer}\n"));
    with(&layer_two(json!({"ipam": {"type": "fake"}})), &keys)
}

/// Makes the delegate `fake` of some lines of shell.
pub fn install(lines: &str) {
    fs::create_dir_all(FOLDER).expect("create a folder for delegates");
    let lines = format!(
        "echo $CNI_COMMAND >> {FOLDER}/calls\ncat > {FOLDER}/stdin\nenv | sort > {FOLDER}/environment\n{lines}"
    );
    script::install(&Path::new(FOLDER).join("fake"), &lines);
}

/// Reads what the delegate wrote down: `calls`, `stdin` or `environment`.
pub fn given_to_delegate(what: &str) -> String {
    let path = Path::new(FOLDER).join(what);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()))
}

/// An interface of a container that is or will be attached.
pub struct Port<'s> {
    sandbox: &'s Sandbox,
    pub container: Container,
    id: String,
    ifname: String,
    args: String,
    pub config: Value,
}

impl<'s> Port<'s> {
    /// Makes a container; its interface will be `eth0`.
    pub fn new(sandbox: &'s Sandbox, id: &str, config: Value) -> Self {
        let container = sandbox.container(id);
        Self { sandbox, container, id: id.to_owned(), ifname: "eth0".to_owned(), args: String::new(), config }
    }

    pub fn args(mut self, args: &str) -> Self {
        args.clone_into(&mut self.args);
        self
    }

    pub fn call(&self, verb: Verb) -> Invocation {
        let folder = binaries::under_test();
        let path = format!("{FOLDER}:{}", folder.to_str().expect("folders of plugins are text"));
        Invocation::new(self.sandbox, "bridge", verb)
            .path(&path)
            .container_id(&self.id)
            .netns(self.container.path())
            .ifname(&self.ifname)
            .args(&self.args)
            .config(&self.config)
    }

    /// Runs an ADD that must succeed.
    #[track_caller]
    pub fn add(&self) -> Value {
        self.call(Verb::Add).run().result()
    }

    /// Prepares CHECK of what ADD answered.
    pub fn call_check(&self, result: &Value) -> Invocation {
        self.call(Verb::Check).config(&with(&self.config, &json!({"prevResult": result})))
    }

    /// Runs a CHECK that must succeed.
    #[track_caller]
    pub fn check(&self, result: &Value) {
        self.call_check(result).run().expect_success();
    }

    /// Runs a DEL that must succeed.
    #[track_caller]
    pub fn del(&self) {
        self.call(Verb::Del).run().expect_success();
    }

    /// Runs an ADD that must be refused with this code and all these words.
    #[track_caller]
    pub fn says_no(&self, code: u64, says: &[&str]) -> CniError {
        let outcome = self.call(Verb::Add).run();
        let error = outcome.expect_error(code, "");
        let text = format!("{}: {}", error.msg, error.details);
        for words in says {
            assert!(text.contains(words), "must say {words:?}: {outcome}");
        }
        error
    }

    /// Runs such an ADD, which must leave nothing but what containers share.
    #[track_caller]
    pub fn refused(&self, code: u64, says: &[&str]) {
        let before = self.state();
        self.says_no(code, says);
        self.shared().assert_nothing_else(&before, || self.state());
    }

    /// Takes a snapshot of the host and the container. The kernel leaves `::1` on a `lo` whose IPv6 was
    /// switched on.
    pub fn state(&self) -> State {
        State::capture(self.sandbox, &[&self.container])
    }

    /// Lists what containers of these networks share.
    pub fn shared(&self) -> Skeleton {
        let bridge = self.config["bridge"].as_str().unwrap_or("cni0");
        let networks = [("10.1.2.1", V4), ("fd00:1::1", V6), ("10.1.3.1", "10.1.3.0/24"), ("fd00:2::1", "fd00:2::/64")];
        let skeleton = Skeleton::on_bridge(bridge).with_leases("/run/cni/net1", 4);
        networks.into_iter().fold(skeleton, |skeleton, (gateway, subnet)| skeleton.with_gateway(gateway, subnet))
    }

    /// Reads the container's network.
    pub fn inside(&self) -> Network {
        Network::observe(&self.container)
    }

    /// Reads the container's end of the veth.
    #[track_caller]
    pub fn interface(&self) -> Link {
        link(&self.inside(), &self.ifname)
    }

    /// Tells whether an address answers within so much time.
    pub fn reaches(&self, address: &str, time: Duration) -> bool {
        ping(&self.container, ip(address), time)
    }

    /// Lists the container's routes, but for those of the kernel's own making.
    pub fn routes(&self) -> Vec<String> {
        let network = self.inside();
        let connected = |destination: &str| network.addresses.iter().any(|own| is_network_of(destination, own.ip));
        let routes = network.routes.iter().chain(&network.other_routes);
        let made = |route: &&cni_conformance::network::Route| {
            route.table != 255 && !(route.gateway.is_none() && route.mtu.is_none() && connected(&route.destination))
        };
        routes.filter(made).map(ToString::to_string).collect()
    }
}

/// Tells whether an address lies in a network that is written as CIDR, default routes excepted.
fn is_network_of(cidr: &str, ip: IpAddr) -> bool {
    let (network, length) = cidr.split_once('/').expect("a CIDR has a length");
    let length: u32 = length.parse().expect("a prefix length");
    match (ip, network.parse::<IpAddr>().expect("an address")) {
        (IpAddr::V4(a), IpAddr::V4(b)) => length > 0 && (a.to_bits() ^ b.to_bits()).leading_zeros() >= length,
        (IpAddr::V6(a), IpAddr::V6(b)) => length > 0 && (a.to_bits() ^ b.to_bits()).leading_zeros() >= length,
        _ => false,
    }
}

/// Returns a link of a network.
#[track_caller]
pub fn link(network: &Network, name: &str) -> Link {
    let known = || network.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>();
    network.link(name).unwrap_or_else(|| panic!("no link {name} in {:?}", known())).clone()
}

/// Returns the text of a value.
#[track_caller]
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("must be text: {value}"))
}

/// Reads an address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}
