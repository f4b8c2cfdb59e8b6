//! Steps that concern VLANs, against the real kernel. Where it cannot filter VLANs, they say so and leave
//! nothing; the conformance tests run them on a kernel that can.

use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_linux::host::LinuxHost;
use cni_model::plan::{IfPresent, LinkKind, NewLink, Ns, Step};
use cni_model::vlan::{EarlierVlans, PortVlans, VlanId, VlanLink};
use cni_plugin::host::Host;
use nix::sched::{CloneFlags, unshare};

const CONFIG: &str = r#"{"cniVersion":"1.0.0","name":"net1","type":"bridge"}"#;

const UNSUPPORTED: u32 = 2;
const NO_FILTERING: &str = "this kernel has no bridge VLAN filtering";

/// Moves the thread of the test into a new namespace, with the bridge `br0` in it.
fn host() -> Box<dyn Host> {
    unshare(CloneFlags::CLONE_NEWNET).expect("a new network namespace; this test needs root");
    let mut host: Box<dyn Host> = Box::new(LinuxHost::new(&cni_testkit::request("ADD", &[], CONFIG)));
    host.apply(&bridge("br0", false)).expect("a bridge");
    host
}

fn bridge(bridge: &str, vlan_filtering: bool) -> Step {
    let (name, mac, kind) = (name(bridge), Some(mac(1)), LinkKind::Bridge { vlan_filtering });
    Step::CreateLink { ns: Ns::Host, link: NewLink { name, mac, mtu: Some(1400), if_present: IfPresent::Accept, kind } }
}

fn name(name: &str) -> IfName {
    IfName::parse(name).expect("a name")
}

fn vlan(id: u16) -> VlanId {
    VlanId::new(id).expect("a VLAN")
}

fn mac(last: u8) -> Mac {
    Mac::local([0, 0, 0, 0, 0, last])
}

fn link() -> VlanLink {
    VlanLink {
        name: name("br0.5"),
        mac: mac(2),
        port: name("port0"),
        port_mac: mac(3),
        bridge: name("br0"),
        vlans: PortVlans::new(vlan(5), [vlan(20), vlan(21)].into(), EarlierVlans::Removed),
    }
}

#[test]
fn a_bridge_that_filters_vlans_is_made_or_refused_by_name() {
    let mut host = host();
    let made = host.apply(&bridge("br1", true));
    let found = host.link(Ns::Host, &name("br1")).expect("an answer");
    match made {
        Ok(_) => assert_eq!(found.expect("a bridge").vlan_filtering, Some(true)),
        Err(error) => {
            assert_eq!(error.code().number(), UNSUPPORTED);
            assert_eq!(error.to_string(), format!("vlan or vlanTrunk cannot be set on \"br1\": {NO_FILTERING}"));
            assert_eq!(found, None);
        }
    }
}

#[test]
fn the_link_to_a_vlan_is_whole_or_not_there() {
    let mut host = host();
    let made = host.apply(&Step::EnsureVlanLink(link()));
    let near = host.link(Ns::Host, &name("br0.5")).expect("an answer");
    let port = host.link(Ns::Host, &name("port0")).expect("an answer");
    match made {
        Ok(_) => {
            let (near, port) = (near.expect("the host's end"), port.expect("the port"));
            assert_eq!((near.mtu, near.mac, port.mac, port.up), (1400, Some(mac(2)), Some(mac(3)), true));
            assert_eq!(port.master, host.link(Ns::Host, &name("br0")).expect("an answer").map(|bridge| bridge.index));
            assert_eq!(
                link().vlans.first_missing(&host.devices().port_vlans(Ns::Host, port.index).expect("an answer")),
                None
            );
        }
        Err(error) => {
            assert_eq!((error.code().number(), near, port), (UNSUPPORTED, None, None));
            assert!(error.to_string().ends_with(NO_FILTERING), "{error}");
        }
    }
}

#[test]
fn a_link_that_others_made_is_not_taken_away_when_the_step_fails() {
    let mut host = host();
    let foreign = VlanLink { bridge: name("none"), ..link() };
    let error = host.apply(&Step::EnsureVlanLink(foreign.clone())).expect_err("there is no such bridge");
    assert_eq!(error.to_string(), r#"there is no link "none" in the host namespace"#);
    assert_eq!(host.link(Ns::Host, &foreign.name).expect("an answer"), None);

    host.apply(&bridge("br0.5", false)).expect("a link of that name");
    host.apply(&Step::EnsureVlanLink(foreign.clone())).expect_err("there is no such bridge");
    let kept = host.link(Ns::Host, &foreign.name).expect("an answer").expect("the link is still there");
    assert_eq!(kept.kind.as_deref(), Some("bridge"));
}
