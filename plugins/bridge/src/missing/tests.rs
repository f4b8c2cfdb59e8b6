//! Rules that others have removed, on a machine in memory with one container that was added.

use cni_core::cidr::Cidr;
use cni_core::mac::Mac;
use cni_model::plan::{IfPresent, LinkKind, LinkSetting, NewLink, Ns, Plan, Step, VethPeer};
use cni_netfilter::Backend;
use cni_netfilter::nftables::{self, Expression};
use cni_plugin::journal::Journal;
use cni_plugin::run::Plugin;
use cni_testkit::{Caller, FakeContainer, FakeHost, FakeNetfilter, FakeNftables};

use super::*;
use crate::Bridge;

const DUAL: &str = r#"{"address":"10.88.0.5/24","interface":2},{"address":"fd00:88::5/64","interface":2}"#;
const NETNS: &str = "/run/netns/c";
const MAC: &str = "02:00:00:00:00:05";

/// A request with keys of the configuration and the MAC address that ADD has told.
fn request(keys: &str, mac: &str) -> Request {
    let interfaces =
        format!(r#"[{{"name":"cni0"}},{{"name":"veth1"}},{{"name":"eth0","mac":"{mac}","sandbox":"{NETNS}"}}]"#);
    let prev_result = format!(r#"{{"cniVersion":"1.0.0","interfaces":{interfaces},"ips":[{DUAL}]}}"#);
    let config = format!(
        r#"{{"cniVersion":"1.0.0","name":"n1","ipam":{{"type":"host-local"}},"prevResult":{prev_result},{keys}}}"#
    );
    Caller { netns: NETNS.to_owned(), ..Caller::new("ctr1", &config) }.request(&Bridge, "ADD")
}

/// A machine on which one container is a port of the bridge.
fn machine() -> FakeHost {
    let mut machine =
        FakeHost::new().with_container(NETNS, FakeContainer::Present(None)).with_bridge("cni0", "10.88.0.1/24");
    machine.enter(NETNS).expect("entered");
    let name = |name| IfName::parse(name).expect("name");
    let mac = |last| Mac::local([0, 0, 0, 0, 0, last]);
    let peer = VethPeer { ns: Ns::Host, name: name("veth1"), mac: mac(1) };
    let (mac, kind) = (Some(mac(5)), LinkKind::Veth { peer });
    let link = NewLink { name: name("eth0"), mac, mtu: None, if_present: IfPresent::Refuse, kind };
    let set = |ns, of, setting| Step::SetLink { ns, name: name(of), setting };
    for step in [
        Step::CreateLink { ns: Ns::Container, link },
        set(Ns::Host, "veth1", LinkSetting::Master(name("cni0"))),
        set(Ns::Host, "veth1", LinkSetting::Up),
        set(Ns::Container, "eth0", LinkSetting::Up),
    ] {
        machine.apply(&step).expect("made");
    }
    machine
}

fn found(keys: &str, machine: &mut FakeHost) -> Vec<MissingPart> {
    Bridge.find_missing(&request(keys, MAC), machine).expect("can be told")
}

fn missing(keys: &str, machine: &mut FakeHost) -> Vec<String> {
    found(keys, machine).into_iter().map(|part| part.missing).collect()
}

fn repair(keys: &str, machine: &mut FakeHost) {
    let parts = found(keys, machine);
    let mut journal = Journal::new(machine);
    parts.iter().for_each(|part| journal.apply(&part.plan).expect("put back"));
    journal.commit();
}

/// What ADD makes, and nothing else that it does.
fn make(steps: Vec<Step>, machine: &mut FakeHost) {
    let mut plan = Plan::default();
    steps.into_iter().for_each(|step| plan.owned(step));
    let mut journal = Journal::new(machine);
    journal.apply(&plan).expect("made");
    journal.commit();
}

fn at() -> Attachment {
    request("\"ipMasq\":true", MAC).attachment().expect("an attachment")
}

fn addresses() -> Vec<Cidr> {
    ["10.88.0.5/24", "fd00:88::5/64"].map(|text| text.parse().expect("address")).to_vec()
}

fn masquerade_by(backend: Backend) -> Vec<Step> {
    masquerade::rulesets(backend, &at(), &addresses()).into_iter().map(Step::ensure_rules).collect()
}

fn wanted_spoof_check() -> nftables::NftRuleset {
    spoof::ensure(&spoof::CheckNames::of(&at()), &IfName::parse("veth1").expect("name"), &MAC.parse().expect("MAC"))
}

fn spoof_check() -> Step {
    Step::ensure_rules(wanted_spoof_check())
}

#[test]
fn after_a_flush_the_masquerade_of_each_family_comes_back() {
    let keys = r#""ipMasq":true"#;
    let machine = &mut machine();
    make(masquerade_by(Backend::Iptables), machine);
    let before = machine.netfilter.dump();
    assert_eq!(missing(keys, machine), [""; 0]);
    machine.netfilter = FakeNetfilter::default();
    let first = |program, network| {
        let comment = r#"-m comment --comment "name: \"n1\" id: \"ctr1\"""#;
        format!("{program} -t nat -A {} -d {network} {comment} -j ACCEPT", at().masquerade_chain())
    };
    assert_eq!(missing(keys, machine), [first("iptables", "10.88.0.0/24"), first("ip6tables", "fd00:88::/64")]);
    repair(keys, machine);
    assert_eq!(machine.netfilter.dump(), before);
    assert_eq!(missing(keys, machine), [""; 0]);
}

#[test]
fn the_backend_of_the_configuration_gets_the_rules() {
    for (backend, keys) in [
        (Backend::Iptables, r#""ipMasq":true,"ipMasqBackend":"iptables""#),
        (Backend::Nftables, r#""ipMasq":true,"ipMasqBackend":"nftables""#),
    ] {
        let machine = &mut machine();
        make(masquerade_by(backend), machine);
        let before = machine.netfilter.dump();
        machine.netfilter = FakeNetfilter::default();
        repair(keys, machine);
        assert_eq!(machine.netfilter.dump(), before, "{keys}");
    }
}

#[test]
fn either_backend_will_do_where_none_is_named() {
    let machine = &mut machine();
    make(masquerade_by(Backend::Nftables), machine);
    assert_eq!(missing(r#""ipMasq":true"#, machine), [""; 0]);
    assert_eq!(missing(r#""ipMasq":true,"ipMasqBackend":"iptables""#, machine).len(), 2);
}

#[test]
fn nothing_is_missing_of_what_was_not_asked_for() {
    let machine = &mut machine();
    assert_eq!(missing(r#""ipMasq":false"#, machine), [""; 0]);
    assert_eq!(machine.netfilter.iptables.commits() + machine.netfilter.nftables.commits(), 0);
}

/// The address that ADD has told counts, and the host's end under the name that it has by now.
#[test]
fn the_mac_spoof_check_comes_back_with_the_first_address() {
    let keys = r#""macspoofchk":true"#;
    let machine = &mut machine();
    let other = Some("02:00:00:00:00:66".parse().expect("MAC"));
    machine.change_link(Ns::Container, "eth0", |link| link.mac = other);
    make(vec![spoof_check()], machine);
    let before = machine.netfilter.nftables.dump();
    assert!(before.contains(MAC), "{before}");
    assert_eq!(missing(keys, machine), [""; 0]);
    machine.netfilter = FakeNetfilter::default();
    repair(keys, machine);
    assert_eq!(machine.netfilter.nftables.dump(), before);

    machine.change_link(Ns::Host, "veth1", |link| link.name = "renamed".to_owned());
    repair(keys, machine);
    assert_eq!(machine.netfilter.nftables.dump(), before.replace("veth1", "renamed"));
}

#[test]
fn a_single_rule_of_the_mac_spoof_check_is_missed() {
    let keys = r#""macspoofchk":true"#;
    let machine = &mut machine();
    make(vec![spoof_check()], machine);
    let before = machine.netfilter.nftables.dump();
    let want = wanted_spoof_check();
    let rules = want.chains.iter().flat_map(|wanted| match &wanted.content {
        nftables::ChainContent::Own(rules) => rules.clone(),
        nftables::ChainContent::Open | nftables::ChainContent::Fixed(_) | nftables::ChainContent::AtLeast(_) => {
            Vec::new()
        }
    });
    let rules: Vec<nftables::NftRule> = rules.chain(want.owned.into_iter().flat_map(|owned| owned.rules)).collect();
    assert!(rules.iter().any(|rule| matches!(rule.expressions[0], Expression::EtherSource(_))) && rules.len() == 4);
    for rule in rules {
        let gone = nftables::UnwantedNftRules {
            chain: rule.chain.clone(),
            which: nftables::RuleSelection::Listed(vec![rule.clone()]),
        };
        let gone = nftables::NftRemoval { rules: vec![gone], ..nftables::NftRemoval::default() };
        nftables::remove(&mut machine.netfilter.nftables, &gone).expect("removed");
        assert_eq!(missing(keys, machine), [format!("nft {} {rule}", rule.chain)]);
        repair(keys, machine);
        assert_eq!(machine.netfilter.nftables.dump(), before, "without {rule}");
    }
}

#[test]
fn without_the_hosts_end_or_an_address_there_is_no_mac_spoof_check() {
    let keys = r#""macspoofchk":true"#;
    let refused = |mac: &str, machine: &mut FakeHost| {
        let error = Bridge.find_missing(&request(keys, mac), machine).expect_err("refused");
        (error.code().number(), error.to_string())
    };
    let text = "invalid mac \"\" of interface eth0 in prevResult".to_owned();
    assert_eq!(refused("", &mut machine()), (7, text));
    let machine = &mut machine();
    machine.change_link(Ns::Host, "veth1", |link| link.master = None);
    let text = "CNI veth created for bridge cni0 was not found: the peer of eth0 is not a port of cni0".to_owned();
    assert_eq!(refused(MAC, machine), (100, text));
}

#[test]
fn nf_tables_that_cannot_be_read_are_a_failure() {
    let machine = &mut machine();
    machine.netfilter.nftables = FakeNftables::unsupported();
    let keys = r#""ipMasq":true,"ipMasqBackend":"nftables""#;
    let error = Bridge.find_missing(&request(keys, MAC), machine).expect_err("unsupported");
    assert!(error.to_string().contains("nf_tables is not supported by this kernel"), "{error}");
}
