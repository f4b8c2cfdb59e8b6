use super::*;
use cni_core::names::{ContainerId, IfName};
use cni_netfilter::firewalld::Zone;

/// Earlier releases wrote the same.
#[test]
fn a_claim_is_read_as_it_is_written() {
    let owner = Attachment {
        network: NetworkName::parse("net").expect("a network"),
        container: ContainerId::parse("old").expect("a container"),
        ifname: IfName::parse("eth0").expect("an interface"),
    };
    let work = RuleBackend::Firewalld(Zone::fixed("work"));
    for (text, backends) in [
        ("net old eth0", vec![RuleBackend::Iptables]),
        ("net old eth0 firewalld:work iptables", vec![work, RuleBackend::Iptables]),
        ("net old eth0 nftables", vec![RuleBackend::Nftables]),
    ] {
        let claim = Claim { owner: owner.clone(), backends };
        assert_eq!((claim.to_string().as_str(), Claim::parse(text)), (text, Some(claim)));
    }
    for text in ["", "net", "net id", "net id eth0 more", "net id a/b"] {
        assert_eq!(Claim::parse(text), None, "{text}");
    }
}

#[test]
fn a_back_end_is_one_word_that_is_read_back() {
    for backend in [RuleBackend::Iptables, RuleBackend::Nftables, RuleBackend::Firewalld(Zone::fixed("trusted"))] {
        let word = backend.to_string();
        assert_eq!((RuleBackend::parse(&word), word.contains(' ')), (Some(backend), false));
    }
    for word in ["", "iptables:", "nftables:", "firewalld", "firewalld:", "firewalld:a:b", "other"] {
        assert_eq!(RuleBackend::parse(word), None, "{word}");
    }
}
