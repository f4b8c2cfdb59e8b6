//! `backend: "nftables"` on a machine in memory.

use super::*;
use cni_netfilter::nftables::{NftChange, NftComment, NftRule, Nftables, TableFamily, TableId, Transaction};

const NFT: &str = r#""backend":"nftables""#;
const UDP_53: &str = r#"{"hostPort":53,"containerPort":5353,"protocol":"udp"}"#;
const V4: &[&str] = &["10.88.0.5/24"];
const DUAL: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

fn caller(keys: &str, mappings: &str, ips: &[&str]) -> Caller {
    let separator = if keys.is_empty() { "" } else { "," };
    Caller::new("ctr1", &format!("{NFT}{separator}{keys}"), mappings, ips)
}

/// Puts a rule of the reference's kind into a chain that exists.
fn reference_rule(machine: &mut FakeHost, chain: &'static str, container: &str, words: &str) {
    use cni_netfilter::nftables::Expression;
    let chain = TableId::fixed(TableFamily::Ip, "cni_hostport").chain(chain);
    let expressions = match words.split(' ').collect::<Vec<_>>()[..] {
        ["tcp", "dport", port, "dnat", "to", to] => {
            let to: std::net::SocketAddr = to.parse().expect("address");
            let port = Expression::Port(cni_netfilter::Proto::Tcp, port.parse().expect("port"));
            vec![port, Expression::Dnat(to.ip(), Some(to.port()))]
        }
        _ => panic!("no rule of the reference: {words}"),
    };
    let rule = NftRule::new(chain, expressions).with_comment(NftComment::cut(container));
    machine.netfilter.nftables.commit(&Transaction::from(vec![NftChange::AddRule(rule)])).expect("added");
}

#[test]
fn each_family_has_its_own_mappings_each_once() {
    let mappings = format!(
        r#"{TCP_8080},{TCP_8080},{UDP_53},{{"hostPort":1,"containerPort":2,"protocol":"sctp","hostIP":"fd00::1"}},
        {{"hostPort":3,"containerPort":4,"protocol":"tcp","hostIP":"10.88.0.1"}}"#
    );
    let machine = &mut FakeHost::default();
    caller(r#""masqAll":true"#, &mappings, DUAL).add(machine).expect("added");
    let dump = machine.netfilter.nftables.dump();
    let rules =
        |word: &str| -> Vec<&str> { dump.lines().filter(|line| line.contains(word)).map(|line| line.trim()).collect() };
    let translations = [
        "tcp dport 8080 dnat to 10.88.0.5:80",
        "udp dport 53 dnat to 10.88.0.5:5353",
        "ip daddr 10.88.0.1 tcp dport 3 dnat to 10.88.0.5:4",
        "tcp dport 8080 dnat to [fd00:88::5]:80",
        "udp dport 53 dnat to [fd00:88::5]:5353",
        "ip6 daddr fd00::1 sctp dport 1 dnat to [fd00:88::5]:2",
    ];
    assert_eq!(rules(" dnat to "), translations);
    assert_eq!(rules("jump dnat-").len(), 6);
    let masquerades: Vec<&str> =
        rules("jump masquerade-").iter().filter_map(|rule| rule.split(" jump").next()).collect();
    let sources = [
        "ip saddr 10.88.0.0/24 ip daddr 10.88.0.5 ct status dnat",
        "ip saddr 127.0.0.1 ip daddr 10.88.0.5",
        "ip daddr 10.88.0.5 ct status dnat",
        "ip6 saddr fd00:88::/64 ip6 daddr fd00:88::5 ct status dnat",
        "ip6 daddr fd00:88::5 ct status dnat",
    ];
    assert_eq!(masquerades, sources);
}

#[test]
fn conditions_are_the_containers_alone() {
    let machine = &mut FakeHost::default();
    let conditions = r#""conditionsV4":["ip","saddr","!=","192.0.2.0/24"]"#;
    let limited = caller(conditions, TCP_8080, V4);
    limited.add(machine).expect("added");
    Caller::new("ctr2", NFT, TCP_8080, &["10.88.0.6/24"]).add(machine).expect("added");
    let dump = machine.netfilter.nftables.dump();
    let with: Vec<&str> = dump.lines().filter(|line| line.contains("192.0.2.0/24")).map(|line| line.trim()).collect();
    assert_eq!(with, ["ip saddr != 192.0.2.0/24 tcp dport 8080 dnat to 10.88.0.5:80"]);
    limited.check(machine).expect("there");
    assert_eq!(machine.netfilter.nftables.scripts(), 1, "only what has words takes the program");
    limited.del(machine).expect("removed");
    assert!(!machine.netfilter.nftables.dump().contains("ctr1"));
}

#[test]
fn del_needs_only_names_and_no_program() {
    for (keys, runtime, prev_result) in [
        (NFT, "null", "null"),
        (r#""backend":"iptables""#, "null", "null"),
        ("", "null", r#"{"ips":7}"#),
        (r#""backend":"foo""#, "7", r#"{"cniVersion":"1.0.0","ips":[{"address":"10.88.0.5/24"}]}"#),
        (NFT, r#"{"portMappings":[{"hostPort":1,"containerPort":1,"protocol":"tcp"}]}"#, "null"),
    ] {
        let machine = &mut FakeHost::default();
        machine.netfilter.iptables.uninstall(Family::ALL);
        caller("", TCP_8080, DUAL).add(machine).expect("added");
        Caller::new("ctr2", NFT, TCP_8080, &["10.88.0.6/24"]).add(machine).expect("added");
        let forgetful = Caller::with("ctr1", keys, runtime, prev_result);
        forgetful.del(machine).expect("removed");
        let left = machine.netfilter.nftables.dump();
        assert!(!left.contains("ctr1") && !left.contains("10.88.0.5"), "{keys}: {left}");
        assert_eq!(left.matches("\"ctr2\"").count(), 3, "{left}");
        let commits = machine.netfilter.nftables.commits();
        forgetful.del(machine).expect("gone");
        assert_eq!(machine.netfilter.nftables.commits(), commits);
    }
}

#[test]
fn what_the_reference_made_is_checked_replaced_and_deleted() {
    let machine = &mut FakeHost::default();
    let plain = caller(r#""snat":false"#, TCP_8080, V4);
    Caller::new("ctr2", NFT, UDP_53, &["10.88.0.6/24"]).add(machine).expect("the skeleton");
    reference_rule(machine, "hostports", "ctr1", "tcp dport 8080 dnat to 10.88.0.5:80");
    plain.check(machine).expect("the reference's rules will do");
    reference_rule(machine, "hostports", "ctr1", "tcp dport 9090 dnat to 10.77.0.5:80");
    plain.add(machine).expect("added");
    let dump = machine.netfilter.nftables.dump();
    assert_eq!(dump.matches("dport 8080").count(), 2, "one entry and one translation: {dump}");
    assert!(dump.contains("10.77.0.5"), "another network's, for all that is known: {dump}");
    plain.del(machine).expect("removed");
    assert!(!machine.netfilter.nftables.dump().contains("\"ctr1\""));
}

#[test]
fn check_names_the_rule_that_is_missing() {
    let machine = &mut FakeHost::default();
    let caller = caller("", TCP_8080, V4);
    let missing = error_parts(caller.check(machine).expect_err("nothing there"));
    let message =
        "could not check ipv4 dnat: rule [jump hostip_hostports] not found in chain ip cni_hostport hostports_all";
    let details = "this does not show it: nft list chain ip cni_hostport hostports_all";
    assert_eq!(missing, (100, message.to_owned(), details.to_owned()));
    caller.add(machine).expect("added");
    let other = Caller::new("ctr1", NFT, UDP_53, V4);
    let (_, message, _) = error_parts(other.check(machine).expect_err("another port"));
    assert!(message.contains("udp dport 53"), "{message}");
    let commits = machine.netfilter.nftables.commits();
    caller.check(machine).expect("there");
    assert_eq!(machine.netfilter.nftables.commits(), commits, "CHECK writes nothing");
}

/// The chain is filled again; the rules that jump to it exist already.
#[test]
fn a_second_add_that_fails_restores_the_chain_that_it_filled() {
    let machine = &mut routed();
    caller("", TCP_8080, V4).add(machine).expect("added");
    let before = machine.netfilter.nftables.dump();
    machine.fail_at(machine.applied().len() + 3);
    let error = caller("", TCP_8080, &["10.88.0.9/24"]).add(machine).expect_err("fails");
    assert_eq!(error_parts(error).2, "", "all of it could be undone");
    assert_eq!(machine.netfilter.nftables.dump(), before);
}

#[test]
fn the_automatic_choice_looks_for_iptables_and_then_for_nf_tables() {
    let automatic = Caller::new("ctr1", "", TCP_8080, V4);
    let machine = &mut FakeHost::default();
    automatic.add(machine).expect("by iptables");
    assert_eq!(machine.netfilter.nftables.commits(), 0);
    let machine = &mut FakeHost::default();
    machine.netfilter.iptables.uninstall(Family::ALL);
    automatic.add(machine).expect("by nf_tables");
    automatic.check(machine).expect("there");
    automatic.del(machine).expect("removed");
    assert!(!machine.netfilter.nftables.dump().contains("ctr1"));
    machine.netfilter.nftables = FakeNftables::unsupported();
    let (code, message, _) = error_parts(automatic.add(machine).expect_err("neither"));
    let want = "failed to locate iptables-restore: no such program in the directories of PATH";
    assert_eq!((code, message.as_str()), (104, want));
}

#[test]
fn a_kernel_without_nf_tables_has_nothing_to_delete() {
    let machine = &mut FakeHost::new();
    machine.netfilter.nftables = FakeNftables::unsupported();
    let iptables = Caller::new("ctr1", "", TCP_8080, V4);
    iptables.add(machine).expect("added");
    iptables.del(machine).expect("removed");
    caller("", TCP_8080, V4).del(machine).expect("nothing there");
    gc(machine, "n1", &[]).expect("nothing there");
    let config = format!(r#"{{"name":"n1","cniVersion":"1.1.0",{NFT}}}"#);
    let status = Portmap.status(&Caller(cni_testkit::Caller::new("", &config)).request("STATUS"), machine);
    let (code, message, details) = error_parts(status.expect_err("not available"));
    assert_eq!((code, message.as_str()), (50, "nf_tables is not available"));
    assert!(details.contains("not supported by this kernel"), "{details}");
}

#[test]
fn gc_removes_what_belongs_to_no_valid_attachment_of_the_network() {
    let machine = &mut FakeHost::default();
    let both = format!("{TCP_8080},{UDP_53}");
    for (id, last) in [("ctr1", 5), ("ctr2", 6)] {
        let ips = [format!("10.88.0.{last}/24"), format!("fd00:88::{last}/64")];
        Caller::new(id, NFT, &both, &ips.each_ref().map(String::as_str)).add(machine).expect("added");
    }
    let before = machine.netfilter.nftables.dump();
    for (network, valid) in [("n1", &["ctr1", "ctr2"][..]), ("n2", &[]), ("n", &[])] {
        gc(machine, network, valid).expect("nothing to do");
        assert_eq!(machine.netfilter.nftables.dump(), before);
    }
    let forgotten = forgotten(machine, |machine| gc(machine, "n1", &["ctr2"]).expect("removed"));
    assert_eq!(
        forgotten,
        ["forget UDP flows to *:53 answered by 10.88.0.5", "forget UDP flows to *:53 answered by fd00:88::5"]
    );
    let left = machine.netfilter.nftables.dump();
    assert!(!left.contains("ctr1") && !left.contains("10.88.0.5") && left.contains("10.88.0.6"), "{left}");
}

#[test]
fn stale_udp_flows_are_forgotten() {
    let reported = caller("", UDP_53, V4);
    let untold = Caller::with("ctr1", NFT, "null", "null");
    for del in [&reported, &untold] {
        let machine = &mut FakeHost::default();
        let mapped = forgotten(machine, |machine| drop(reported.add(machine).expect("added")));
        assert_eq!(mapped, ["forget UDP flows to *:53 not answered by 10.88.0.5"]);
        let unmapped = forgotten(machine, |machine| del.del(machine).expect("removed"));
        assert_eq!(unmapped, ["forget UDP flows to *:53 answered by 10.88.0.5"]);
        assert_eq!(forgotten(machine, |machine| del.del(machine).expect("gone")), [""; 0]);
    }
}

#[test]
fn two_thousand_ports_are_one_transaction() {
    let ports = |proto: &str| {
        let entry = |port| format!(r#"{{"hostPort":{port},"containerPort":{port},"protocol":"{proto}"}}"#);
        (10_000..11_000).map(entry).collect::<Vec<_>>().join(",")
    };
    let machine = &mut FakeHost::default();
    let many = caller("", &format!("{},{}", ports("tcp"), ports("udp")), V4);
    many.add(machine).expect("added");
    assert_eq!(machine.netfilter.nftables.commits(), 1);
    assert_eq!(machine.netfilter.nftables.dump().matches(" dnat to ").count(), 2000);
    many.check(machine).expect("there");
    many.del(machine).expect("removed");
    assert_eq!(machine.netfilter.nftables.commits(), 2);
}
