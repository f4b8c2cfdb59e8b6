//! Our plugins behind one that makes no bridge, and puts no link into the host: macvlan.

use std::path::PathBuf;

use cni_conformance::Container;
use cni_conformance::cases::for_each;
use serde_json::Value;

use crate::life::{Host, live};
use crate::served::{Egress, Served};
use crate::stand_in::install;
use crate::waiting::{leased, over_vxlan};

const BRIDGE: &str = "vxbr1";

/// What the plugin does and answers, with a fixed address in place of its IPAM.
const MACVLAN: &str = r#"
name=${CNI_NETNS##*/}
case $CNI_COMMAND in
ADD)
    ip link add link vxbr1 name "$CNI_IFNAME" netns "$name" type macvlan mode bridge || exit
    ip -n "$name" address add 192.168.3.66/24 dev "$CNI_IFNAME" || exit
    ip -n "$name" link set "$CNI_IFNAME" up || exit
    ip -n "$name" route add default via 192.168.3.65 || exit
    mac=$(ip -n "$name" -o link show dev "$CNI_IFNAME" | sed -n 's/.*ether \([0-9a-f:]*\).*/\1/p')
    echo '{"cniVersion":"1.0.0","routes":[{"dst":"0.0.0.0/0","gw":"192.168.3.65"}],'
    echo '"interfaces":[{"name":"'"$CNI_IFNAME"'","mac":"'"$mac"'","sandbox":"'"$CNI_NETNS"'"}],'
    echo '"ips":[{"interface":0,"address":"192.168.3.66/24","gateway":"192.168.3.65"}]}' ;;
DEL)
    # The interface went with the namespace, or an earlier DEL took it.
    ! ip -n "$name" link show dev "$CNI_IFNAME" || ip -n "$name" link del "$CNI_IFNAME" ;;
esac
"#;

fn folder() -> PathBuf {
    install("macvlan", MACVLAN)
}

/// A router on the network of the bridge; the host has no address there.
fn router(host: &Host) -> Container {
    let router = host.sandbox.container("router");
    host.sandbox.sh(&format!("ip link add {BRIDGE} type bridge"));
    host.sandbox.sh(&format!("ip link add vx1 master {BRIDGE} type veth peer name eth0 netns router"));
    for link in [BRIDGE, "vx1"] {
        host.sandbox.sh(&format!("ip link set {link} up"));
    }
    router.sh("ip address add 192.168.3.65/24 dev eth0");
    router.sh("ip link set eth0 up");
    router
}

/// Nomad sends ports, which nobody outside reaches by way of the host; that is no error.
fn served(list: Value) -> Served {
    let served = Served::new(list, "192.168.3.0/24", "192.168.3.65");
    Served { address: Some("192.168.3.66/24"), egress: Egress::PastTheHost, published: Vec::new(), ..served }
}

#[test]
fn firewall_and_portmap_live_behind_macvlan() {
    for_each([("firewall, portmap", over_vxlan()), ("portmap", leased())], |list| {
        let host = Host::new(folder);
        let _router = router(&host);
        live(&host, &served(list));
    });
}
