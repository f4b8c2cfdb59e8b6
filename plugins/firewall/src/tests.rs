//! The plugin on a machine in memory: what it leaves, what it takes away, and what it costs.

use super::*;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::names::NetworkName;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_interface::veth::NewVeth;
use cni_model::link::Address;
use cni_model::plan::{Ns, Plan};
use cni_netfilter::iptables::IptablesTable;
use cni_plugin::host::Host as _;
use cni_plugin::lock::LockName;
use cni_testkit::{FakeContainer, FakeHost, REFUSAL, error_parts, lifecycle};
use proptest::prelude::*;

mod firewalld;
mod nftables;
mod repair;

/// One container's place in the network, and the configuration it is called with.
struct Caller(cni_testkit::Caller);

impl Caller {
    /// `keys` are those of the plugin, `ips` the entries of `ips` in `prevResult`, behind a bridge `br0`.
    fn new(container: &str, keys: &str, ips: &[&str]) -> Self {
        Self::on_bridge(container, "br0", keys, ips)
    }

    fn on_bridge(container: &str, bridge: &str, keys: &str, ips: &[&str]) -> Self {
        let ips: Vec<String> = ips.iter().map(|ip| format!(r#"{{"address":"{ip}"}}"#)).collect();
        let prev =
            format!(r#"{{"cniVersion":"1.0.0","interfaces":[{{"name":"{bridge}"}}],"ips":[{}]}}"#, ips.join(","));
        Self::with_prev_result(container, keys, &prev)
    }

    fn with_prev_result(container: &str, keys: &str, prev_result: &str) -> Self {
        let keys = if keys.is_empty() { String::new() } else { format!(",{keys}") };
        let config = format!(r#"{{"name":"n1","cniVersion":"1.0.0","prevResult":{prev_result}{keys}}}"#);
        Self(cni_testkit::Caller::new(container, &config))
    }

    /// A call about the network alone, with more keys.
    fn of_network(network: &str, keys: &str) -> Self {
        Self(cni_testkit::Caller::new("", &format!(r#"{{"name":"{network}","cniVersion":"1.1.0"{keys}}}"#)))
    }

    fn request(&self, command: &str) -> Request {
        self.0.request(&Firewall, command)
    }

    fn add(&self, machine: &mut FakeHost) -> Result<CniResult, Error> {
        self.0.add(&Firewall, machine)
    }

    fn del(&self, machine: &mut FakeHost) -> Result<(), Error> {
        self.0.del(&Firewall, machine)
    }

    fn check(&self, machine: &mut FakeHost) -> Result<(), Error> {
        self.0.check(&Firewall, machine)
    }
}

/// Every address that is claimed, with its owner and what holds its rules.
fn claimed(machine: &mut FakeHost) -> Vec<String> {
    let network = NetworkName::parse("n1").expect("network");
    let claims = claims::of_network(&network, &mut machine.records).expect("records");
    claims.into_iter().map(|(address, claim)| format!("{address} {claim}")).collect()
}

fn dump(machine: &FakeHost, family: Family) -> String {
    machine.netfilter.iptables.dump(family, IptablesTable::Filter)
}

#[test]
fn the_result_is_passed_through() {
    let caller = Caller::new("ctr1", "", &["10.88.0.5/24"]);
    let added = caller.add(&mut FakeHost::default()).expect("added");
    assert_eq!(Some(added), caller.request("ADD").prev_result().expect("result"));
}

#[test]
fn a_prev_result_is_needed() {
    let caller = Caller::with_prev_result("ctr1", "", "null");
    let machine = &mut FakeHost::default();
    for error in [caller.add(machine).expect_err("refused"), caller.check(machine).expect_err("refused")] {
        assert_eq!((error.code().number(), error.to_string().as_str()), (7, "missing prevResult from earlier plugin"));
    }
    caller.del(machine).expect("DEL needs none");
    let applied = machine.applied();
    assert!(matches!(applied, [only] if only.starts_with("host: remove record claims/owner-")), "{applied:?}");
}

#[test]
fn an_empty_prev_result_needs_no_rules() {
    let caller = Caller::with_prev_result("ctr1", r#""ingressPolicy":"isolated""#, "{}");
    let machine = &mut FakeHost::default();
    assert_eq!(caller.add(machine).expect("added"), CniResult::default());
    caller.check(machine).expect("nothing is missing");
    assert_eq!(machine.netfilter.iptables.commits(), 0);
}

#[test]
fn a_bad_configuration_is_refused_before_any_work() {
    for (keys, code, message) in [
        (r#""ingressPolicy":"bogus""#, 7, r#"unknown ingress policy: "bogus""#),
        (r#""iptablesAdminChainName":"CNI-FORWARD""#, 7, r#"iptablesAdminChainName "CNI-FORWARD" is reserved"#),
        (r#""backend":7"#, 6, "failed to load netconf"),
        (
            r#""backend":"nftables","iptablesAdminChainName":"forward""#,
            7,
            r#"iptablesAdminChainName "forward" is reserved"#,
        ),
        (r#""firewalldZone":"a b""#, 7, r#"invalid firewalldZone "a b""#),
    ] {
        let caller = Caller::new("ctr1", keys, &["10.88.0.5/24"]);
        let machine = &mut FakeHost::default();
        for error in [caller.add(machine).expect_err("refused"), caller.check(machine).expect_err("refused")] {
            assert_eq!((error.code().number(), error.to_string().as_str()), (code, message));
        }
        caller.del(machine).expect("DEL does not need these keys");
        assert_eq!(machine.netfilter.iptables.commits(), 0, "{keys}");
    }
}

#[test]
fn a_second_add_changes_nothing() {
    let caller = Caller::new("ctr1", r#""ingressPolicy":"same-bridge""#, &["10.88.0.5/24", "fd00:88::5/64"]);
    let machine = &mut FakeHost::default();
    caller.add(machine).expect("added");
    let before = Family::ALL.map(|family| dump(machine, family));
    caller.add(machine).expect("added again");
    assert_eq!(Family::ALL.map(|family| dump(machine, family)), before);
}

#[test]
fn the_usual_cost_is_small() {
    let machine = &mut FakeHost::default();
    Caller::new("first", "", &["10.88.0.4/24"]).add(machine).expect("added");
    let caller = Caller::new("ctr1", "", &["10.88.0.5/24"]);
    assert_eq!(machine.iptables_cost(|machine| drop(caller.add(machine).expect("added"))), (1, 1));
    assert_eq!(machine.iptables_cost(|machine| caller.check(machine).expect("there")), (1, 0));
    assert_eq!(machine.iptables_cost(|machine| caller.del(machine).expect("removed")), (1, 1));
    assert_eq!(machine.iptables_cost(|machine| caller.del(machine).expect("gone")), (0, 1));
    assert_eq!(machine.netfilter.iptables.locks(), 1, "only the first container sets up what is shared");
}

#[test]
fn check_names_what_is_missing_and_writes_nothing() {
    let caller = Caller::new("ctr1", r#""ingressPolicy":"isolated""#, &["10.88.0.5/24"]);
    let full = &mut FakeHost::default();
    caller.add(full).expect("added");
    let rules = dump(full, Family::V4);
    for (line, message) in [
        (
            r#"-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD"#,
            "expected FORWARD rule [-m comment --comment CNI firewall plugin rules -j CNI-FORWARD] not found",
        ),
        (
            r#"-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN"#,
            "expected CNI-FORWARD rule [-m comment --comment CNI firewall plugin admin overrides -j CNI-ADMIN] not found",
        ),
        (
            "-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            "expected rule [-d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT] not found",
        ),
        ("-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT", "expected rule [-s 10.88.0.5/32 -j ACCEPT] not found"),
        (
            r#"-A CNI-ISOLATION-STAGE-1 -i br0 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j DROP"#,
            "expected CNI-ISOLATION-STAGE-1 rule [-i br0 -o br0 -m comment --comment CNI firewall plugin rules (ingressPolicy: isolated) -j DROP] not found",
        ),
    ] {
        let kept: Vec<&str> = rules.lines().filter(|have| *have != line).collect();
        assert_eq!(kept.len() + 1, rules.lines().count(), "{line}");
        let machine = &mut FakeHost::default();
        machine.netfilter.iptables.load(Family::V4, IptablesTable::Filter, &kept.join("\n")).expect("loads");
        let before = dump(machine, Family::V4);
        let rule = line.trim_start_matches("-A ");
        let want = (100, message.to_owned(), format!("this fails: iptables -t filter -C {rule}"));
        assert_eq!(error_parts(caller.check(machine).expect_err("missing")), want);
        assert_eq!(dump(machine, Family::V4), before);
    }
    let bare = &mut FakeHost::default();
    let missing = caller.check(bare).expect_err("nothing is there");
    assert!(missing.to_string().starts_with("expected FORWARD rule"), "{missing}");
    assert_eq!(dump(bare, Family::V4), "");
    assert_eq!(machine_writes(bare), 0);
}

fn machine_writes(machine: &FakeHost) -> usize {
    machine.applied().len() + machine.netfilter.iptables.locks()
}

#[test]
fn del_removes_every_copy_with_what_the_runtime_remembers() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", "", &["10.88.0.5/24"]);
    caller.add(machine).expect("added");
    let copies = "-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT\n-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT";
    machine.netfilter.iptables.load(Family::V4, IptablesTable::Filter, copies).expect("loads");
    machine.records.clear();
    caller.del(machine).expect("removed");
    assert!(!dump(machine, Family::V4).contains("10.88.0.5"), "{}", dump(machine, Family::V4));
    caller.del(machine).expect("gone");
}

#[test]
fn del_needs_no_prev_result() {
    for prev_result in ["null", "{}", r#"{"cniVersion":"0.4.0"}"#, r#"{"ips":7}"#] {
        let machine = &mut FakeHost::default();
        Caller::new("ctr1", "", &["10.88.0.5/24", "fd00:88::5/64"]).add(machine).expect("added");
        Caller::new("ctr2", "", &["10.88.0.6/24"]).add(machine).expect("added");
        let forgetful = Caller::with_prev_result("ctr1", "", prev_result);
        forgetful.del(machine).expect("removed");
        let left = dump(machine, Family::V4) + &dump(machine, Family::V6);
        assert!(!left.contains("10.88.0.5/") && !left.contains("fd00:88::5/"), "{prev_result}: {left}");
        assert!(left.contains("-s 10.88.0.6/32"), "{left}");
        assert_eq!(claimed(machine).len(), 1);
        forgetful.del(machine).expect("gone");
    }
}

#[test]
fn a_late_del_leaves_the_rules_of_the_addresss_new_owner() {
    let machine = &mut FakeHost::default();
    let (old, new) = (Caller::new("old", "", &["10.88.0.5/24"]), Caller::new("new", "", &["10.88.0.5/24"]));
    old.add(machine).expect("added");
    new.add(machine).expect("takes the address over");
    assert_eq!(claimed(machine), ["10.88.0.5 n1 new eth0"]);
    old.del(machine).expect("nothing of its own is left");
    new.check(machine).expect("untouched");
    new.del(machine).expect("removed");
    assert!(!dump(machine, Family::V4).contains("10.88.0.5"));
}

/// Otherwise another container could get an address between the look at its claim and the removal of its rules.
#[test]
fn addresses_are_locked_by_add_del_and_gc_in_one_order() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", "", &["fd00:88::5/64", "10.88.0.5/24"]);
    let want = ["10.88.0.5", "fd00:88::5"].map(|text| LockName::address(text.parse().expect("an address")));
    let is_locked = |machine: &FakeHost, since: usize| machine.locks()[since..] == want;
    caller.add(machine).expect("added");
    assert!(is_locked(machine, 0), "{:?}", machine.locks());
    caller.del(machine).expect("removed");
    assert!(is_locked(machine, 2), "{:?}", machine.locks());
    caller.add(machine).expect("added");
    gc(machine, "n1", &[]);
    assert!(is_locked(machine, 6), "{:?}", machine.locks());
    gc(machine, "n1", &[]);
    assert_eq!(machine.locks().len(), 8, "nothing is left that could be given to another one");
}

#[test]
fn del_of_one_family_goes_on_when_the_other_fails() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", "", &["10.88.0.5/24", "fd00:88::5/64"]);
    caller.add(machine).expect("added");
    machine.fail_at(machine.applied().len() + 1);
    let error = caller.del(machine).expect_err("the first step fails");
    assert!(error.to_string().starts_with(REFUSAL), "{error}");
    assert!(!dump(machine, Family::V6).contains("fd00"), "IPv6 is done");
    assert_eq!(claimed(machine), ["10.88.0.5 n1 ctr1 eth0"], "what is not done stays claimed");
    caller.del(machine).expect("the second try");
    assert!(machine.records.is_empty() && !dump(machine, Family::V4).contains("10.88.0.5"));
}

fn gc(machine: &mut FakeHost, network: &str, valid: &[&str]) {
    let entries = valid.iter().map(|id| format!(r#"{{"containerID":"{id}","ifname":"eth0"}}"#));
    let list = entries.collect::<Vec<_>>().join(",");
    let keys = format!(r#","cni.dev/valid-attachments":[{list}]"#);
    let request = Caller::of_network(network, &keys).request("GC");
    let valid = request.valid_attachments().expect("understood").expect("a list");
    Firewall.gc(&request, &valid, machine).expect("collected");
}

#[test]
fn gc_removes_the_rules_of_addresses_whose_owners_are_not_valid() {
    let machine = &mut FakeHost::default();
    for (id, last) in [("ctr1", 5), ("ctr2", 6), ("ctr3", 7)] {
        let ips = [format!("10.88.0.{last}/24"), format!("fd00:88::{last}/64")];
        Caller::new(id, "", &ips.each_ref().map(String::as_str)).add(machine).expect("added");
    }
    let before = dump(machine, Family::V4);
    for (network, valid) in [("n1", &["ctr1", "ctr2", "ctr3"][..]), ("n2", &[])] {
        assert_eq!(machine.iptables_cost(|machine| gc(machine, network, valid)), (0, 0));
        assert_eq!((dump(machine, Family::V4), claimed(machine).len()), (before.clone(), 6));
    }
    gc(machine, "n1", &["ctr2"]);
    for (family, gone, kept) in
        [(Family::V4, ["10.88.0.5/", "10.88.0.7/"], "10.88.0.6/"), (Family::V6, ["::5/", "::7/"], "::6/")]
    {
        let left = dump(machine, family);
        assert!(gone.iter().all(|address| !left.contains(address)), "{left}");
        assert_eq!(left.matches(kept).count(), 2, "{left}");
    }
    assert_eq!(claimed(machine).len(), 2);
    gc(machine, "n1", &[]);
    assert!(machine.records.is_empty() && !dump(machine, Family::V4).contains("10.88."));
}

/// Adds a container of the reference, whose veth has no alias, with an address.
fn add_by_reference(machine: &mut FakeHost, netns: &str, cidr: &str) {
    machine.set_container(netns, FakeContainer::Present(None));
    machine.enter(netns).expect("entered");
    let at = cni_testkit::attachment("n1", "newcomer", "eth0");
    let veth = NewVeth::choose(&at, None, machine).expect("chosen");
    let mut plan = Plan::default();
    veth.plan(&mut plan, &at, None);
    plan.steps().iter().for_each(|(_, step)| drop(machine.apply(step).expect("made")));
    machine.change_link(Ns::Host, veth.host.as_str(), |link| link.alias = None);
    let cidr = cidr.parse().expect("CIDR");
    machine.add_address(Ns::Container, "eth0", Address { cidr, tentative: false, dad_failed: false });
}

#[test]
fn gc_and_del_leave_the_rules_of_a_container_of_the_reference_that_has_an_address_now() {
    for is_gc in [true, false] {
        let machine = &mut FakeHost::default();
        let caller = Caller::new("ctr1", "", &["10.88.0.5/24", "fd00:88::5/64"]);
        caller.add(machine).expect("added");
        add_by_reference(machine, "/run/netns/newcomer", "10.88.0.5/24");
        if is_gc {
            gc(machine, "n1", &[])
        } else {
            caller.del(machine).expect("removed")
        }
        assert_eq!(dump(machine, Family::V4).matches("10.88.0.5/32").count(), 2, "GC: {is_gc}");
        assert!(!dump(machine, Family::V6).contains("fd00:88::5"), "GC: {is_gc}");
        assert!(machine.records.is_empty(), "GC: {is_gc}: nothing is claimed any more");
    }
}

#[test]
fn status_reads_the_table_once_and_refuses_what_add_would() {
    let machine = &mut FakeHost::default();
    let status = |keys: &str, machine: &mut FakeHost| {
        Firewall.status(&Caller::of_network("n1", keys).request("STATUS"), machine)
    };
    assert_eq!(machine.iptables_cost(|machine| status("", machine).expect("available")), (0, 1));
    let error = status(r#","ingressPolicy":"bogus""#, machine).expect_err("refused");
    assert_eq!(error_parts(error).1, r#"unknown ingress policy: "bogus""#);
}

/// What holds the rules, whether firewalld runs, and whether there is an ingress policy.
const WAYS: [(&str, bool); 6] = [
    ("", false),
    (r#""ingressPolicy":"isolated""#, false),
    (r#""backend":"nftables","ingressPolicy":"same-bridge""#, false),
    ("", true),
    (r#""ingressPolicy":"isolated","firewalldZone":"work""#, true),
    (r#""backend":"iptables""#, true),
];

/// A machine on which another container of the network is already.
fn with_neighbour(keys: &str, firewalld: bool) -> FakeHost {
    let mut machine = FakeHost::new();
    machine.firewalld.running = firewalld;
    Caller::new("neighbour", keys, &["10.88.0.2/24", "fd00:88::2/64"]).add(&mut machine).expect("added");
    machine
}

#[test]
fn del_removes_what_add_made() {
    for (keys, firewalld) in WAYS {
        let caller = Caller::new("ctr1", keys, &["10.88.0.5/24", "fd00:88::5/64"]);
        lifecycle::assert_del_removes_what_add_made(&Firewall, &mut with_neighbour(keys, firewalld), &caller.0);
    }
}

#[test]
fn an_add_that_fails_at_any_step_leaves_nothing() {
    for (keys, firewalld) in WAYS {
        let caller = Caller::new("ctr1", keys, &["10.88.0.5/24", "fd00:88::5/64"]);
        let machine = || with_neighbour(keys, firewalld);
        let steps = lifecycle::assert_add_is_all_or_nothing(&Firewall, machine, &caller.0);
        assert!(steps >= 4, "{keys}: {steps} steps");
    }
}

proptest! {
    #[test]
    fn no_call_panics_and_del_takes_away_what_add_made(
        keys in r#"("(backend|firewalldZone|iptablesAdminChainName|ingressPolicy)":(""|"isolated"|"same-bridge"|"firewalld"|"nftables"|"none"|"[A-Z!-]{0,30}"|7|null))?"#,
        running in any::<bool>(),
        ips in proptest::collection::vec(
            prop_oneof!["10\\.0\\.0\\.[0-9]{1,3}/(8|32)", "fd00::[0-9a-f]{1,4}/64", "[0-9./:a]{0,8}"], 0..4),
    ) {
        let ips: Vec<&str> = ips.iter().map(String::as_str).collect();
        let caller = Caller::new("ctr1", &keys, &ips);
        if cni_core::json::Json::parse(caller.0.config.as_bytes()).is_err() {
            return Ok(());
        }
        let machine = &mut FakeHost::default();
        machine.firewalld.running = running;
        let added = caller.add(machine).is_ok();
        prop_assert_eq!(caller.check(machine).is_ok(), added);
        Caller::with_prev_result("ctr1", "", "null").del(machine).expect("removed");
        for family in Family::ALL {
            let left = dump(machine, family);
            prop_assert!(!left.contains("-s ") && !left.contains("-d "), "{}", left);
        }
        prop_assert!(!machine.netfilter.nftables.dump().contains("elements"), "{}", machine.netfilter.nftables.dump());
        prop_assert!(machine.records.is_empty() && machine.firewalld.sources().is_empty());
    }
}
