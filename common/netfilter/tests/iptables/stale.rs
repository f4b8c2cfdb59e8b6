//! `stale` on the rules of a chain: only what is of the network and not valid goes.
use cni_core::family::Family;
use cni_core::json::Json;
use cni_core::names::{ChainName, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_netfilter::iptables::{Iptables, IptablesRemoval, IptablesTable, remove, stale};
use cni_testkit::FakeIptables;

const POSTROUTING: &str = r#"
-N CNI-aaaa
-N CNI-bbbb
-N CNI-cccc
-N CNI-dddd
-N CNI-HOSTPORT-MASQ
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A POSTROUTING -s 10.1.2.2/32 -m comment --comment "name: \"n1\" id: \"kept\"" -j CNI-aaaa
-A POSTROUTING -s 10.1.2.3/32 -m comment --comment "name: \"n1\" id: \"lost\"" -j CNI-bbbb
-A POSTROUTING -s 10.1.2.4/32 -m comment --comment "name: \"n1\" id: \"lost\"" -j CNI-bbbb
-A POSTROUTING -s 10.1.2.5/32 -m comment --comment "name: \"n1\" id: \"lost-too\"" -j CNI-dddd
-A POSTROUTING -s 10.2.2.2/32 -m comment --comment "name: \"n2\" id: \"lost\"" -j CNI-cccc
-A POSTROUTING -s 10.1.2.5/32 -m comment --comment "name: \"n1\" id: \"lost\"" -j ACCEPT
-A POSTROUTING -s 10.1.2.5/32 -m comment --comment "name: \"n1\"" -j CNI-aaaa
-A POSTROUTING -s 10.3.0.0/16 -j CNI-dddd
-A CNI-bbbb -m comment --comment "name: \"n1\" id: \"lost\"" -j MASQUERADE
"#;

fn valid(ids: &[&str]) -> ValidAttachments {
    let entries: Vec<String> = ids.iter().map(|id| format!(r#"{{"containerID":"{id}","ifname":"eth0"}}"#)).collect();
    let config = format!(r#"{{"cni.dev/valid-attachments":[{}]}}"#, entries.join(","));
    ValidAttachments::parse(&Json::parse(config.as_bytes()).expect("JSON")).expect("valid").expect("a list")
}

fn found(fake: &mut FakeIptables, network: &str, ids: &[&str]) -> Option<IptablesRemoval> {
    let rules =
        fake.list(Family::V4, IptablesTable::Nat, &ChainName::fixed("POSTROUTING")).expect("read").expect("there");
    stale(Family::V4, IptablesTable::Nat, rules, &NetworkName::parse(network).expect("network"), &valid(ids))
}

#[test]
fn only_what_is_of_the_network_and_not_valid_goes() {
    let mut fake = FakeIptables::new();
    fake.load(Family::V4, IptablesTable::Nat, POSTROUTING).expect("loads");
    assert_eq!(found(&mut fake, "n1", &["kept", "lost", "lost-too"]), None);
    assert_eq!(found(&mut fake, "n3", &[]), None);
    let one = found(&mut fake, "n1", &["kept", "lost-too"]).expect("stale rules");
    remove(&mut fake, &one).expect("removed");
    let left = fake.dump(Family::V4, IptablesTable::Nat);
    let gone: Vec<&str> = POSTROUTING.lines().filter(|line| !line.is_empty() && !left.contains(line)).collect();
    let want = [1, 7, 8, 14].map(|line| POSTROUTING.trim().lines().nth(line).expect("a line"));
    assert_eq!(gone, want);
    assert_eq!(fake.commits(), 1);
}

#[test]
fn an_empty_list_leaves_nothing_but_a_chain_that_others_lead_to() {
    let mut fake = FakeIptables::new();
    fake.load(Family::V4, IptablesTable::Nat, POSTROUTING).expect("loads");
    let all = found(&mut fake, "n1", &[]).expect("stale rules");
    remove(&mut fake, &all).expect("removed");
    let left = fake.dump(Family::V4, IptablesTable::Nat);
    assert!(!left.contains("lost-too") && left.contains("-A POSTROUTING -s 10.3.0.0/16 -j CNI-dddd"), "{left}");
    assert!(!left.contains("CNI-bbbb") && left.contains("CNI-cccc") && left.contains("-N CNI-aaaa"), "{left}");
}
