//! Ports of a bridge, and their VLANs.

use std::ops::RangeInclusive;

use cni_core::error::{Code, Failure};
use cni_kernel::netlink::Cause;
use cni_model::plan::{BridgePort, LinkKind};
use cni_model::vlan::{BridgeVlan, VlanId};

use crate::netlink::{Namespace, errno, link, mac, veth, vlan_id};

#[test]
fn a_link_becomes_a_port_with_its_properties() {
    let mut host = Namespace::enter();
    let bridge = host.bridge("br0");
    let port = host.veth("veth0", "veth1").index;
    assert!(host.socket.set_bridge_port(port, BridgePort { hairpin: true, isolated: true }).is_err(), "no port yet");

    host.socket.set_master(port, bridge.index).expect("a port");
    assert_eq!(host.link("veth0").master, Some(bridge.index));
    for (hairpin, isolated, want) in
        [(true, false, ["hairpin on", "isolated off"]), (false, true, ["hairpin off", "isolated on"])]
    {
        host.socket.set_bridge_port(port, BridgePort { hairpin, isolated }).expect("set");
        let shown = host.run("ip -d link show dev veth0");
        assert!(want.iter().all(|want| shown.contains(want)), "{want:?} in {shown}");
    }

    assert_eq!(host.link("br0").mac, Some(mac(1)), "the bridge keeps its MAC");
    let error = host.socket.set_master(bridge.index, bridge.index).expect_err("a bridge is no port of itself");
    assert_eq!(error.errno(), Some(libc::ELOOP));
    assert_eq!(error.details(), "too many levels of symbolic links: Can not enslave a bridge to a bridge");
}

#[test]
fn a_full_bridge_is_named_as_such() {
    let mut host = Namespace::enter();
    let bridge = host.bridge("br0").index;
    for pair in 0..512 {
        let (name, peer_name) = (format!("a{pair}"), format!("b{pair}"));
        host.socket.create_link(&veth(&name, &peer_name), None).expect("a veth");
        let (port, peer) = (host.link(&name).index, host.link(&peer_name).index);
        host.socket.set_master(port, bridge).expect("a port");
        if pair < 511 {
            host.socket.set_master(peer, bridge).expect("a port");
            continue;
        }
        let error = host.socket.set_master(peer, bridge).expect_err("port 1024");
        assert_eq!(
            (error.errno(), error.cause(), error.code()),
            (Some(libc::EXFULL), &Cause::BridgeFull, Code::TryAgain)
        );
    }
}

#[test]
fn port_vlans_are_set_where_the_kernel_filters_vlans() {
    let mut host = Namespace::enter();
    let bridge = host.bridge("br0").index;
    let port = host.veth("veth0", "veth1").index;
    host.socket.set_master(port, bridge).expect("a port");
    let filtering = link("br1", LinkKind::Bridge { vlan_filtering: true });
    let vlan = |id, flags| BridgeVlan { id: vlan_id(id), pvid: flags, untagged: flags };
    let (ten_to_twelve, all) = (vlan_id(10)..=vlan_id(12), VlanId::FIRST..=VlanId::LAST);

    if let Err(error) = host.socket.create_link(&filtering, None) {
        assert_eq!(error.errno(), Some(libc::EOPNOTSUPP), "a kernel without CONFIG_BRIDGE_VLAN_FILTERING");
        assert_eq!(error.cause().to_string(), "operation not supported");
        assert_eq!(errno(host.socket.add_port_vlan(port, vlan(5, true))), Some(libc::EOPNOTSUPP));
        assert_eq!(errno(host.socket.add_port_vlan_range(port, ten_to_twelve)), Some(libc::EOPNOTSUPP));
        host.socket.remove_port_vlans(port, all).expect("absent ones are no error");
        assert_eq!(host.socket.bridge_vlans(port).expect("an answer"), []);
        return;
    }
    assert_eq!(host.link("br1").vlan_filtering, Some(true));
    assert_eq!(host.socket.bridge_vlans(port).expect("an answer"), [vlan(1, true)]);
    host.socket.remove_port_vlans(port, VlanId::FIRST..=VlanId::FIRST).expect("removed");
    host.socket.add_port_vlan(port, vlan(5, true)).expect("added");
    host.socket.add_port_vlan_range(port, ten_to_twelve).expect("added");
    let want = [vlan(5, true), vlan(10, false), vlan(11, false), vlan(12, false)];
    assert_eq!(host.socket.bridge_vlans(port).expect("an answer"), want);
    host.socket.remove_port_vlans(port, vlan_id(2)..=VlanId::LAST).expect("absent ones are no error");
    assert_eq!(host.socket.bridge_vlans(port).expect("an answer"), []);
    assert_eq!(
        errno(host.socket.add_port_vlan_range(port, RangeInclusive::new(vlan_id(12), vlan_id(10)))),
        Some(libc::EINVAL)
    );
}
