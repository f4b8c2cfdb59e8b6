//! DEL leaves nothing, whatever was lost; GC and STATUS.

use std::fs;
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::odd_names::{self, ODD_NAMES};
use cni_conformance::uml::on_kernels_with;
use cni_conformance::{Attachment, Container, Feature, Invocation, Loss, Verb, injection};
use serde_json::{Value, json};

use super::{KINDS, MasterHost, UPLINK, calls, has_eth0, plugin, shell, with_script};

/// What else goes away. The reference's DEL of vlan fails without the master.
#[derive(Clone, Copy, Debug)]
enum Missing {
    OneOfAll(Loss),
    Master,
    /// The master is down, and has a smaller MTU than the link was made with.
    MasterCarrier,
}

impl Missing {
    fn all() -> impl Iterator<Item = Self> {
        Loss::ALL.into_iter().map(Self::OneOfAll).chain([Self::Master, Self::MasterCarrier])
    }

    fn strike(self, machine: &MasterHost, container: &Container, request: Attachment) -> Attachment {
        match self {
            Self::OneOfAll(loss) => return loss.strike(container, request),
            Self::Master => drop(machine.sandbox.sh(&format!("ip link del {UPLINK}"))),
            Self::MasterCarrier => drop(machine.sandbox.sh(&format!("ip link set {UPLINK} mtu 1300 down"))),
        }
        request
    }
}

#[test]
fn del_releases_the_address_whatever_was_lost() {
    on_kernels_with(KINDS, |kind| {
        for_each(Missing::all().map(|gone| (format!("{gone:?}"), gone)), |gone| {
            let machine = MasterHost::new(kind);
            let list = machine.network(&json!({"mtu": 1400}));
            let (container, attachment) = machine.attach(&list, "c1");
            assert_eq!(machine.leases(), ["10.7.0.2"]);
            let request = gone.strike(&machine, &container, attachment);
            for _ in ["once", "again"] {
                machine.runtime(&list).del(&request).expect_success();
                assert_eq!(machine.leases(), [""; 0]);
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
            let machine = MasterHost::new(kind);
            let (container, attachment) = machine.attach(&machine.network(&json!({})), "c1");
            machine.runtime(&machine.network(&keys)).del(&attachment).expect_success();
            assert!(!has_eth0(&container));
        });
    });
}

// The reference removes any interface of the name.
#[test]
fn del_leaves_an_interface_that_is_another_ones() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        shell(&container, "ip link del eth0; ip link add eth0 type veth peer name peer");
        machine.runtime(&list).del(&attachment).expect_success();
        assert!(has_eth0(&container));
        assert_eq!(machine.leases(), [""; 0]);
    });
}

/// tuning has set the MAC address back when the DEL of the link comes, and the result still tells tuning's. A link of kind
/// ipvlan has its master's.
#[test]
fn del_removes_a_link_whose_mac_address_has_changed() {
    on_kernels_with(&[Feature::MacvlanLinks, Feature::VlanLinks], |kind| {
        let tuned = json!({"type": "tuning", "mac": "02:00:00:00:00:0a"});
        for_each([("by tuning", Some(tuned)), ("by the container", None)], |tuning| {
            let machine = MasterHost::new(kind);
            let mut list = machine.network(&json!({}));
            list["plugins"].as_array_mut().expect("plugins").extend(tuning.clone());
            let (container, attachment) = machine.attach(&list, "c1");
            if tuning.is_none() {
                shell(&container, "ip link set eth0 down; ip link set eth0 address 02:00:00:00:00:0b");
            }
            machine.runtime(&list).del(&attachment).expect_success();
            assert!(!has_eth0(&container));
            assert_eq!(machine.leases(), [""; 0]);
        });
    });
}

/// The reference finds no link of its name, and releases the address.
#[test]
fn del_removes_a_link_under_any_name_that_the_kernel_allows() {
    on_kernels_with(KINDS, |kind| {
        for_each(ODD_NAMES, |name| {
            let machine = MasterHost::new(kind);
            let list = machine.network(&json!({}));
            let (container, attachment) = machine.attach(&list, "c1");
            odd_names::rename(&container, "eth0", name);
            machine.runtime(&list).del(&attachment).expect_success();
            assert_eq!(shell(&container, &format!("ip -o link show type {}", plugin(kind))), "");
            assert_eq!(machine.leases(), [""; 0]);
        });
    });
}

/// Otherwise another container would get the address of a link that still exists.
#[test]
fn the_address_stays_reserved_while_the_link_cannot_be_removed() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        let call = machine.runtime(&list).invocation(Verb::Del, plugin(kind), &attachment, attachment.result.as_ref());
        assert_eq!(injection::outside_namespaces(&call).run().error().code, 8);
        assert!(has_eth0(&container));
        assert_eq!(machine.leases(), ["10.7.0.2"]);
        machine.runtime(&list).del(&attachment).expect_success();
        assert!(!has_eth0(&container));
        assert_eq!(machine.leases(), [""; 0]);
    });
}

// The reference releases the address first, and keeps the link when that fails.
#[test]
fn the_link_is_gone_before_its_address_is_released_even_if_that_fails() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let container = machine.sandbox.container("c1");
        let address = r#"{"cniVersion":"1.0.0","ips":[{"address":"10.7.0.2/24"}]}"#;
        let path = with_script(&format!("[ $CNI_COMMAND = ADD ] && echo '{address}' && exit 0\nexit 1"));
        let config = json!({"cniVersion": "1.0.0", "name": "n1", "type": plugin(kind), "master": UPLINK, "ipam": {"type": "script"}});
        let call = |verb| {
            Invocation::new(&machine.sandbox, plugin(kind), verb)
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
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        for milliseconds in [1, 4, 12, 24] {
            let container = machine.sandbox.container("c1");
            let attachment = Attachment::new("c1", &container);
            let add = machine.runtime(&list).invocation(Verb::Add, plugin(kind), &attachment, None);
            add.killed_after(Duration::from_millis(milliseconds)).run();
            machine.runtime(&list).del(&attachment).expect_success();
            assert!(!has_eth0(&container));
            assert_eq!(machine.leases(), [""; 0], "after {milliseconds} ms");
            machine.runtime(&list).add(&mut attachment.clone()).expect_success();
            machine.runtime(&list).del(&attachment).expect_success();
            container.remove();
        }
    });
}

// The reference does nothing.
#[test]
fn gc_has_the_ipam_plugin_release_what_no_valid_attachment_has() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let list = machine.network(&json!({}));
        let (kept, attachment) = machine.attach(&list, "kept");
        shell(
            machine.sandbox.host(),
            "cp /run/ipam/lan/10.7.0.2 /run/ipam/lan/10.7.0.9; sed -i s/kept/lost/ /run/ipam/lan/10.7.0.9",
        );
        assert_eq!(machine.leases(), ["10.7.0.2", "10.7.0.9"]);
        machine.runtime(&list).gc(&[&attachment]).expect_success();
        assert_eq!(machine.leases(), ["10.7.0.2"]);
        assert!(has_eth0(&kept));
        machine.runtime(&list).check(&attachment).expect_success();
    });
}

// The reference succeeds.
#[test]
fn status_names_what_add_could_not_do_without() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let status = |keys: Value| machine.runtime(&machine.network(&keys)).status();
        let before = machine.links();
        status(json!({})).expect_success();
        assert_eq!(machine.links(), before, "a link was made");
        let none = r#"failed to lookup master "none": Link not found"#;
        status(json!({"master": "none"})).expect_error(plugin(kind), 50, none);
        status(json!({"master": "none", "linkInContainer": true})).expect_success();
        machine.sandbox.sh(&format!("ip link set {UPLINK} down"));
        status(json!({})).expect_error(plugin(kind), 51, &format!("master {UPLINK:?} is down"));
    });
}

/// The record of the former ADD is of a namespace that has ended: it must not keep DEL from the new one.
#[test]
fn what_a_killed_add_of_a_container_that_came_back_has_left_is_removed() {
    on_kernels_with(KINDS, |kind| {
        let machine = MasterHost::new(kind);
        let answer = r#"{"cniVersion":"1.0.0","ips":[{"address":"10.7.0.2/24"}]}"#;
        let path = with_script(&format!(
            "[ $CNI_COMMAND = ADD ] || exit 0\n[ ! -e /run/kill ] || kill -9 $PPID\necho '{answer}'"
        ));
        let config = machine.network(&json!({"cniVersion": "1.1.0", "name": "lan", "ipam": {"type": "script"}}));
        let mut config = config["plugins"][0].clone();
        config["cni.dev/valid-attachments"] = json!([]);
        let config = &config;
        let call = |verb, container: &Container| {
            let call = Invocation::new(&machine.sandbox, plugin(kind), verb);
            call.container_id("c1").netns(container.path()).path(&path).config(config).run()
        };
        for verb in [Verb::Del, Verb::Gc] {
            let first = machine.sandbox.container("c1");
            call(Verb::Add, &first).result();
            first.remove();
            let second = machine.sandbox.container("c1");
            fs::write("/run/kill", "").expect("write a file");
            assert!(!call(Verb::Add, &second).succeeded(), "it is killed");
            assert!(has_eth0(&second));
            call(verb, &second).expect_success();
            assert!(!has_eth0(&second), "{verb:?}");
            fs::remove_file("/run/kill").expect("remove a file");
            second.remove();
        }
    });
}
