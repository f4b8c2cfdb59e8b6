//! CHECK: values and not their spelling, what was asked for and nothing else.

use cni_conformance::Verb::{Add, Check};
use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use serde_json::json;

use crate::tuning::setup::Tuned;

const CHECK_FAILED: u64 = 100;

#[test]
fn whatever_has_another_value_is_named() {
    let keys = json!({
        "mac": "02:00:00:00:00:0a", "promisc": true, "mtu": 1400, "allmulti": true, "txQLen": 500,
        "sysctl": {"net.ipv4.conf.IFNAME.rp_filter": "1"},
    });
    let rows = [
        (
            "address 02:00:00:00:00:0b",
            "configured Ethernet of eth0 is 02:00:00:00:00:0a, current value is 02:00:00:00:00:0b",
        ),
        ("promisc off", "configured promiscuous mode of eth0 is true, current value is false"),
        ("mtu 1300", "configured MTU of eth0 is 1400, current value is 1300"),
        ("allmulticast off", "configured all-multicast mode of eth0 is true, current value is false"),
        ("txqueuelen 555", "configured Transmit Queue Length of eth0 is 500, current value is 555"),
    ];
    for_each(rows.map(|row| (row.0, row)), |(change, text)| {
        let tuned = Tuned::new();
        tuned.succeeds(&[Add, Check], &keys);
        tuned.container.sh(&format!("ip link set eth0 {change}"));
        let before = tuned.state();
        tuned.run(Check, &keys).expect_error(CHECK_FAILED, &format!("Error: Tuning {text}"));
        assert_same(&before, &tuned.state());
    });
    let tuned = Tuned::new();
    tuned.succeeds(&[Add], &keys);
    tuned.set_parameter("net/ipv4/conf/eth0/rp_filter", "0");
    let file = "/proc/sys/net/ipv4/conf/eth0/rp_filter";
    let text = format!("Error: Tuning configured value of {file} is 1, current value is 0");
    tuned.run(Check, &keys).expect_error(CHECK_FAILED, &text);
    tuned.container.sh("ip link set eth0 name moved");
    tuned.run(Check, &json!({})).expect_error(CHECK_FAILED, "Cannot find container link eth0");
}

/// The kernel answers with tabs where the configuration has blanks. The reference compares texts, so that a list
/// never passes.
#[test]
fn lists_of_numbers_are_compared_by_their_words() {
    let tuned = Tuned::new();
    for value in ["4096 100000 200000", "4096\t100000\t200000", " 4096  100000 200000\n"] {
        tuned.succeeds(&[Add, Check], &json!({"sysctl": {"net.ipv4.tcp_rmem": value}}));
    }
    let other = json!({"sysctl": {"net.ipv4.tcp_rmem": "4096 100000 200001"}});
    tuned.run(Check, &other).expect_error(CHECK_FAILED, "is 4096 100000 200001, current value is 4096\t100000\t200000");
}

/// Where promiscuous mode is not asked for, the reference fails as long as anybody else has: a packet sniffer, or
/// a bridge whose port the interface is.
#[test]
fn a_sniffer_does_not_matter() {
    let tuned = Tuned::new();
    tuned.succeeds(&[Add], &json!({"mtu": 1400}));
    tuned.container.sh("ip link add br0 type bridge");
    tuned.container.sh("ip link set eth0 master br0");
    assert_eq!(tuned.properties().promisc, (false, 1));
    tuned.succeeds(&[Check], &json!({"mtu": 1400}));
    tuned.container.sh("ip link set eth0 promisc on");
    tuned.succeeds(&[Check], &json!({}));
}
