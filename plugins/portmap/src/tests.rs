//! The plugin on a machine in memory: what it leaves, what it takes away, and what it costs.

use super::*;
use cni_core::error::Error;
use cni_core::family::Family;
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_netfilter::iptables::IptablesTable;
use cni_testkit::{FakeHost, FakeNftables, REFUSAL, error_parts, lifecycle};
use proptest::prelude::*;

mod contested;
mod interfaces;
mod nftables;
mod repair;

const TCP_8080: &str = r#"{"hostPort":8080,"containerPort":80,"protocol":"tcp"}"#;
const CHAIN: &str = "CNI-DN-c189d8b6a7b4d184c9f70";

/// One container's place in the network, and the configuration it is called with.
struct Caller(cni_testkit::Caller);

impl Caller {
    /// `keys` are those of the plugin, `ips` the entries of `ips` in `prevResult`.
    fn new(container: &str, keys: &str, mappings: &str, ips: &[&str]) -> Self {
        let ips: Vec<String> = ips.iter().map(|ip| format!(r#"{{"address":"{ip}"}}"#)).collect();
        let prev_result = format!(r#"{{"cniVersion":"1.0.0","ips":[{}]}}"#, ips.join(","));
        let runtime = format!(r#"{{"portMappings":[{mappings}]}}"#);
        Self::with(container, keys, &runtime, &prev_result)
    }

    fn with(container: &str, keys: &str, runtime_config: &str, prev_result: &str) -> Self {
        let keys = if keys.is_empty() { String::new() } else { format!(",{keys}") };
        let head = r#""name":"n1","cniVersion":"1.0.0""#;
        let config = format!(r#"{{{head},"runtimeConfig":{runtime_config},"prevResult":{prev_result}{keys}}}"#);
        Self(cni_testkit::Caller::new(container, &config))
    }

    fn request(&self, command: &str) -> Request {
        self.0.request(&Portmap, command)
    }

    fn add(&self, machine: &mut FakeHost) -> Result<CniResult, Error> {
        self.0.add(&Portmap, machine)
    }

    fn del(&self, machine: &mut FakeHost) -> Result<(), Error> {
        self.0.del(&Portmap, machine)
    }

    fn check(&self, machine: &mut FakeHost) -> Result<(), Error> {
        self.0.check(&Portmap, machine)
    }
}

/// A machine from which packets to the containers leave by `br0`.
fn routed() -> FakeHost {
    FakeHost::new().with_bridge("br0", "10.88.0.1/24")
}

/// The same machine, with another container of the network on it.
fn with_neighbour(keys: &str) -> FakeHost {
    let mut machine = routed();
    let mapping = r#"{"hostPort":9090,"containerPort":90,"protocol":"udp"}"#;
    let neighbour = Caller::new("neighbour", keys, mapping, &["10.88.0.2/24", "fd00:88::2/64"]);
    neighbour.add(&mut machine).expect("added");
    machine.clear_log();
    machine
}

fn dump(machine: &FakeHost, family: Family) -> String {
    machine.netfilter.iptables.dump(family, IptablesTable::Nat)
}

#[test]
fn a_second_add_that_is_rolled_back_leaves_what_the_first_one_made() {
    let addresses = ["10.88.0.3/24", "fd00:88::3/64"];
    let other = r#"{"hostPort":8081,"containerPort":81,"protocol":"tcp"}"#;
    for keys in [r#""backend":"iptables""#, r#""backend":"nftables""#] {
        let first = Caller::new("ctr1", keys, TCP_8080, &addresses);
        for (mapping, addresses) in [(TCP_8080, &addresses[..]), (other, &addresses), (TCP_8080, &["10.88.0.4/24"])] {
            let second = Caller::new("ctr1", keys, mapping, addresses);
            let machine = &mut with_neighbour(keys);
            lifecycle::assert_a_repeated_add_is_rolled_back(&Portmap, machine, &first.0, &second.0);
        }
    }
}

#[test]
fn a_prev_result_is_needed_even_without_mappings() {
    for runtime in [r#"{"portMappings":[]}"#.to_owned(), format!(r#"{{"portMappings":[{TCP_8080}]}}"#)] {
        let caller = Caller::with("ctr1", "", &runtime, "null");
        let machine = &mut FakeHost::default();
        let details = "chain portmap behind the plugin that assigns addresses".to_owned();
        let added = error_parts(caller.add(machine).expect_err("refused"));
        assert_eq!(added, (7, "must be called as chained plugin".to_owned(), details.clone()));
        let checked = error_parts(caller.check(machine).expect_err("refused"));
        assert_eq!(checked, (7, "Required prevResult missing".to_owned(), details));
        caller.del(machine).expect("DEL needs none");
    }
}

#[test]
fn no_mappings_need_nothing() {
    let caller = Caller::new("ctr1", "", "", &["10.88.0.5/24"]);
    let machine = &mut FakeHost::default();
    let added = caller.add(machine).expect("added");
    assert_eq!(Some(added), caller.request("ADD").prev_result().expect("result"));
    caller.check(machine).expect("nothing is missing");
    assert_eq!(machine.iptables_cost(|machine| caller.del(machine).expect("nothing there")), (0, 1));
    assert_eq!((machine.netfilter.iptables.commits(), machine.applied().len()), (0, 0));
}

#[test]
fn a_bad_configuration_is_refused_before_any_work() {
    for (keys, code, message) in [
        (r#""backend":"foo""#, 7, r#"unrecognized backend "foo""#),
        (r#""markMasqBit":"x""#, 6, "failed to load netconf"),
    ] {
        let caller = Caller::new("ctr1", keys, TCP_8080, &["10.88.0.5/24"]);
        let machine = &mut FakeHost::default();
        for error in [caller.add(machine).expect_err("refused"), caller.check(machine).expect_err("refused")] {
            assert_eq!((error.code().number(), error.to_string().as_str()), (code, message));
        }
        assert_eq!((machine.netfilter.iptables.commits(), machine.netfilter.iptables.lists()), (0, 0), "{keys}");
    }
}

#[test]
fn a_second_add_changes_nothing() {
    let caller = Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24", "fd00:88::5/64"]);
    let machine = &mut FakeHost::default();
    caller.add(machine).expect("added");
    let before = Family::ALL.map(|family| dump(machine, family));
    caller.add(machine).expect("added again");
    assert_eq!(Family::ALL.map(|family| dump(machine, family)), before);
}

#[test]
fn a_new_address_or_port_leaves_nothing_stale() {
    let machine = &mut FakeHost::default();
    Caller::new("ctr1", "", TCP_8080, &["10.88.0.4/24"]).add(machine).expect("added");
    let udp = r#"{"hostPort":8081,"containerPort":81,"protocol":"udp"}"#;
    Caller::new("ctr1", "", udp, &["10.88.0.5/24"]).add(machine).expect("added");
    let text = dump(machine, Family::V4);
    assert!(!text.contains("8080") && !text.contains("10.88.0.4"), "{text}");
    assert!(text.contains("--to-destination 10.88.0.5:81"), "{text}");
}

#[test]
fn loopback_is_routed_on_the_link_to_the_container() {
    let machine = &mut FakeHost::new().with_bridge("br0.7", "10.88.0.1/24");
    Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]).add(machine).expect("added");
    assert_eq!(machine.parameters(), ["net/ipv4/conf/br0.7/route_localnet=1"]);
    let guard = "\
table inet cni_plugins_localnet {
\tcomment \"Drops packets with loopback addresses that come in by a link, where portmap sets route_localnet\"
\tchain prerouting {
\t\ttype filter hook prerouting priority raw; policy accept;
\t\tiifname != \"lo\" ip daddr 127.0.0.0/8 drop
\t\tiifname != \"lo\" ip saddr 127.0.0.0/8 drop
\t}
}
";
    assert_eq!(machine.netfilter.nftables.dump(), guard);
    let first = machine.applied().first().expect("a step");
    assert!(first.contains("cni_plugins_localnet"), "before the switch is set: {first}");
    let unreachable = &mut FakeHost::default();
    Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]).add(unreachable).expect("added");
    assert!(unreachable.parameters().is_empty() && unreachable.netfilter.nftables.dump().is_empty());
}

#[test]
fn the_usual_cost_is_small() {
    let machine = &mut FakeHost::default();
    Caller::new("first", "", TCP_8080, &["10.88.0.4/24"]).add(machine).expect("added");
    let caller = Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]);
    assert_eq!(machine.iptables_cost(|machine| drop(caller.add(machine).expect("added"))), (1, 0));
    assert_eq!(machine.iptables_cost(|machine| caller.check(machine).expect("there")), (1, 0));
    assert_eq!(machine.iptables_cost(|machine| caller.del(machine).expect("removed")), (1, 0));
    caller.add(machine).expect("added");
    let untold = Caller::new("ctr1", "", "", &["10.88.0.5/24"]);
    assert_eq!(machine.iptables_cost(|machine| untold.del(machine).expect("removed")), (1, 2));
    assert_eq!(machine.iptables_cost(|machine| untold.del(machine).expect("gone")), (0, 1));
    assert_eq!(machine.netfilter.iptables.locks(), 1, "only the first container sets up what is shared");
}

#[test]
fn what_only_the_backend_can_judge_is_named_when_that_refuses() {
    let keys = r#""externalSetMarkChain":"NOPE","conditionsV6":["-s","10.0.0.0/8"]"#;
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", keys, TCP_8080, &["10.88.0.5/24"]);
    let (code, _, details) = error_parts(caller.add(machine).expect_err("refused"));
    assert_eq!(code, 101);
    let notes = r#"; conditionsV6 is ["-s", "10.0.0.0/8"]; externalSetMarkChain is "NOPE""#;
    assert!(details.ends_with(notes), "{details}");
}

#[test]
fn many_ports_are_checked_by_one_listing_and_one_batch() {
    let machine = &mut FakeHost::default();
    let mapping = |port| format!(r#"{{"hostPort":{port},"containerPort":{port},"protocol":"tcp"}}"#);
    let mappings: Vec<String> = (2000..3000).map(mapping).collect();
    let caller = Caller::new("ctr1", "", &mappings.join(","), &["10.88.0.5/24"]);
    caller.add(machine).expect("added");
    assert_eq!(machine.iptables_cost(|machine| caller.check(machine).expect("there")), (1, 1));
    let rules = dump(machine, Family::V4);
    let kept: Vec<&str> = rules.lines().filter(|line| !line.contains("--dport 2999 -j DNAT")).collect();
    let machine = &mut FakeHost::default();
    machine.netfilter.iptables.load(Family::V4, IptablesTable::Nat, &kept.join("\n")).expect("loads");
    let (code, message, _) = error_parts(caller.check(machine).expect_err("missing"));
    assert_eq!(code, 100);
    assert!(message.contains("--dport 2999 -j DNAT"), "{message}");
}

#[test]
fn check_names_what_is_missing_and_writes_nothing() {
    let caller = Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]);
    let full = &mut FakeHost::default();
    caller.add(full).expect("added");
    let rules = dump(full, Family::V4);
    for line in rules.lines().filter(|line| line.starts_with("-A")) {
        let kept: Vec<&str> = rules.lines().filter(|have| *have != line).collect();
        let machine = &mut FakeHost::default();
        machine.netfilter.iptables.load(Family::V4, IptablesTable::Nat, &kept.join("\n")).expect("loads");
        let before = dump(machine, Family::V4);
        let rule = line.trim_start_matches("-A ");
        let (chain, words) = rule.split_once(' ').expect("chain");
        let message = format!("could not check ipv4 dnat: rule [{words}] in chain {chain} not found in table nat");
        let want = (100, message, format!("this fails: iptables -t nat -C {rule}"));
        assert_eq!(error_parts(caller.check(machine).expect_err("missing")), want);
        assert_eq!(dump(machine, Family::V4), before);
        assert_eq!((machine.applied().len(), machine.netfilter.iptables.locks()), (0, 0));
    }
    assert_eq!(rules.lines().filter(|line| line.starts_with("-A")).count(), 9);
}

#[test]
fn del_needs_only_names() {
    let (good, none) = (r#"{"cniVersion":"1.0.0","ips":[{"address":"10.88.0.5/24"}]}"#, "null");
    let bad_port = r#"{"portMappings":[{"hostPort":70000}]}"#;
    for (keys, runtime, prev_result) in [
        ("", "null", good),
        ("", "null", none),
        ("", r#"{"portMappings":[]}"#, "{}"),
        ("", bad_port, r#"{"ips":7}"#),
        (r#""backend":"foo""#, bad_port, r#"{"cniVersion":"0.4.0"}"#),
        (r#""snat":7"#, "7", none),
        (r#""conditionsV4":["-s","10.0.0.0/8"]"#, "null", none),
    ] {
        let machine = &mut FakeHost::default();
        Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]).add(machine).expect("added");
        Caller::new("ctr2", "", TCP_8080, &["10.88.0.6/24"]).add(machine).expect("added");
        let other =
            dump(machine, Family::V4).lines().filter(|line| line.contains("CNI-DN-") && !line.contains(CHAIN)).count();
        let forgetful = Caller::with("ctr1", keys, runtime, prev_result);
        forgetful.del(machine).expect("removed");
        let left = dump(machine, Family::V4);
        assert!(!left.contains(CHAIN), "{keys} {runtime} {prev_result}: {left}");
        assert_eq!(left.lines().filter(|line| line.contains("CNI-DN-")).count(), other);
        forgetful.del(machine).expect("gone");
    }
}

#[test]
fn del_removes_what_the_configuration_does_not_tell() {
    let machine = &mut FakeHost::default();
    Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]).add(machine).expect("added");
    let changed = r#"{"hostPort":9999,"containerPort":80,"protocol":"tcp"}"#;
    Caller::new("ctr1", "", changed, &["10.88.0.5/24"]).del(machine).expect("removed");
    assert!(!dump(machine, Family::V4).contains("CNI-DN-"));
}

#[test]
fn del_removes_the_chains_of_old_releases() {
    let old = "CNI-SN-c189d8b6a7b4d184c9f70";
    let rules = format!("-N {old}\n-N CNI-HOSTPORT-SNAT\n-A {old} -j MASQUERADE\n-A CNI-HOSTPORT-SNAT -j {old}");
    let reported = format!(r#"{{"portMappings":[{TCP_8080}]}}"#);
    let prev_result = r#"{"ips":[{"address":"10.88.0.5/24"}]}"#;
    for (runtime, prev_result, with_new) in [
        ("null", prev_result, true),
        ("null", "null", true),
        (&reported, prev_result, false),
        (&reported, "null", false),
    ] {
        let machine = &mut FakeHost::default();
        machine.netfilter.iptables.load(Family::V4, IptablesTable::Nat, &rules).expect("loads");
        if with_new {
            Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]).add(machine).expect("added");
        }
        Caller::with("ctr1", "", runtime, prev_result).del(machine).expect("removed");
        let left = dump(machine, Family::V4);
        assert!(!left.contains(old) && !left.contains(CHAIN), "{left}");
        assert!(left.contains("-N CNI-HOSTPORT-SNAT"), "{left}");
    }
}

#[test]
fn only_a_family_in_use_needs_its_program() {
    let machine = &mut FakeHost::default();
    machine.netfilter.iptables.uninstall([Family::V6]);
    let v4 = Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]);
    v4.add(machine).expect("added");
    v4.check(machine).expect("there");
    v4.del(machine).expect("removed");
    v4.add(machine).expect("added");
    Caller::with("ctr1", "", "null", "null").del(machine).expect("removed without prevResult");
    assert!(!dump(machine, Family::V4).contains("CNI-DN-"));
    let left = dump(machine, Family::V4);
    let want = (104, "failed to locate ip6tables-restore: no such program in the directories of PATH".to_owned());
    let ips = &["10.88.0.5/24", "fd00:88::5/64"];
    let dual = Caller::new("ctr1", r#""backend":"iptables""#, TCP_8080, ips);
    for error in [dual.add(machine).expect_err("refused"), dual.del(machine).expect_err("refused")] {
        assert_eq!((error.code().number(), error.to_string()), want);
    }
    assert!(!dump(machine, Family::V4).contains("CNI-DN-"), "IPv4 is taken back");
    Caller::with("ctr1", r#""backend":"iptables""#, "null", "null").del(machine).expect("nothing is known to be there");
    Caller::new("ctr1", "", TCP_8080, ips).add(machine).expect("by nf_tables, which has both families");
    assert!(machine.netfilter.nftables.dump().contains("dnat to [fd00:88::5]:80") && dump(machine, Family::V4) == left);
}

#[test]
fn del_of_one_family_goes_on_when_the_other_fails() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24", "fd00:88::5/64"]);
    caller.add(machine).expect("added");
    machine.fail_at(machine.applied().len() + 1);
    let error = caller.del(machine).expect_err("the first step fails");
    assert!(error.to_string().starts_with(REFUSAL), "{error}");
    assert!(dump(machine, Family::V4).contains(CHAIN) && !dump(machine, Family::V6).contains(CHAIN));
    caller.del(machine).expect("the second try");
    assert!(!dump(machine, Family::V4).contains(CHAIN));
}

const BACKENDS: [&str; 2] = [r#""backend":"iptables""#, r#""backend":"nftables""#];

const DUAL: [&str; 2] = ["10.88.0.5/24", "fd00:88::5/64"];

#[test]
fn del_removes_what_add_made() {
    for keys in BACKENDS {
        let caller = Caller::new("ctr1", keys, TCP_8080, &DUAL);
        lifecycle::assert_del_removes_what_add_made(&Portmap, &mut with_neighbour(keys), &caller.0);
    }
}

/// The first step guards the loopback; an ADD does without it where it fails.
#[test]
fn an_add_that_fails_at_any_step_leaves_nothing() {
    for keys in BACKENDS {
        let caller = Caller::new("ctr1", keys, TCP_8080, &DUAL);
        let steps = lifecycle::assert_add_is_all_or_nothing(&Portmap, || with_neighbour(keys), &caller.0);
        assert!(steps >= 3, "{keys}: {steps} steps");
    }
}

/// What the kernel was to forget by some work.
fn forgotten(machine: &mut FakeHost, work: impl FnOnce(&mut FakeHost)) -> Vec<String> {
    machine.clear_log();
    work(machine);
    machine.forgotten().to_vec()
}

/// The steps that change more than records.
fn without_records(machine: &FakeHost) -> Vec<String> {
    machine.applied().iter().filter(|step| !step.contains(" record ports/")).cloned().collect()
}

#[test]
fn stale_udp_flows_are_forgotten_once_the_rules_are_there_or_gone() {
    let udp = r#"{"hostPort":53,"containerPort":5353,"protocol":"UDP"},
        {"hostPort":54,"containerPort":54,"protocol":"udp","hostIP":"192.0.2.1"},
        {"hostPort":55,"containerPort":55,"protocol":"udp","hostIP":"::"}"#;
    let mappings = format!("{TCP_8080},{udp}");
    let ips = ["10.88.0.5/24", "fd00:88::5/64"];
    let caller = Caller::new("ctr1", "", &mappings, &ips);
    let untold = Caller::with("ctr1", "", "null", "null");
    let machine = &mut routed();
    let mapped = [
        "forget UDP flows to *:53 192.0.2.1:54 not answered by 10.88.0.5",
        "forget UDP flows to *:53 *:55 not answered by fd00:88::5",
    ];
    let unmapped = mapped.map(|text| text.replace("not answered", "answered"));
    for reported in [&caller, &untold] {
        machine.clear_log();
        assert_eq!(forgotten(machine, |machine| drop(caller.add(machine).expect("added"))), mapped);
        let kinds = ["ensure nftables", "ensure v4", "forget", "sysctl", "ensure v6", "forget"];
        let steps = without_records(machine);
        assert_eq!(steps.len(), kinds.len());
        for (step, kind) in steps.iter().zip(kinds) {
            assert!(step.starts_with(&format!("host: {kind}")), "{step}");
        }
        assert_eq!(forgotten(machine, |machine| reported.del(machine).expect("removed")), unmapped);
        let steps = without_records(machine);
        let last = steps.last().expect("a step");
        assert!(last.starts_with("host: forget"), "{last}");
    }
    assert_eq!(forgotten(machine, |machine| untold.del(machine).expect("gone")), [""; 0]);
}

#[test]
fn without_a_udp_port_no_flow_is_looked_at() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", "", TCP_8080, &["10.88.0.5/24"]);
    caller.add(machine).expect("added");
    caller.del(machine).expect("removed");
    caller.add(machine).expect("added");
    Caller::with("ctr1", "", "null", "null").del(machine).expect("removed");
    assert_eq!(machine.forgotten(), [""; 0]);
}

/// Runs GC with these containers valid.
fn gc(machine: &mut FakeHost, network: &str, valid: &[&str]) -> Result<(), Error> {
    let entries: Vec<String> = valid.iter().map(|id| format!(r#"{{"containerID":"{id}","ifname":"eth0"}}"#)).collect();
    let list = entries.join(",");
    let config = format!(r#"{{"name":"{network}","cniVersion":"1.1.0","cni.dev/valid-attachments":[{list}]}}"#);
    let request = Caller(cni_testkit::Caller::new("", &config)).request("GC");
    let valid = request.valid_attachments().expect("understood").expect("a list");
    Portmap.gc(&request, &valid, machine)
}

#[test]
fn gc_removes_what_belongs_to_no_valid_attachment_of_the_network() {
    let udp = r#"{"hostPort":53,"containerPort":53,"protocol":"udp"}"#;
    let both = format!("{TCP_8080},{udp}");
    let machine = &mut FakeHost::default();
    for (id, last) in [("ctr1", 5), ("ctr2", 6), ("ctr3", 7)] {
        let ips = [format!("10.88.0.{last}/24"), format!("fd00:88::{last}/64")];
        Caller::new(id, "", &both, &ips.each_ref().map(String::as_str)).add(machine).expect("added");
    }
    let before = dump(machine, Family::V4);
    for (network, valid) in [("n1", &["ctr1", "ctr2", "ctr3"][..]), ("n2", &[]), ("n", &[])] {
        assert_eq!(machine.iptables_cost(|machine| gc(machine, network, valid).expect("nothing to do")), (0, 2));
        assert_eq!(dump(machine, Family::V4), before);
    }
    let forgotten = forgotten(machine, |machine| gc(machine, "n1", &["ctr2", "ctr3"]).expect("removed"));
    assert_eq!(
        forgotten,
        ["forget UDP flows to *:53 answered by 10.88.0.5", "forget UDP flows to *:53 answered by fd00:88::5"]
    );
    for family in Family::ALL {
        let left = dump(machine, family);
        assert!(!left.contains(CHAIN) && !left.contains("\"ctr1"), "{left}");
        assert_eq!(left.lines().filter(|line| line.starts_with("-N CNI-DN-")).count(), 2, "{left}");
    }
    gc(machine, "n1", &[]).expect("removed");
    for family in Family::ALL {
        let left = dump(machine, family);
        assert!(!left.contains("CNI-DN-") && left.contains("-N CNI-HOSTPORT-DNAT"), "{left}");
    }
}

#[test]
fn gc_and_status_need_the_programs_that_there_is_something_for() {
    let machine = &mut FakeHost::default();
    let status = |machine: &mut FakeHost| {
        let config = r#"{"name":"n1","cniVersion":"1.1.0"}"#.to_owned();
        Portmap.status(&Caller(cni_testkit::Caller::new("", &config)).request("STATUS"), machine)
    };
    assert_eq!(machine.iptables_cost(|machine| status(machine).expect("available")), (0, 1));
    machine.netfilter.iptables.uninstall([Family::V6]);
    status(machine).expect("available");
    machine.netfilter.iptables.uninstall(Family::ALL);
    machine.netfilter.nftables = FakeNftables::unsupported();
    gc(machine, "n1", &[]).expect("nothing to do");
    let details = "failed to locate iptables-restore: no such program in the directories of PATH: PATH=/bin";
    let want = (50, "table nat of iptables is not available".to_owned(), details.to_owned());
    assert_eq!(error_parts(status(machine).expect_err("not available")), want);
}

fn mapping() -> impl Strategy<Value = String> {
    let host_ip = prop_oneof![Just(""), Just("0.0.0.0"), Just("::"), Just("10.88.0.1"), Just("fd00::1"), Just("x")];
    let protocol = prop_oneof![4 => Just("tcp"), 4 => Just("UDP"), 4 => Just("sctp"), 1 => Just("icmp")];
    (prop_oneof![9 => 1..65536_i64, 1 => any::<i64>()], protocol, host_ip).prop_map(|(port, protocol, host_ip)| {
        format!(r#"{{"HostPort":{port},"containerPort":80,"protocol":"{protocol}","hostIP":"{host_ip}"}}"#)
    })
}

fn keys() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(""),
        Just(r#""snat":false"#),
        Just(r#""masqAll":true,"markMasqBit":5"#),
        Just(r#""conditionsV4":["!","-s","10.9.0.0/16"]"#),
        Just(r#""conditionsV6":["-m","comment","--comment","a b\"c"]"#),
        Just(r#""conditionsV4":["a","\n"]"#),
    ]
}

proptest! {
    #[test]
    fn no_call_panics_and_del_takes_away_what_add_made(
        keys in keys(),
        mappings in proptest::collection::vec(mapping(), 0..40),
        dual in any::<bool>(),
        reported in any::<bool>(),
    ) {
        let ips = if dual { &["10.88.0.5/24", "fd00:88::5/64"][..] } else { &["10.88.0.5/24"] };
        let caller = Caller::new("ctr1", keys, &mappings.join(","), ips);
        let machine = &mut FakeHost::default();
        let added = caller.add(machine).is_ok();
        prop_assert_eq!(caller.check(machine).is_ok(), added);
        let forgetful = Caller::with("ctr1", "", "null", "null");
        if reported { &caller } else { &forgetful }.del(machine).expect("removed");
        for family in Family::ALL {
            let left = dump(machine, family);
            prop_assert!(!left.contains("CNI-DN-"), "{}", left);
        }
    }
}
