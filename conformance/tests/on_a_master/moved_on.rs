//! A container that moves its interface on, into a network namespace that it has made: the kernel shows such a link neither in
//! the container nor on the host. Its address would be given out again while it is in use.

use std::fs;
use std::path::Path;
use std::thread;

use cni_conformance::cases::for_each;
use cni_conformance::uml::on_kernels_with;
use cni_conformance::wait::wait_until;
use cni_conformance::{Attachment, Container, Feature, Invocation, Namespace, Network, Outcome, Verb};
use serde_json::{Value, json};

use super::{KINDS, LEASES, MasterHost, UPLINK, has_eth0, shell};

/// What a container does to hide the interface, besides.
const DEEDS: [(&str, &str); 4] = [
    ("nothing else", "true"),
    ("renamed", "ip link set eth0 down; ip link set eth0 name other"),
    ("moved on once more", "ip link set eth0 netns deep"),
    ("moved back under another index", "ip link set eth0 netns deep; ip -n deep link set eth0 netns nested index 99"),
];

/// The namespaces of the container beside its own: named, so that a test can look into them.
struct Nested {
    nested: Container,
    deep: Container,
}

impl Nested {
    fn of(machine: &MasterHost) -> Self {
        Self { nested: machine.sandbox.container("nested"), deep: machine.sandbox.container("deep") }
    }

    fn links(&self) -> String {
        let links = |namespace: &Namespace| shell(namespace, "ip -o link show | grep -v ': lo:' || true");
        links(&self.nested) + &links(&self.deep)
    }

    /// Where the interface is, and its name there.
    fn place(&self) -> (&Container, String) {
        let child = |namespace: &Namespace| {
            let links = Network::observe(namespace).links.into_iter();
            links.map(|link| link.name).find(|name| name != "lo" && !name.starts_with("in"))
        };
        let found = [&self.nested, &self.deep].into_iter().find_map(|one| Some((one, child(one)?)));
        found.expect("the interface is in one of them")
    }
}

/// Moves the interface on, and takes its address there.
fn move_on(container: &Container, nested: &Nested, deed: &str) {
    shell(container, "ip link set eth0 netns nested");
    shell(&nested.nested, deed);
    let (place, name) = nested.place();
    shell(place, &format!("ip address add 10.7.0.2/24 dev {name}; ip link set {name} up"));
}

#[test]
fn del_removes_an_interface_that_the_container_has_moved_on() {
    on_kernels_with(KINDS, |kind| {
        for_each(DEEDS, |deed| {
            let machine = MasterHost::new(kind);
            let list = machine.network(&json!({}));
            let (container, attachment) = machine.attach(&list, "c1");
            let nested = Nested::of(&machine);
            move_on(&container, &nested, deed);
            let deleted = machine.runtime(&list).del(&attachment);
            deleted.expect_success();
            assert_eq!(nested.links(), "");
            let said = deleted.step(super::plugin(kind)).stderr();
            assert!(said.contains("the container has moved its interface on: it is removed as "), "{said}");
            machine.runtime(&list).del(&attachment).expect_success();
            assert_eq!(machine.leases(), [""; 0]);
        });
    });
}

/// As with `/proc/<pid>/ns/net`: the process has left the namespace, which has ended, and has taken the interface along.
#[test]
fn del_removes_an_interface_that_was_moved_on_before_the_namespace_ended() {
    on_kernels_with(KINDS, |kind| {
        for_each([("the path of the ADD", false), ("a path to where it is", true)], |leads_there| {
            let machine = MasterHost::new(kind);
            let list = machine.network(&json!({}));
            let (container, attachment) = machine.attach(&list, "c1");
            let nested = Nested::of(&machine);
            move_on(&container, &nested, "true");
            container.remove();
            let request = if leads_there { attachment.netns(nested.nested.path()) } else { attachment };
            machine.runtime(&list).del(&request).expect_success();
            assert_eq!(nested.links(), "");
            assert_eq!(machine.leases(), [""; 0]);
        });
    });
}

/// Root of the container has the MAC address and the index changed, and a link of its own in the place.
#[test]
fn del_removes_an_interface_that_was_moved_on_and_replaced() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        let nested = Nested::of(&machine);
        let index = shell(&container, "ip -o link show eth0 | cut -d: -f1").trim().to_owned();
        move_on(&container, &nested, "ip link set eth0 address 02:00:00:00:00:77");
        shell(
            &container,
            &format!("ip link add in0 type veth peer name in1; ip link add eth0 link in0 index {index} type macvlan"),
        );
        machine.runtime(&list).del(&attachment).expect_success();
        assert_eq!(nested.links(), "");
    });
}

/// A link on the container's own is one on the master of the host. It gets the name and the index of the one that has left.
#[test]
fn del_removes_an_interface_that_was_moved_on_and_replaced_by_a_sibling() {
    on_kernels_with(&[Feature::MacvlanLinks, Feature::IpvlanLinks], |kind| {
        for_each([("by its path", true), ("by its number", false)], |has_path| {
            let machine = MasterHost::new(kind);
            let list = machine.network(&json!({}));
            let (container, attachment) = machine.attach(&list, "c1");
            let nested = Nested::of(&machine);
            let index = shell(&container, "ip -o link show eth0 | cut -d: -f1").trim().to_owned();
            let make = |link: &str, name: &str| format!("ip link add link {link} {name} type {}", super::plugin(kind));
            shell(&container, &make("eth0", "tmp0"));
            move_on(&container, &nested, "true");
            shell(&container, &format!("{}; ip link del tmp0", make("tmp0", &format!("eth0 index {index}"))));
            let request = if has_path { attachment } else { attachment.netns("") };
            machine.runtime(&list).del(&request).expect_success();
            assert_eq!(nested.links(), "");
            assert!(!has_eth0(&container));
            assert_eq!(machine.leases(), [""; 0]);
        });
    });
}

/// Another program has made the neighbour's interface, with the address that an earlier DEL has released before it was killed.
#[test]
fn del_leaves_the_interface_of_the_container_that_has_got_the_address() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let one = json!({"subnet": "10.7.0.0/24", "rangeStart": "10.7.0.2", "rangeEnd": "10.7.0.2"});
        let list = machine.network(&json!({"ipam": {"type": "host-local", "ranges": [[one]], "dataDir": LEASES}}));
        let (container, attachment) = machine.attach(&list, "c1");
        shell(&container, "ip link del eth0");
        host_local(&machine, &list, Verb::Del, "c1").expect_success();
        let neighbour = machine.sandbox.container("c2");
        host_local(&machine, &list, Verb::Add, "c2").expect_success();
        let id = if kind == Feature::VlanLinks { "id 5" } else { "" };
        let kind = super::plugin(kind);
        machine.sandbox.host().sh(&format!("ip link add link {UPLINK} name eth0 netns c2 type {kind} {id}"));
        shell(&neighbour, "ip address add 10.7.0.2/24 dev eth0; ip link set eth0 up");
        machine.runtime(&list).del(&attachment).expect_success();
        assert!(has_eth0(&neighbour));
        assert_eq!(machine.leases(), ["10.7.0.2"]);
    });
}

/// Calls the IPAM plugin of a network alone.
fn host_local(machine: &MasterHost, list: &Value, verb: Verb, container: &str) -> Outcome {
    let config =
        json!({"cniVersion": "1.1.0", "name": "lan", "ipam": list["plugins"][0]["ipam"], "type": "host-local"});
    let call = Invocation::new(&machine.sandbox, "host-local", verb).config(&config);
    call.container_id(container).netns(&format!("/run/netns/{container}")).run()
}

/// Both have one MAC address by the configuration. The neighbour's ADD waits for its IPAM plugin, and has the interface.
#[test]
fn del_leaves_the_interface_of_a_container_that_is_being_added() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        let machine = MasterHost::new(kind);
        let may_go_on = Path::new("/run/conformance/plugins/go");
        let wait = format!(
            "until [ $CNI_COMMAND.$CNI_CONTAINERID != ADD.c2 -o -e {} ]; do sleep 0.05; done",
            may_go_on.display()
        );
        let answer = r#"{"cniVersion":"1.0.0","ips":[{"address":"10.7.0.2/24"}]}"#;
        let path = super::with_script(&format!("{wait}\n[ $CNI_COMMAND != ADD ] || echo '{answer}'"));
        let list = machine.network(&json!({"ipam": {"type": "script"}, "mac": "02:00:00:00:00:77"}));
        let container = machine.sandbox.container("c1");
        let neighbour = machine.sandbox.container("c2");
        let runtime = machine.runtime(&list).env("CNI_PATH", &path);
        let mut attachment = Attachment::new("c1", &container);
        runtime.add(&mut attachment).expect_success();
        shell(&container, "ip link del eth0");
        thread::scope(|scope| {
            let adding = scope.spawn(|| runtime.add(&mut Attachment::new("c2", &neighbour)));
            wait_until("the neighbour's interface", || has_eth0(&neighbour));
            runtime.del(&attachment).expect_success();
            assert!(has_eth0(&neighbour));
            fs::write(may_go_on, "").expect("let the IPAM plugin answer");
            adding.join().expect("no panic").expect_success();
        });
        assert!(has_eth0(&neighbour));
    });
}

/// Equal MAC addresses and addresses do not make a link the attachment's: one on a master inside leads nowhere, and another
/// attachment's is recorded.
#[test]
fn del_leaves_what_only_looks_like_an_interface_that_was_moved_on() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        let (neighbour, of_neighbour) = machine.attach(&list, "c2");
        let nested = Nested::of(&machine);
        let mac = shell(&container, "ip -o link show eth0 | sed 's,.*link/ether \\([^ ]*\\).*,\\1,'").trim().to_owned();
        shell(&container, "ip link del eth0");
        shell(&nested.nested, "ip link add in0 type veth peer name in1");
        shell(&nested.nested, &format!("ip link add eth0 link in0 address {mac} type macvlan"));
        shell(&nested.nested, "ip address add 10.7.0.2/24 dev eth0");
        shell(&neighbour, "ip address add 10.7.0.2/32 dev eth0");
        machine.runtime(&list).del(&attachment).expect_success();
        assert!(has_eth0(&nested.nested) && has_eth0(&neighbour));
        machine.runtime(&list).check(&of_neighbour).expect_success();
        assert_eq!(machine.leases(), ["10.7.0.3"]);
    });
}

// The reference does nothing.
#[test]
fn gc_removes_the_interface_before_its_address_is_released() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        machine.runtime(&list).gc(&[&attachment]).expect_success();
        machine.runtime(&list).check(&attachment).expect_success();
        machine.runtime(&list).gc(&[]).expect_success();
        assert!(!has_eth0(&container), "its namespace lives");
        assert_eq!(machine.leases(), [""; 0]);
        machine.runtime(&list).add(&mut Attachment::new("c1", &container)).expect_success();
    });
}

#[test]
fn gc_removes_an_interface_that_the_container_has_moved_on() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        let nested = Nested::of(&machine);
        move_on(&container, &nested, "true");
        machine.runtime(&list).gc(&[&attachment]).expect_success();
        assert!(has_eth0(&nested.nested), "it is valid");
        machine.runtime(&list).gc(&[]).expect_success();
        assert_eq!(nested.links(), "");
        assert_eq!(machine.leases(), [""; 0]);
    });
}

/// The interface may be in a namespace of a process that the plugin cannot see, as long as the container lives.
#[test]
fn gc_keeps_the_address_of_an_interface_that_may_be_out_of_sight() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, _) = machine.attach(&list, "c1");
        shell(&container, "ip link del eth0");
        machine.sandbox.sh("mount -t proc -o hidepid=2 proc /proc");
        let failed = machine.runtime(&list).gc(&[]);
        let error = failed.step(super::plugin(kind)).error();
        assert_eq!(
            (error.code, error.msg.as_str()),
            (11, "the interface eth0 of c1 may be in a network namespace that cannot be searched")
        );
        assert_eq!(machine.leases(), ["10.7.0.2"]);
        container.remove();
        machine.runtime(&list).gc(&[]).expect_success();
        assert_eq!(machine.leases(), [""; 0]);
    });
}
