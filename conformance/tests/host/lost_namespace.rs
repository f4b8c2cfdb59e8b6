//! ADD of a container that already has an address, in another namespace than before.
//!
//! Nomad calls it when a CHECK fails while the task keeps running: it removes the name of the namespace without a DEL,
//! makes a new namespace, and expects an error if the task still uses its address. An agent that was down while its
//! tasks ended, or that runs after a reboot, calls it as well, and then the address is free.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::IpAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::traffic::ping;
use cni_conformance::{
    Attachment, Container, Invocation, Network, Nomad, PortMapping, Runtime, Sandbox, Skeleton, Spelling, State, Verb,
};
use serde_json::json;

const ALLOC: &str = "alloc";
const ADDRESSES: [&str; 2] = ["172.26.64.2", "fd00:a110:c8::2"];
const WORDS: &str = "172.26.64.2 has been allocated to alloc, duplicate allocation is not allowed";
const LEASES: &str = "/run/cni/nomad";

/// What the ADD before has left, as far as it tells whose the interface is.
#[derive(Clone, Copy, Debug)]
enum LeftByAdd {
    Ours,
    /// The lease is the reference's, which says nothing of the namespace.
    LeaseOfTheReference,
    /// The veth is the reference's, which has no alias.
    VethOfTheReference,
    BothOfTheReference,
}

impl LeftByAdd {
    const ALL: [Self; 4] = [Self::Ours, Self::LeaseOfTheReference, Self::VethOfTheReference, Self::BothOfTheReference];

    fn mark(self, machine: &LostNamespaceHost, port: &str) {
        if matches!(self, Self::LeaseOfTheReference | Self::BothOfTheReference) {
            machine.sandbox.sh(&format!("rm -rf {LEASES}/.cni-plugins-rs"));
        }
        if matches!(self, Self::VethOfTheReference | Self::BothOfTheReference) {
            machine.sandbox.host().must(&["ip", "link", "set", port, "alias", ""]);
        }
    }
}

/// A process in a namespace.
struct NamespaceProcess(Child);

impl NamespaceProcess {
    fn start(container: &Container) -> Self {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(container.run(|| sleep.spawn().expect("start sleep")))
    }

    fn end(self) {
        drop(self);
    }
}

impl Drop for NamespaceProcess {
    fn drop(&mut self) {
        self.0.kill().expect("kill sleep");
        self.0.wait().expect("wait for sleep");
    }
}

struct LostNamespaceHost {
    sandbox: Sandbox,
    nomad: Nomad,
}

impl LostNamespaceHost {
    fn new() -> Self {
        let (sandbox, nomad) = (Sandbox::new(), Nomad::default().dual_stack());
        nomad.ensure_forwarding_rules(&sandbox);
        Self { sandbox, nomad }
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.nomad.conflist())
    }

    fn host(&self) -> State {
        State::of_host(&self.sandbox)
    }

    fn rules(&self) -> Vec<String> {
        let state = self.host();
        let sections = ["iptables nat", "iptables filter", "ip6tables nat", "ip6tables filter"];
        sections.into_iter().flat_map(|section| state.section(section).to_vec()).collect()
    }

    fn describe(&self, container: &Container) -> Attachment {
        Attachment::new(ALLOC, container).ports(&PortMapping::twins(8080, 80), Spelling::Go)
    }

    /// Attaches the container in a new namespace, and starts its task.
    fn run(&self) -> (Container, Attachment, NamespaceProcess) {
        let container = self.sandbox.container(ALLOC);
        let mut attachment = self.describe(&container);
        self.runtime().add(&mut attachment).expect_success();
        let process = NamespaceProcess::start(&container);
        (container, attachment, process)
    }

    /// Attaches the container again, in a new namespace, and requires that it gets the addresses that it had.
    #[track_caller]
    fn comes_back(&self) -> (Container, Attachment) {
        let container = self.sandbox.container(ALLOC);
        let mut attachment = self.describe(&container);
        let result = self.runtime().add(&mut attachment).result();
        let given: Vec<&str> = result["ips"].as_array().expect("addresses").iter().map(address).collect();
        assert_eq!(given, ADDRESSES, "{result:#}");
        self.runtime().check(&attachment).expect_success();
        (container, attachment)
    }

    /// Removes the container, and requires that this was all there was of it.
    #[track_caller]
    fn leaves_nothing(&self, before: &State, attachment: &Attachment) {
        self.runtime().del(attachment).expect_success();
        Skeleton::of(&self.nomad).assert_nothing_else(before, || self.host());
    }

    fn is_reached(&self, address: &str) -> bool {
        let address: IpAddr = address.parse().expect("an address");
        ping(self.sandbox.host(), address, Duration::from_secs(20))
    }
}

fn address(ip: &serde_json::Value) -> &str {
    ip["address"].as_str().and_then(|cidr| cidr.split('/').next()).expect("an address")
}

fn port(attachment: &Attachment) -> String {
    let result = attachment.result.as_ref().expect("the container is attached");
    result["interfaces"][1]["name"].as_str().expect("a name").to_owned()
}

fn leases() -> BTreeSet<String> {
    let entries = fs::read_dir(LEASES).expect("list the leases").map(|entry| entry.expect("an entry").file_name());
    let mut names: BTreeSet<String> = entries.map(|name| name.into_string().expect("text")).collect();
    names.retain(|name| name.parse::<IpAddr>().is_ok());
    names
}

/// The task keeps its address, and the container does not get it a second time.
#[test]
fn a_container_whose_task_lives_in_a_lost_namespace_is_refused() {
    for_each(LeftByAdd::ALL.map(|made| (format!("{made:?}"), made)), |made| {
        let machine = LostNamespaceHost::new();
        let (container, attachment, process) = machine.run();
        made.mark(&machine, &port(&attachment));
        container.remove();
        let second = machine.sandbox.container(ALLOC);
        let before = machine.host();
        let mut again = machine.describe(&second);
        machine.runtime().add(&mut again).expect_error("bridge", 105, WORDS);
        assert_same(&before.without("files"), &machine.host().without("files"));
        assert_eq!(leases(), ADDRESSES.map(str::to_owned).into());
        for address in ADDRESSES {
            assert!(machine.is_reached(address), "{address} of the task");
        }
        process.end();
    });
}

/// The kernel takes the interface away some time after the last process has ended; ADD does not wait for that.
#[test]
fn a_container_whose_task_is_gone_gets_its_addresses_again() {
    for_each(LeftByAdd::ALL.map(|made| (format!("{made:?}"), made)), |made| {
        let machine = LostNamespaceHost::new();
        let before = machine.host();
        let (container, attachment, process) = machine.run();
        let rules = machine.rules();
        made.mark(&machine, &port(&attachment));
        container.remove();
        process.end();
        let (_second, attachment) = machine.comes_back();
        assert_eq!(machine.rules(), rules, "each rule once, as before");
        assert_eq!(leases(), ADDRESSES.map(str::to_owned).into());
        machine.leaves_nothing(&before, &attachment);
    });
}

/// Nomad's executor keeps a descriptor on the namespace of a task that has ended. The interface there is in nobody's use, and
/// gives way; the reference refuses the address for ever.
#[test]
fn a_namespace_that_only_a_descriptor_holds_gives_the_addresses_back() {
    let machine = LostNamespaceHost::new();
    let before = machine.host();
    let (container, attachment, process) = machine.run();
    let held = File::open(container.path()).expect("open the namespace");
    container.remove();
    process.end();
    let (_second, again) = machine.comes_back();
    let links = Network::observe(machine.sandbox.host()).links;
    assert!(links.iter().all(|link| link.name != port(&attachment)), "the former veth is removed: {links:?}");
    drop(held);
    machine.leaves_nothing(&before, &again);
}

/// A process keeps running in the old namespace, without the interface.
#[test]
fn a_container_whose_interface_is_gone_gets_its_addresses_again() {
    let machine = LostNamespaceHost::new();
    let before = machine.host();
    let (container, _, process) = machine.run();
    container.sh("ip link del eth0");
    container.remove();
    let (_second, attachment) = machine.comes_back();
    machine.leaves_nothing(&before, &attachment);
    process.end();
}

/// Nothing on the host shows an interface that is no veth, such as one of macvlan: the address is the sign.
#[test]
fn an_address_of_an_interface_that_the_host_does_not_see_is_refused_while_its_task_lives() {
    let machine = LostNamespaceHost::new();
    let ipam = json!({"type": "host-local", "subnet": "10.1.2.0/24", "dataDir": "/run/leases"});
    let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": "macvlan", "ipam": ipam});
    let call = |container: &Container| {
        let call = Invocation::new(&machine.sandbox, "host-local", Verb::Add).container_id(ALLOC);
        call.netns(container.path()).config(&config).run()
    };
    let container = machine.sandbox.container(ALLOC);
    let given = call(&container).result();
    assert_eq!(address(&given["ips"][0]), "10.1.2.2");
    container.sh("ip link add eth0 type bridge");
    container.sh("ip address add 10.1.2.2/24 dev eth0");
    let process = NamespaceProcess::start(&container);
    container.remove();
    let second = machine.sandbox.container(ALLOC);
    let error = call(&second).expect_error(105, "10.1.2.2 has been allocated to alloc, duplicate allocation");
    assert!(error.details.contains(&format!("/proc/{}/ns/net", process.0.id())), "{error:?}");
    process.end();
    assert_eq!(call(&second).result(), given);
}

/// The plugin static knows no leases: the plugin that makes the interface refuses the address.
#[test]
fn an_address_that_static_gives_again_is_refused_while_its_task_lives() {
    let ipam = json!({"type": "static", "addresses": [
        {"address": "10.1.2.5/24", "gateway": "10.1.2.1"}, {"address": "fd00:1::5/64", "gateway": "fd00:1::1"},
    ]});
    let rows = [
        json!({"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": ipam}),
        json!({"type": "ptp", "ipam": ipam}),
        json!({"type": "macvlan", "master": "up0", "ipam": ipam}),
        json!({"type": "tap", "ipam": ipam}),
    ];
    for_each(rows.map(|row| (row["type"].to_string(), row)), |plugin| {
        let sandbox = Sandbox::new();
        sandbox.host().ip(&["link add up0 type veth peer name up1", "link set up0 up", "link set up1 up"]);
        let list = json!({"cniVersion": "1.0.0", "name": "n1", "plugins": [plugin]});
        let runtime = Runtime::new(&sandbox, list);
        let first = sandbox.container(ALLOC);
        runtime.add(&mut Attachment::new(ALLOC, &first)).expect_success();
        let process = NamespaceProcess::start(&first);
        first.remove();
        let second = sandbox.container(ALLOC);
        let state = || State::capture(&sandbox, &[&second]).lines();
        let before = state();
        let mut again = Attachment::new(ALLOC, &second);
        let words = "static has given 10.1.2.5, which alloc already has in another network namespace";
        let error = runtime.add(&mut again).expect_error(plugin["type"].as_str().expect("a type"), 105, words);
        assert!(error.details.contains(&format!("/proc/{}/ns/net", process.0.id())), "{error:?}");
        assert_eq!(state(), before, "nothing has changed");
        process.end();
        runtime.add(&mut again).expect_success();
        runtime.del(&again).expect_success();
    });
}

/// Other containers live, with addresses and aliases of their own.
#[test]
fn neighbours_do_not_keep_a_container_from_its_addresses() {
    let machine = LostNamespaceHost::new();
    let (container, _, process) = machine.run();
    let neighbour = machine.sandbox.container("neighbour");
    machine.runtime().add(&mut Attachment::new("neighbour", &neighbour)).expect_success();
    // What a container does to its own namespace has no effect on another's fate.
    for address in ADDRESSES {
        neighbour.sh(&format!("ip addr add {address} dev eth0"));
    }
    container.remove();
    process.end();
    machine.comes_back();
}

/// The leases lie on a disk; links, rules and records went with the machine.
#[test]
fn after_a_reboot_a_container_gets_its_addresses_again() {
    let machine = LostNamespaceHost::new();
    let before = machine.host();
    let (container, _, process) = machine.run();
    process.end();
    container.remove();
    machine.sandbox.sh("ip link del nomad");
    machine.sandbox.sh("nft flush ruleset");
    machine.sandbox.sh("rm -rf /run/cni/.cni-plugins-rs");
    fs::write("/run/conformance/boot_id", "5dd2c0a0-0000-4000-8000-000000000001\n").expect("write a boot ID");
    machine.sandbox.sh("mount -n --bind /run/conformance/boot_id /proc/sys/kernel/random/boot_id");
    machine.nomad.ensure_forwarding_rules(&machine.sandbox);
    let (second, attachment) = machine.comes_back();
    assert!(Network::observe(&second).links.iter().any(|link| link.name == "eth0"));
    machine.leaves_nothing(&before, &attachment);
}
