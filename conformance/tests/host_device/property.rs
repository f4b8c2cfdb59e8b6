//! For any valid configuration, DEL restores the host to its state before ADD.

use cni_conformance::Attachment;
use cni_conformance::drawn::holds;
use proptest::option;
use proptest::prelude::Strategy;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::host_device::setup::{MAC, host, list};

/// How many configurations are drawn: the same ones in every run.
const CASES: u32 = 12;

/// A configuration, the interface's name in the container, and what an administrator has made of it before.
type Drawn = (Value, &'static str, Vec<&'static str>);

fn drawn() -> impl Strategy<Value = Drawn> {
    let device =
        select(vec![json!({"device": "ens1"}), json!({"hwaddr": MAC}), json!({"device": "ens1", "hwaddr": "zz"})]);
    let subnets: Vec<&[&str]> = vec![&["10.1.2.0/24"], &["fd00:1::/64"], &["10.1.2.0/24", "fd00:1::/64"]];
    let changes = subsequence(
        vec![
            "ip link set ens1 nomaster",
            "ip link set ens1 down",
            "ip link set ens1 mtu 1300",
            "ip link set ens1 alias mine",
        ],
        0..=4,
    );
    let names = select(vec!["eth0", "net1", "ens1", "fifteen-bytes-0"]);
    let version = select(vec!["1.1.0", "1.0.0", "0.4.0"]);
    (device, option::of(select(subnets)), names, changes, version).prop_map(
        |(device, subnets, ifname, changes, version)| {
            let mut list = list(&device);
            list["cniVersion"] = json!(version);
            if let Some(subnets) = subnets {
                let ranges: Value = subnets.iter().map(|subnet| json!([{"subnet": subnet}])).collect();
                list["plugins"][0]["ipam"] = json!({"type": "host-local", "ranges": ranges, "dataDir": "/run/cni"});
            }
            (list, ifname, changes)
        },
    )
}

fn live((list, ifname, changes): Drawn) {
    let host = host(list);
    changes.iter().for_each(|line| drop(host.sandbox.sh(line)));
    let before = host.state();
    let container = host.sandbox.container("id1");
    let mut attachment = Attachment::new("id1", &container).ifname(ifname);
    host.runtime().add(&mut attachment).expect_success();
    host.check(&attachment);
    for _ in 0..2 {
        host.del(&attachment);
        host.is_as_before(&before, &[]);
    }
}

#[test]
fn del_leaves_the_host_as_it_was() {
    holds(9, CASES, &drawn(), live);
}
