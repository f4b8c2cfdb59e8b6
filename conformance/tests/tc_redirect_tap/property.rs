//! For any valid configuration, DEL restores the container and the host to their state before ADD.

use cni_conformance::drawn::holds;
use cni_conformance::{Attachment, ListHost};
use proptest::option;
use proptest::prelude::{Strategy, any};
use proptest::sample::select;
use serde_json::json;

use super::setup::{PLUGIN, list, traffic_control};

/// How many configurations are drawn: the same ones in every run.
const CASES: u32 = 12;

/// A configuration, the arguments, the interface's name, and what is on the interface before.
type Drawn = (serde_json::Value, String, &'static str, &'static str);

fn drawn() -> impl Strategy<Value = Drawn> {
    let id = || option::of(select(vec![0_u32, 5, 1000, 4_294_967_294]));
    let name = || select(vec!["", "vm%d", "fifteen-bytes-0", "t.0"]);
    let ifname = select(vec!["eth0", "t0", "veth0"]);
    let qdisc = select(vec!["", "ingress", "clsact"]);
    let version = select(vec!["1.1.0", "1.0.0", "0.4.0"]);
    (id(), id(), name(), name(), any::<(bool, bool)>(), ifname, qdisc, version).prop_map(
        |(owner, user, key, argument, (many, virtio), ifname, qdisc, version)| {
            let keys = json!({"tapName": key, "owner": owner, "multiQueue": many, "vnetHdr": virtio});
            let mut list = list(&keys);
            list["cniVersion"] = json!(version);
            let user = user.map_or_else(String::new, |id| format!(";TC_REDIRECT_TAP_UID={id}"));
            (list, format!("IgnoreUnknown=1;TC_REDIRECT_TAP_NAME={argument}{user}"), ifname, qdisc)
        },
    )
}

fn live((list, args, ifname, qdisc): Drawn) {
    let host = ListHost::new(list);
    let container = host.sandbox.container("id1");
    container.sh(&format!(
        "ip link add {ifname} address 02:00:00:00:00:09 type veth peer name far address 02:00:00:00:00:0a"
    ));
    if !qdisc.is_empty() {
        container.sh(&format!("tc qdisc add dev {ifname} {qdisc}"));
    }
    let before = (host.state_with(&[&container]), traffic_control(&container, ifname));
    let attachment = Attachment::new("id1", &container).ifname(ifname).args(&args);
    let version = host.list["cniVersion"].clone();
    let mut result = json!({"cniVersion": version, "interfaces": [{"name": ifname, "sandbox": container.path()}]});
    for verb in [cni_conformance::Verb::Add, cni_conformance::Verb::Check] {
        let outcome = host.runtime().invocation(verb, PLUGIN, &attachment, Some(&result)).run();
        outcome.expect_success();
        if verb == cni_conformance::Verb::Add {
            result = outcome.result();
        }
    }
    for result in [None, Some(&result)] {
        host.runtime().invocation(cni_conformance::Verb::Del, PLUGIN, &attachment, result).run().expect_success();
        host.is_as_before(&before.0, &[&container]);
        assert_eq!(traffic_control(&container, ifname), before.1);
    }
}

#[test]
fn del_leaves_all_as_it_was() {
    holds(23, CASES, &drawn(), live);
}
