//! `mtu`, `promisc`, `allmulti`, `txQLen`: what ADD makes of the interface, and DEL of that.

use cni_conformance::Verb::{Add, Check, Del};
use cni_conformance::cases::for_each;
use serde_json::{Value, json};

use crate::tuning::setup::{Properties, Tuned};

type Change = fn(&mut Properties);

/// A key with a value, what it makes of an interface, and what its opposite does to it.
fn rows() -> Vec<(&'static str, Value, Change)> {
    vec![
        ("mtu", json!(1454), |link| link.mtu = 1454),
        ("promisc", json!(true), |link| link.promisc = (true, 1)),
        ("allmulti", json!(true), |link| link.all_multicast = true),
        ("txQLen", json!(20_000), |link| link.queue = 20_000),
        ("txQLen", json!(0), |link| link.queue = 0),
        ("mtu", json!(0), |_| {}),
        ("promisc", json!(false), |_| {}),
        ("allmulti", json!(false), |_| {}),
        ("allmulti", json!(null), |_| {}),
    ]
}

#[test]
fn each_key_changes_one_property_and_del_sets_it_back() {
    for_each(rows().into_iter().map(|row| (format!("{} = {}", row.0, row.1), row)), |(key, value, change)| {
        let tuned = Tuned::new();
        let before = tuned.properties();
        let mut want = before.clone();
        change(&mut want);
        for keys in [json!({key: value}), json!({"args": {"cni": {key: value}}})] {
            tuned.succeeds(&[Add, Check], &keys);
            assert_eq!(tuned.properties(), want);
            tuned.succeeds(&[Del], &keys);
            assert_eq!(tuned.properties(), before);
        }
    });
}

/// The values of `args.cni` go before those of the configuration, also where they say no.
#[test]
fn args_go_before_the_configuration() {
    let tuned = Tuned::new();
    let own = json!({"mtu": 1300, "promisc": true, "allmulti": true, "txQLen": 5});
    let mut keys = own.clone();
    keys["args"] = json!({"cni": {"mtu": 1200, "promisc": false, "allmulti": false, "txQLen": 7}});
    let before = tuned.properties();
    tuned.succeeds(&[Add, Check], &keys);
    assert_eq!(tuned.properties(), Properties { mtu: 1200, queue: 7, ..before.clone() });
    tuned.succeeds(&[Del], &keys);
    keys["args"] = json!({"cni": {"mtu": 0, "promisc": null}});
    tuned.succeeds(&[Add, Check], &keys);
    let promisc = (true, 1);
    assert_eq!(tuned.properties(), Properties { mtu: before.mtu, promisc, all_multicast: true, queue: 5, ..before });
}

/// The result is that of the plugins before, with the MTU where they told one.
#[test]
fn the_result_tells_the_new_mtu_where_it_tells_one() {
    let tuned = Tuned::new();
    let sandbox = tuned.container.path();
    let interfaces = json!([
        {"name": "eth0", "mtu": 1500},
        {"name": "eth0", "mtu": 1500, "sandbox": sandbox},
        {"name": "net1", "mtu": 1500, "sandbox": sandbox},
    ]);
    let result = json!({"cniVersion": "1.1.0", "interfaces": interfaces, "ips": [{"address": "10.9.9.9/24"}]});
    let mut want = result.clone();
    want["interfaces"][1]["mtu"] = json!(1400);
    let keys = json!({"cniVersion": "1.1.0", "prevResult": result, "mtu": 1400});
    assert_eq!(tuned.run(Add, &keys).result(), want);
}

/// The kernel counts who wants promiscuous mode: a sniffer goes on, whatever the plugin does.
#[test]
fn a_sniffer_keeps_what_it_has_asked_for() {
    let tuned = Tuned::new();
    tuned.container.sh("ip link add br0 type bridge");
    tuned.container.sh("ip link set eth0 master br0");
    assert_eq!(tuned.properties().promisc, (false, 1));
    tuned.succeeds(&[Add, Check], &json!({"promisc": true}));
    assert_eq!(tuned.properties().promisc, (true, 2));
    tuned.succeeds(&[Del], &json!({"promisc": true}));
    assert_eq!(tuned.properties().promisc, (false, 1));
}
