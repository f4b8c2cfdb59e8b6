use super::*;
use crate::fixtures::attachment;
use cni_core::json::Json;
use cni_core::names::NetworkName;
use cni_netfilter::nftables::Nftables as _;
use cni_netfilter::nftables::{ensure as bring_about, remove as take_away};
use cni_testkit::FakeNftables;

fn addresses(texts: &[&str]) -> Vec<Cidr> {
    texts.iter().map(|text| text.parse().expect("CIDR")).collect()
}

#[test]
fn the_table_is_the_references() {
    let mut fake = FakeNftables::new();
    let want = ensure(&attachment("id1", "eth0"), &addresses(&["10.1.2.4/24", "2001:db8:1::4/64"]));
    bring_about(&mut fake, &want).expect("made");
    let comment = "8e48f37d5de60467-d509459a5455817c, net: net1, if: eth0, id: id1";
    let full = format!(
        "table inet cni_plugins_masquerade {{
\tcomment \"Masquerading for plugins from github.com/containernetworking/plugins\"
\tchain masq_checks {{
\t\tcomment \"Masquerade traffic from certain IPs to any (non-multicast) IP outside their subnet\"
\t\tip saddr 10.1.2.4 ip daddr != 10.1.2.0/24 masquerade comment \"{comment}\"
\t\tip6 saddr 2001:db8:1::4 ip6 daddr != 2001:db8:1::/64 masquerade comment \"{comment}\"
\t}}

\tchain postrouting {{
\t\ttype nat hook postrouting priority srcnat; policy accept;
\t\tip daddr 224.0.0.0/4 return
\t\tip6 daddr ff00::/8 return
\t\tgoto masq_checks
\t}}
}}
"
    );
    assert_eq!(fake.dump(), full);
}

#[test]
fn an_interface_has_rules_of_its_own_that_go_whatever_the_addresses_are() {
    let mut fake = FakeNftables::new();
    let (first, second) = (attachment("id1", "eth0"), attachment("id1", "eth1"));
    bring_about(&mut fake, &ensure(&first, &addresses(&["10.1.2.4/24"]))).expect("made");
    let before = fake.dump();
    bring_about(&mut fake, &ensure(&second, &addresses(&["10.1.2.5/24", "10.1.3.5/24"]))).expect("made");
    take_away(&mut fake, &remove(&second)).expect("removed");
    assert_eq!(fake.dump(), before);
    take_away(&mut fake, &remove(&second)).expect("removed again");
    assert_eq!(fake.dump(), before);
}

#[test]
fn the_comment_of_a_long_id_is_cut_and_still_found() {
    let mut fake = FakeNftables::new();
    let long = attachment(&"x".repeat(300), "eth0");
    bring_about(&mut fake, &ensure(&long, &addresses(&["10.1.2.4/24"]))).expect("made");
    assert!(fake.dump().contains("xxx\"\n"), "{}", fake.dump());
    take_away(&mut fake, &remove(&long)).expect("removed");
    assert!(!fake.dump().contains("xxx"), "{}", fake.dump());
}

#[test]
fn rules_of_attachments_that_are_not_valid_are_found_by_their_comment() {
    let mut fake = FakeNftables::new();
    let other = Attachment { network: NetworkName::parse("net2").expect("network"), ..attachment("id2", "eth0") };
    bring_about(&mut fake, &ensure(&attachment("id1", "eth0"), &addresses(&["10.1.2.4/24"]))).expect("made");
    bring_about(&mut fake, &ensure(&other, &addresses(&["10.2.2.4/24"]))).expect("made");
    let kept = fake.dump();
    for (id, ifname, texts) in [("id1", "eth1", &["10.1.2.5/24"][..]), ("id2", "eth0", &["10.1.2.6/24", "fd00::6/64"])]
    {
        bring_about(&mut fake, &ensure(&attachment(id, ifname), &addresses(texts))).expect("made");
    }
    let config = br#"{"cni.dev/valid-attachments":[{"containerID":"id1","ifname":"eth0"}]}"#;
    let valid = ValidAttachments::parse(&Json::parse(config).expect("JSON")).expect("valid").expect("a list");
    let stale = |fake: &mut FakeNftables, valid: &ValidAttachments| {
        let rules = fake.list(&checks()).expect("read").expect("there");
        super::stale(&rules, &attachment("id1", "eth0").network, valid)
    };
    let unwanted = stale(&mut fake, &valid).expect("stale rules");
    assert_eq!(unwanted.rules.len(), 2, "one for each attachment");
    take_away(&mut fake, &unwanted).expect("removed");
    assert_eq!(fake.dump(), kept);
    assert_eq!(stale(&mut fake, &valid), None);
    let all = stale(&mut fake, &ValidAttachments::default()).expect("stale rules");
    take_away(&mut fake, &all).expect("removed");
    assert!(!fake.dump().contains("net1") && fake.dump().contains("net2"), "{}", fake.dump());
}
