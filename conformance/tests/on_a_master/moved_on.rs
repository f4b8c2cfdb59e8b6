//! A container that moves its interface on, into a network namespace that it has made: the kernel shows such a link neither in
//! the container nor on the host. Its address would be given out again while it is in use.

use cni_conformance::cases::for_each;
use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Attachment, Container, Feature, Namespace, Network};
use serde_json::json;

use super::{KINDS, World, has_eth0, shell};

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
    fn of(world: &World) -> Self {
        Self { nested: world.sandbox.container("nested"), deep: world.sandbox.container("deep") }
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
            let world = World::new(kind);
            let list = world.network(&json!({}));
            let (container, attachment) = world.attach(&list, "c1");
            let nested = Nested::of(&world);
            move_on(&container, &nested, deed);
            let deleted = world.runtime(&list).del(&attachment);
            deleted.expect_success();
            assert_eq!(nested.links(), "");
            let said = deleted.step(super::plugin(kind)).stderr();
            assert!(said.contains("the container has moved its interface on: it is removed as "), "{said}");
            world.runtime(&list).del(&attachment).expect_success();
            assert_eq!(world.leases(), [""; 0]);
        });
    });
}

/// As with `/proc/<pid>/ns/net`: the process has left the namespace, which has ended, and has taken the interface along.
#[test]
fn del_removes_an_interface_that_was_moved_on_before_the_namespace_ended() {
    on_kernels_with(KINDS, |kind| {
        for_each([("the path of the ADD", false), ("a path to where it is", true)], |leads_there| {
            let world = World::new(kind);
            let list = world.network(&json!({}));
            let (container, attachment) = world.attach(&list, "c1");
            let nested = Nested::of(&world);
            move_on(&container, &nested, "true");
            container.remove();
            let request = if leads_there { attachment.netns(nested.nested.path()) } else { attachment };
            world.runtime(&list).del(&request).expect_success();
            assert_eq!(nested.links(), "");
            assert_eq!(world.leases(), [""; 0]);
        });
    });
}

/// Root of the container has the MAC address and the index changed, and a link of its own in the place.
#[test]
fn del_removes_an_interface_that_was_moved_on_and_replaced() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({}));
        let (container, attachment) = world.attach(&list, "c1");
        let nested = Nested::of(&world);
        let index = shell(&container, "ip -o link show eth0 | cut -d: -f1").trim().to_owned();
        move_on(&container, &nested, "ip link set eth0 address 02:00:00:00:00:77");
        shell(
            &container,
            &format!("ip link add in0 type veth peer name in1; ip link add eth0 link in0 index {index} type macvlan"),
        );
        world.runtime(&list).del(&attachment).expect_success();
        assert_eq!(nested.links(), "");
    });
}

/// Equal MAC addresses and addresses do not make a link the attachment's: one on a master inside leads nowhere, and another
/// attachment's is recorded.
#[test]
fn del_leaves_what_only_looks_like_an_interface_that_was_moved_on() {
    on_kernels_with(&[Feature::MacvlanLinks], |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({}));
        let (container, attachment) = world.attach(&list, "c1");
        let (neighbour, of_neighbour) = world.attach(&list, "c2");
        let nested = Nested::of(&world);
        let mac = shell(&container, "ip -o link show eth0 | sed 's,.*link/ether \\([^ ]*\\).*,\\1,'").trim().to_owned();
        shell(&container, "ip link del eth0");
        shell(&nested.nested, "ip link add in0 type veth peer name in1");
        shell(&nested.nested, &format!("ip link add eth0 link in0 address {mac} type macvlan"));
        shell(&nested.nested, "ip address add 10.7.0.2/24 dev eth0");
        shell(&neighbour, "ip address add 10.7.0.2/32 dev eth0");
        world.runtime(&list).del(&attachment).expect_success();
        assert!(has_eth0(&nested.nested) && has_eth0(&neighbour));
        world.runtime(&list).check(&of_neighbour).expect_success();
        assert_eq!(world.leases(), ["10.7.0.3"]);
    });
}

// The reference does nothing.
#[test]
fn gc_removes_the_interface_before_its_address_is_released() {
    on_kernels_with(KINDS, |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({}));
        let (container, attachment) = world.attach(&list, "c1");
        world.runtime(&list).gc(&[&attachment]).expect_success();
        world.runtime(&list).check(&attachment).expect_success();
        world.runtime(&list).gc(&[]).expect_success();
        assert!(!has_eth0(&container), "its namespace lives");
        assert_eq!(world.leases(), [""; 0]);
        world.runtime(&list).add(&mut Attachment::new("c1", &container)).expect_success();
    });
}
