//! For any valid configuration, DEL restores the container and the host to their state before ADD.

use cni_conformance::drawn::holds;
use cni_conformance::keys::with;
use cni_conformance::{Attachment, ListHost};
use proptest::option;
use proptest::prelude::{Strategy, any};
use proptest::sample::select;
use serde_json::{Value, json};

use crate::tap::setup::{addressed, list};

/// How many configurations are drawn: the same ones in every run.
const CASES: u32 = 16;

/// A configuration, and the interface's name in the container.
type Drawn = (Value, &'static str);

fn drawn() -> impl Strategy<Value = Drawn> {
    let id = || option::of(select(vec![0_u32, 5, 1000, 4_294_967_294]));
    let mtu = select(vec![0, 1280, 1400, 9000, 65521]);
    let mac = select(vec!["", "02:00:00:00:00:0a", "0200.0000.000B"]);
    let bridge = select(vec!["", "br1"]);
    let name = select(vec!["eth0", "t0", "fifteen-bytes-0"]);
    let version = select(vec!["1.1.0", "1.0.0", "0.4.0"]);
    (id(), id(), any::<(bool, bool)>(), mtu, mac, bridge, name, version).prop_map(
        |(owner, group, (many, has_addresses), mtu, mac, bridge, name, version)| {
            let keys = json!({"multiQueue": many, "mtu": mtu, "mac": mac, "bridge": bridge});
            let keys = with(&keys, &json!({"owner": owner, "group": group}));
            let mut list = if has_addresses { addressed(&keys) } else { list(&keys) };
            list["cniVersion"] = json!(version);
            (list, name)
        },
    )
}

fn live((list, ifname): Drawn) {
    let host = ListHost::new(list);
    let container = host.sandbox.container("id1");
    container.sh("ip link add br1 address 02:00:00:00:00:99 type bridge");
    let before = host.state_with(&[&container]);
    let mut attachment = Attachment::new("id1", &container).ifname(ifname);
    host.runtime().add(&mut attachment).expect_success();
    host.check(&attachment);
    for _ in 0..2 {
        host.del(&attachment);
        host.is_as_before(&before, &[&container]);
    }
}

#[test]
fn del_leaves_all_as_it_was() {
    holds(11, CASES, &drawn(), live);
}
