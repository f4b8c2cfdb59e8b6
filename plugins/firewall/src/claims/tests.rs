use super::*;
use cni_netfilter::firewalld::Zone;
use cni_testkit::FakeRecords;

/// Records in memory, and the steps that change them.
#[derive(Default)]
struct Memory(FakeRecords);

impl Memory {
    fn carry_out(&mut self, plan: &Plan) {
        for (_, step) in plan.steps() {
            if let Step::WriteRecord { key, text } = step {
                self.0.write(key, text);
            } else if let Step::RemoveRecord { key } = step {
                self.0.remove(key);
            } else {
                panic!("not a record: {step}");
            }
        }
    }

    fn claim(&mut self, container: &str, addresses: &[IpAddr], backend: &RuleBackend) {
        let owner = owner(container);
        let plan = ClaimRegister::observe(&owner, addresses, &mut self.0)
            .expect("read")
            .claim(&owner, None, addresses, backend);
        self.carry_out(&plan);
    }

    fn release(&mut self, container: &str, addresses: &[IpAddr]) {
        let owner = owner(container);
        let plan = ClaimRegister::observe(&owner, addresses, &mut self.0).expect("read").release(&owner, addresses);
        self.carry_out(&plan);
    }

    fn owner_of(&mut self, address: IpAddr) -> Option<String> {
        find(address, &mut self.0).expect("read").map(|claim| claim.owner.container.to_string())
    }

    fn addresses_of(&mut self, container: &str) -> Vec<IpAddr> {
        of_owner(&owner(container), &mut self.0).expect("read").addresses.into_iter().collect()
    }
}

fn owner(container: &str) -> Attachment {
    cni_testkit::attachment("net", container, "eth0")
}

const FIRST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 2, 3));
const SECOND: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

#[test]
fn the_last_claim_wins_and_the_first_owner_cannot_release_it() {
    let mut memory = Memory::default();
    memory.claim("old", &[FIRST], &RuleBackend::Iptables);
    assert_eq!(memory.addresses_of("old"), [FIRST]);
    memory.claim("new", &[FIRST], &RuleBackend::Iptables);
    assert_eq!((memory.addresses_of("old"), memory.addresses_of("new")), (vec![], vec![FIRST]));
    memory.release("old", &[FIRST]);
    assert_eq!(memory.owner_of(FIRST).as_deref(), Some("new"));
    memory.release("new", &[FIRST]);
    assert!(memory.0.is_empty(), "nothing stays behind: {:?}", memory.0.lines());
}

#[test]
fn the_records_are_those_of_earlier_releases() {
    let mut memory = Memory::default();
    memory.claim("ctr", &[FIRST, SECOND], &RuleBackend::Iptables);
    memory.claim("ctr", &[SECOND], &RuleBackend::Firewalld(Zone::fixed("work")));
    let want = [
        r#"claims/10.1.2.3: "net ctr eth0""#,
        r#"claims/::1: "net ctr eth0 iptables firewalld:work""#,
        r#"claims/owner-b00c407ae9d02c283aecd673397a85d1: "10.1.2.3\n::1\n""#,
    ];
    assert_eq!(memory.0.lines(), want);
}

#[test]
fn an_owner_is_listed_before_its_addresses_are_claimed() {
    let plan = ClaimRegister::default().claim(&owner("ctr"), None, &[FIRST, SECOND], &RuleBackend::Nftables);
    let steps: Vec<String> = plan.to_string().lines().map(|line| line[..41].to_owned()).collect();
    let want = [
        "owned  host: write record claims/owner-b0",
        "owned  host: write record claims/10.1.2.3",
        r#"owned  host: write record claims/::1 "net"#,
    ];
    assert_eq!(steps, want);
}

#[test]
fn addresses_that_one_plan_claims_of_one_owner_leave_its_list_together() {
    let mut memory = Memory::default();
    memory.claim("old", &[FIRST, SECOND], &RuleBackend::Iptables);
    memory.claim("new", &[FIRST, SECOND], &RuleBackend::Iptables);
    let mut names = memory.0.names(CLAIMS).expect("listed");
    names.retain(|name| name.starts_with("owner-"));
    assert_eq!(names.len(), 1, "the old owner has no list any more");
    assert_eq!(memory.addresses_of("new"), [FIRST, SECOND]);
}

#[test]
fn a_part_of_the_addresses_can_be_released() {
    let mut memory = Memory::default();
    memory.claim("ctr", &[FIRST, SECOND], &RuleBackend::Iptables);
    memory.release("ctr", &[FIRST]);
    assert_eq!((memory.owner_of(FIRST), memory.addresses_of("ctr")), (None, vec![SECOND]));
}

#[test]
fn the_claims_of_a_network_are_listed_with_their_owners() {
    let mut memory = Memory::default();
    let net = NetworkName::parse("net").expect("network");
    assert_eq!(of_network(&net, &mut memory.0).expect("read"), []);
    let foreign = Attachment { network: NetworkName::parse("net2").expect("network"), ..owner("a") };
    let other = IpAddr::from([10, 1, 2, 2]);
    memory.carry_out(&ClaimRegister::default().claim(&foreign, None, &[other], &RuleBackend::Iptables));
    memory.claim("a", &[SECOND], &RuleBackend::Iptables);
    memory.claim("b", &[FIRST], &RuleBackend::Nftables);
    let found = of_network(&net, &mut memory.0).expect("read");
    let claim = |container, backend| Claim { owner: owner(container), backends: vec![backend] };
    assert_eq!(found, [(FIRST, claim("b", RuleBackend::Nftables)), (SECOND, claim("a", RuleBackend::Iptables))]);
}

#[test]
fn owners_are_found_with_their_namespaces_by_their_claims() {
    let mut memory = Memory::default();
    let home = RecordedNamespace::parse("boot:7 /run/netns/a").expect("a namespace");
    let a = ClaimRegister::default().claim(&owner("a"), Some(&home), &[FIRST, SECOND], &RuleBackend::Iptables);
    memory.carry_out(&a);
    for (container, last) in [("b", 2), ("c", 3)] {
        memory.claim(container, &[IpAddr::from([10, 1, 2, last + 10])], &RuleBackend::Iptables);
    }
    // Nothing names the owner of a list without a claim.
    memory.0.write(&key_of(&owner("d")), "10.9.9.9\n");
    let mut found = owners_but(&[&owner("b")], &mut memory.0).expect("read");
    found.sort_by_key(|one| one.at.container.to_string());
    let want = [("a", Some(home), vec![FIRST, SECOND]), ("c", None, vec![IpAddr::from([10, 1, 2, 13])])];
    let want = want.map(|(name, home, addresses)| RecordedOwner { at: owner(name), home, addresses });
    assert_eq!(found, want);
}

#[test]
fn an_address_that_was_about_to_be_claimed_is_found() {
    let mut memory = Memory::default();
    let plan = ClaimRegister::default().claim(&owner("ctr"), None, &[FIRST], &RuleBackend::Iptables);
    let mut first = Plan::default();
    first.owned(plan.steps()[0].1.clone());
    memory.carry_out(&first);
    assert_eq!((memory.addresses_of("ctr"), memory.owner_of(FIRST)), (vec![FIRST], None));
}

#[test]
fn a_record_that_makes_no_sense_is_none() {
    for text in ["", "net", "net id", "net id eth0 more", "net id a/b"] {
        assert_eq!(Claim::parse(text), None, "{text}");
    }
    let claim = |backends| Some(Claim { owner: owner("old"), backends });
    assert_eq!(Claim::parse("net old eth0"), claim(vec![RuleBackend::Iptables]));
    let both = vec![RuleBackend::Firewalld(Zone::fixed("work")), RuleBackend::Iptables];
    assert_eq!(Claim::parse("net old eth0 firewalld:work iptables"), claim(both));
}

#[test]
fn whatever_has_held_rules_stays_written_down_and_the_last_one_is_last() {
    let mut memory = Memory::default();
    let zone = |name| RuleBackend::Firewalld(Zone::fixed(name));
    let given = [RuleBackend::Iptables, zone("trusted"), RuleBackend::Iptables, zone("work")];
    for (container, backend) in ["old", "old", "new", "new"].into_iter().zip(&given) {
        memory.claim(container, &[FIRST], backend);
    }
    let claim = find(FIRST, &mut memory.0).expect("read").expect("a claim");
    assert_eq!(claim.to_string(), "net new eth0 firewalld:trusted iptables firewalld:work");
    memory.release("new", &[FIRST]);
    memory.claim("new", &[FIRST], &RuleBackend::Iptables);
    assert_eq!(memory.0.read(&of_address(FIRST)).expect("read").as_deref(), Some("net new eth0"));
}
