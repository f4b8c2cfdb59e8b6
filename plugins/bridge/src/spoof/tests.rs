use super::*;
use crate::fixtures::attachment;
use cni_netfilter::nftables::{NftChange, Nftables, Transaction, ensure as bring_about, remove as take_away};
use cni_testkit::FakeNftables;

fn names(container: &str) -> CheckNames {
    CheckNames::of(&attachment(container, "eth0"))
}

fn want(container: &str) -> NftRuleset {
    ensure(&names(container), &IfName::host_veth(0x1234_abcd), &"02:00:00:00:00:01".parse().expect("MAC"))
}

const FULL: &str = "table bridge nat {
\tchain PREROUTING {
\t\ttype filter hook prerouting priority dstnat; policy accept;
\t\tiifname \"veth1234abcd\" jump cni-br-iface-id1-eth0 comment \"macspoofchk-id1-eth0\"
\t}

\tchain cni-br-iface-id1-eth0 {
\t\tjump cni-br-iface-id1-eth0-mac comment \"macspoofchk-id1-eth0\"
\t}

\tchain cni-br-iface-id1-eth0-mac {
\t\tether saddr 02:00:00:00:00:01 return comment \"macspoofchk-id1-eth0\"
\t\tdrop comment \"macspoofchk-id1-eth0\"
\t}
}
";

const EMPTY: &str = "table bridge nat {
\tchain PREROUTING {
\t\ttype filter hook prerouting priority dstnat; policy accept;
\t}
}
";

#[test]
fn the_check_is_the_references_and_goes_without_a_trace_of_the_container() {
    let mut fake = FakeNftables::new();
    bring_about(&mut fake, &want("id1")).expect("made");
    assert_eq!(fake.dump(), FULL);
    take_away(&mut fake, &removal(names("id1"))).expect("removed");
    assert_eq!(fake.dump(), EMPTY);
    take_away(&mut fake, &removal(names("id1"))).expect("removed again");
}

#[test]
fn what_the_reference_piled_up_is_replaced_and_removed() {
    let mut fake = FakeNftables::new();
    let mut old = want("id1");
    old.owned[0].rules = ensure(&names("id1"), &IfName::host_veth(7), &Mac::local([7; 6])).owned.remove(0).rules;
    bring_about(&mut fake, &old).expect("made");
    let again: Vec<NftChange> = old.owned[0].rules.iter().cloned().map(NftChange::AddRule).collect();
    fake.commit(&Transaction::from(again)).expect("piled up");
    assert_eq!(fake.dump().matches("veth00000007").count(), 2);
    bring_about(&mut fake, &want("id1")).expect("made");
    assert_eq!(fake.dump(), FULL);
}

#[test]
fn a_name_that_is_too_long_gives_way_to_a_hash() {
    let fits = "i".repeat(128 - "macspoofchk--eth0".len());
    assert!(want(&fits).owned[0].rules[0].to_string().ends_with(&format!("comment \"macspoofchk-{fits}-eth0\"")));
    for long in [fits + "i", "i".repeat(300)] {
        let mut fake = FakeNftables::new();
        bring_about(&mut fake, &want("id1")).expect("made");
        let before = fake.dump();
        bring_about(&mut fake, &want(&long)).expect("made");
        let text = fake.dump();
        assert!(!text.contains("iiii") && text.matches("\tchain cni-br-iface-").count() == 4, "{text}");
        take_away(&mut fake, &removal(names(&long))).expect("removed");
        assert_eq!(fake.dump(), before);
    }
    assert_ne!(removal(names(&"i".repeat(300))), removal(names(&"i".repeat(301))));
}
