//! DEL leaves nothing, whatever was lost; GC and STATUS.

use std::fs;
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::odd_names::{self, ODD_NAMES};
use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Attachment, Container, Feature, Invocation, Loss, Verb, injection};
use serde_json::{Value, json};

use super::{KINDS, UPLINK, World, calls, has_eth0, plugin, shell, with_script};

/// What else goes away. The reference's DEL of vlan fails without the master.
#[derive(Clone, Copy, Debug)]
enum Gone {
    OneOfAll(Loss),
    Master,
    /// The master is down, and has a smaller MTU than the link was made with.
    MasterCarrier,
}

impl Gone {
    fn all() -> impl Iterator<Item = Self> {
        Loss::ALL.into_iter().map(Self::OneOfAll).chain([Self::Master, Self::MasterCarrier])
    }

    fn strike(self, world: &World, container: &Container, request: Attachment) -> Attachment {
        match self {
            Self::OneOfAll(loss) => return loss.strike(container, request),
            Self::Master => drop(world.sandbox.sh(&format!("ip link del {UPLINK}"))),
            Self::MasterCarrier => drop(world.sandbox.sh(&format!("ip link set {UPLINK} mtu 1300 down"))),
        }
        request
    }
}

#[test]
fn del_releases_the_address_whatever_was_lost() {
    on_kernels_with(KINDS, |kind| {
        for_each(Gone::all().map(|gone| (format!("{gone:?}"), gone)), |gone| {
            let world = World::new(kind);
            let list = world.network(&json!({"mtu": 1400}));
            let (container, attachment) = world.attach(&list, "c1");
            assert_eq!(world.leases(), ["10.7.0.2"]);
            let request = gone.strike(&world, &container, attachment);
            for _ in ["once", "again"] {
                world.runtime(&list).del(&request).expect_success();
                assert_eq!(world.leases(), [""; 0]);
            }
        });
    });
}

#[test]
fn del_removes_the_link_whatever_became_of_the_configuration() {
    on_kernels_with(KINDS, |kind| {
        let changes: [Value; 6] = [
            json!({"ipam": null}),
            json!({"ipam": {"type": ""}}),
            json!({"master": "none"}),
            json!({"master": null}),
            json!({"mode": "zz", "mtu": -1, "vlanId": 9999, "mac": "zz"}),
            json!({"linkInContainer": true}),
        ];
        for_each(changes.map(|keys| (keys.to_string(), keys)), |keys| {
            let world = World::new(kind);
            let (container, attachment) = world.attach(&world.network(&json!({})), "c1");
            world.runtime(&world.network(&keys)).del(&attachment).expect_success();
            assert!(!has_eth0(&container));
        });
    });
}

// The reference removes any interface of the name.
#[test]
fn del_leaves_an_interface_that_is_another_ones() {
    on_kernels_with(KINDS, |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({}));
        let (container, attachment) = world.attach(&list, "c1");
        shell(&container, "ip link del eth0; ip link add eth0 type veth peer name peer");
        world.runtime(&list).del(&attachment).expect_success();
        assert!(has_eth0(&container));
        assert_eq!(world.leases(), [""; 0]);
    });
}

/// tuning has set the MAC address back when the DEL of the link comes, and the result still tells tuning's. A link of kind
/// ipvlan has its master's.
#[test]
fn del_removes_a_link_whose_mac_address_has_changed() {
    on_kernels_with(&[Feature::MacvlanLinks, Feature::VlanLinks], |kind| {
        let tuned = json!({"type": "tuning", "mac": "02:00:00:00:00:0a"});
        for_each([("by tuning", Some(tuned)), ("by the container", None)], |tuning| {
            let world = World::new(kind);
            let mut list = world.network(&json!({}));
            list["plugins"].as_array_mut().expect("plugins").extend(tuning.clone());
            let (container, attachment) = world.attach(&list, "c1");
            if tuning.is_none() {
                shell(&container, "ip link set eth0 down; ip link set eth0 address 02:00:00:00:00:0b");
            }
            world.runtime(&list).del(&attachment).expect_success();
            assert!(!has_eth0(&container));
            assert_eq!(world.leases(), [""; 0]);
        });
    });
}

/// The reference finds no link of its name, and releases the address.
#[test]
fn del_removes_a_link_under_any_name_that_the_kernel_allows() {
    on_kernels_with(KINDS, |kind| {
        for_each(ODD_NAMES, |name| {
            let world = World::new(kind);
            let list = world.network(&json!({}));
            let (container, attachment) = world.attach(&list, "c1");
            odd_names::rename(&container, "eth0", name);
            world.runtime(&list).del(&attachment).expect_success();
            assert_eq!(shell(&container, &format!("ip -o link show type {}", plugin(kind))), "");
            assert_eq!(world.leases(), [""; 0]);
        });
    });
}

/// Otherwise another container would get the address of a link that still exists.
#[test]
fn the_address_stays_reserved_while_the_link_cannot_be_removed() {
    on_kernels_with(KINDS, |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({}));
        let (container, attachment) = world.attach(&list, "c1");
        let call = world.runtime(&list).invocation(Verb::Del, plugin(kind), &attachment, attachment.result.as_ref());
        assert_eq!(injection::outside_namespaces(&call).run().error().code, 8);
        assert!(has_eth0(&container));
        assert_eq!(world.leases(), ["10.7.0.2"]);
        world.runtime(&list).del(&attachment).expect_success();
        assert!(!has_eth0(&container));
        assert_eq!(world.leases(), [""; 0]);
    });
}

// The reference releases the address first, and keeps the link when that fails.
#[test]
fn the_link_is_gone_before_its_address_is_released_even_if_that_fails() {
    on_kernels_with(KINDS, |kind| {
        let world = World::new(kind);
        let container = world.sandbox.container("c1");
        let address = r#"{"cniVersion":"1.0.0","ips":[{"address":"10.7.0.2/24"}]}"#;
        let path = with_script(&format!("[ $CNI_COMMAND = ADD ] && echo '{address}' && exit 0\nexit 1"));
        let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": plugin(kind), "master": UPLINK, "ipam": {"type": "script"}});
        let call = |verb| {
            Invocation::new(&world.sandbox, plugin(kind), verb)
                .container_id("c1")
                .netns(container.path())
                .path(&path)
                .config(&config)
        };
        call(Verb::Add).run().result();
        assert!(has_eth0(&container));
        assert!(!call(Verb::Del).run().succeeded(), "the IPAM plugin's failure is not told");
        assert!(!has_eth0(&container));
        assert_eq!(calls(), ["ADD there", "DEL gone"]);
    });
}

/// Wherever it was killed.
#[test]
fn del_takes_away_what_a_killed_add_has_left() {
    on_kernels_with(KINDS, |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({}));
        for milliseconds in [1, 4, 12, 24] {
            let container = world.sandbox.container("c1");
            let attachment = Attachment::new("c1", &container);
            let add = world.runtime(&list).invocation(Verb::Add, plugin(kind), &attachment, None);
            add.killed_after(Duration::from_millis(milliseconds)).run();
            world.runtime(&list).del(&attachment).expect_success();
            assert!(!has_eth0(&container));
            assert_eq!(world.leases(), [""; 0], "after {milliseconds} ms");
            world.runtime(&list).add(&mut attachment.clone()).expect_success();
            world.runtime(&list).del(&attachment).expect_success();
            container.remove();
        }
    });
}

// The reference does nothing.
#[test]
fn gc_has_the_ipam_plugin_release_what_no_valid_attachment_has() {
    on_kernels_with(KINDS, |kind| {
        let world = World::new(kind);
        let list = world.network(&json!({}));
        let (kept, attachment) = world.attach(&list, "kept");
        shell(
            world.sandbox.host(),
            "cp /run/ipam/lan/10.7.0.2 /run/ipam/lan/10.7.0.9; sed -i s/kept/lost/ /run/ipam/lan/10.7.0.9",
        );
        assert_eq!(world.leases(), ["10.7.0.2", "10.7.0.9"]);
        world.runtime(&list).gc(&[&attachment]).expect_success();
        assert_eq!(world.leases(), ["10.7.0.2"]);
        assert!(has_eth0(&kept));
        world.runtime(&list).check(&attachment).expect_success();
    });
}

// The reference succeeds.
#[test]
fn status_names_what_add_could_not_do_without() {
    on_kernels_with(KINDS, |kind| {
        let world = World::new(kind);
        let status = |keys: Value| world.runtime(&world.network(&keys)).status();
        let before = world.links();
        status(json!({})).expect_success();
        assert_eq!(world.links(), before, "a link was made");
        let none = r#"failed to lookup master "none": Link not found"#;
        status(json!({"master": "none"})).expect_error(plugin(kind), 50, none);
        status(json!({"master": "none", "linkInContainer": true})).expect_success();
        world.sandbox.sh(&format!("ip link set {UPLINK} down"));
        status(json!({})).expect_error(plugin(kind), 51, &format!("master {UPLINK:?} is down"));
    });
}

/// The record of the former ADD is of a namespace that has ended: it must not keep DEL from the new one.
#[test]
fn del_takes_away_what_a_killed_add_of_a_container_that_came_back_has_left() {
    on_kernels_with(KINDS, |kind| {
        let world = World::new(kind);
        let answer = r#"{"cniVersion":"1.0.0","ips":[{"address":"10.7.0.2/24"}]}"#;
        let path = with_script(&format!(
            "[ $CNI_COMMAND = ADD ] || exit 0\n[ ! -e /run/kill ] || kill -9 $PPID\necho '{answer}'"
        ));
        let config = world.network(&json!({"cniVersion": "1.1.0", "name": "lan", "ipam": {"type": "script"}}));
        let config = &config["plugins"][0];
        let call = |verb, container: &Container| {
            let call = Invocation::new(&world.sandbox, plugin(kind), verb);
            call.container_id("c1").netns(container.path()).path(&path).config(config).run()
        };
        let first = world.sandbox.container("c1");
        call(Verb::Add, &first).result();
        first.remove();
        let second = world.sandbox.container("c1");
        fs::write("/run/kill", "").expect("write a file");
        assert!(!call(Verb::Add, &second).succeeded(), "it is killed");
        assert!(has_eth0(&second));
        call(Verb::Del, &second).expect_success();
        assert!(!has_eth0(&second));
    });
}
