//! The plugin's own table of nf_tables.

use super::*;
use crate::config::{Config, Keys};
use cni_netfilter::nftables::{NftChange, Transaction};
use cni_testkit::FakeNftables;

const BOTH: &[&str] = &["10.88.0.5/24", "fd00:88::5/64"];

const NATIVE: &str = r#""backend":"nftables""#;

fn with_policy(policy: &str) -> String {
    format!(r#"{NATIVE},"ingressPolicy":"{policy}""#)
}

/// How many transactions and readings some work costs.
fn native_cost(machine: &mut FakeHost, work: impl FnOnce(&mut FakeHost)) -> (usize, usize) {
    let before = (machine.netfilter.nftables.commits(), machine.netfilter.nftables.lists());
    work(machine);
    (machine.netfilter.nftables.commits() - before.0, machine.netfilter.nftables.lists() - before.1)
}

const FULL: &str = r#"table inet cni_firewall {
	comment "CNI firewall plugin"
	set containers_v4 {
		type ipv4_addr
		elements = { 10.88.0.5 }
	}

	set containers_v6 {
		type ipv6_addr
		elements = { fd00:88::5 }
	}

	chain CNI-ADMIN {
	}

	chain admin {
		jump CNI-ADMIN
	}

	chain isolation-stage-1 {
		iifname "br0" oifname != "br0" jump isolation-stage-2
		iifname "br0" oifname "br0" drop
	}

	chain isolation-stage-2 {
		oifname "br0" drop
	}

	chain forward {
		type filter hook forward priority filter; policy accept;
		jump isolation-stage-1
		jump admin
		ip daddr @containers_v4 ct state established,related accept
		ip6 daddr @containers_v6 ct state established,related accept
		ip saddr @containers_v4 accept
		ip6 saddr @containers_v6 accept
	}
}
"#;

#[test]
fn the_table_holds_the_addresses_and_the_policy() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", &with_policy("isolated"), BOTH);
    caller.add(machine).expect("added");
    assert_eq!(machine.netfilter.nftables.dump(), FULL);
    caller.add(machine).expect("added again");
    assert_eq!(machine.netfilter.nftables.dump(), FULL);
    caller.check(machine).expect("all there");
    assert_eq!((machine.netfilter.iptables.commits(), machine.firewalld.questions()), (0, 0));
}

#[test]
fn the_usual_cost_is_one_transaction_and_no_process() {
    let machine = &mut FakeHost::default();
    Caller::new("first", NATIVE, &["10.88.0.4/24"]).add(machine).expect("added");
    let caller = Caller::new("ctr1", NATIVE, &["10.88.0.5/24"]);
    assert_eq!(native_cost(machine, |machine| drop(caller.add(machine).expect("added"))), (1, 6));
    assert_eq!(native_cost(machine, |machine| caller.check(machine).expect("there")), (0, 3));
    assert_eq!(native_cost(machine, |machine| caller.del(machine).expect("removed")), (1, 1));
    let forgotten = Caller::with_prev_result("ctr1", NATIVE, "null");
    assert_eq!(native_cost(machine, |machine| forgotten.del(machine).expect("gone")), (0, 0));
    assert_eq!(
        machine.netfilter.iptables.commits()
            + machine.netfilter.iptables.lists()
            + machine.netfilter.nftables.scripts(),
        0
    );
}

#[test]
fn a_forward_chain_that_was_changed_is_mended() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", &with_policy("isolated"), BOTH);
    caller.add(machine).expect("added");
    let forward = caller.forward();
    commit(machine, vec![NftChange::FlushChain(forward)]);
    assert_ne!(machine.netfilter.nftables.dump(), FULL);
    caller.add(machine).expect("mended");
    assert_eq!(machine.netfilter.nftables.dump(), FULL);
}

#[test]
fn check_names_what_is_missing_and_writes_nothing() {
    let caller = Caller::new("ctr1", &with_policy("isolated"), BOTH);
    let bare = &mut FakeHost::default();
    let missing = error_parts(caller.check(bare).expect_err("nothing is there"));
    assert_eq!((missing.0, bare.netfilter.nftables.dump().as_str(), bare.netfilter.nftables.commits()), (100, "", 0));
    let machine = &mut FakeHost::default();
    caller.add(machine).expect("added");
    let set = super::super::nftables::remove(&[std::net::IpAddr::from([10, 88, 0, 5])]).elements.remove(0);
    commit(machine, vec![NftChange::DeleteElements(set)]);
    let element = "inet cni_firewall containers_v4 { 10.88.0.5 }";
    let want =
        (100, format!("expected element [{element}] not found"), format!("this fails: nft get element {element}"));
    assert_eq!(error_parts(caller.check(machine).expect_err("missing")), want);
    commit(machine, vec![NftChange::FlushChain(caller.forward())]);
    let chain = "inet cni_firewall forward";
    let want = (
        100,
        format!("expected {chain} rule [jump isolation-stage-1] not found"),
        format!("this does not show it: nft list chain {chain}"),
    );
    assert_eq!(error_parts(caller.check(machine).expect_err("missing")), want);
}

#[test]
fn an_address_that_moves_between_backends_leaves_nothing_in_either() {
    let machine = &mut FakeHost::default();
    for keys in [NATIVE, r#""backend":"iptables""#] {
        Caller::new("ctr1", keys, BOTH).add(machine).expect("added");
    }
    Caller::with_prev_result("ctr1", "", "null").del(machine).expect("removed");
    let left = Family::ALL.map(|family| dump(machine, family)).concat() + &machine.netfilter.nftables.dump();
    assert!(!left.contains("10.88.0.5") && !left.contains("fd00:88::5"), "{left}");
}

#[test]
fn what_nobody_wrote_down_is_found_by_the_configuration() {
    let machine = &mut FakeHost::default();
    let caller = Caller::new("ctr1", NATIVE, BOTH);
    caller.add(machine).expect("added");
    machine.records.clear();
    caller.del(machine).expect("removed");
    assert!(!machine.netfilter.nftables.dump().contains("elements"), "{}", machine.netfilter.nftables.dump());
}

#[test]
fn gc_takes_out_what_no_valid_attachment_has_in_one_transaction() {
    let machine = &mut FakeHost::default();
    for (id, last) in [("ctr1", 5), ("ctr2", 6), ("ctr3", 7)] {
        let ips = [format!("10.88.0.{last}/24"), format!("fd00:88::{last}/64")];
        Caller::new(id, NATIVE, &ips.each_ref().map(String::as_str)).add(machine).expect("added");
    }
    assert_eq!(native_cost(machine, |machine| gc(machine, "n1", &["ctr2"])), (1, 2));
    let dump = machine.netfilter.nftables.dump();
    assert!(dump.contains("elements = { 10.88.0.6 }") && dump.contains("elements = { fd00:88::6 }"), "{dump}");
    assert_eq!(claimed(machine).len(), 2);
}

#[test]
fn an_add_that_fails_at_any_step_leaves_the_sets_as_they_were() {
    let other = Caller::new("other", NATIVE, &["10.88.0.9/24"]);
    let caller = Caller::new("ctr1", NATIVE, BOTH);
    for step in 1..=3 {
        let machine = &mut FakeHost::default();
        other.add(machine).expect("added");
        let before = machine.netfilter.nftables.dump();
        machine.fail_at(machine.applied().len() + step);
        caller.add(machine).expect_err("fails");
        assert_eq!((machine.netfilter.nftables.dump(), claimed(machine).len()), (before, 1), "step {step}");
    }
}

#[test]
fn status_asks_the_kernel_for_nf_tables() {
    let status = |machine: &mut FakeHost| {
        Firewall.status(&Caller::of_network("n1", &format!(",{NATIVE}")).request("STATUS"), machine)
    };
    let machine = &mut FakeHost::default();
    assert_eq!(native_cost(machine, |machine| status(machine).expect("available")), (0, 0));
    let without = &mut FakeHost::new();
    without.netfilter.nftables = FakeNftables::unsupported();
    let (code, message, details) = error_parts(status(without).expect_err("not available"));
    assert_eq!((code, message.as_str()), (50, "nf_tables is not available"));
    assert!(details.contains("nf_tables is not supported by this kernel"), "{details}");
}

/// Somebody else's change.
fn commit(machine: &mut FakeHost, ops: Vec<NftChange>) {
    cni_netfilter::nftables::Nftables::commit(&mut machine.netfilter.nftables, &Transaction::from(ops)).expect("fits");
}

impl Caller {
    /// The chain that all forwarded packets pass.
    fn forward(&self) -> cni_netfilter::nftables::ChainId {
        let config = Config::try_from(self.request("ADD").decode::<Keys>().expect("keys")).expect("valid");
        let admin = config.admin_chain_of_nftables().expect("a word");
        let ensure = super::super::nftables::ensure(admin, None, &[]);
        ensure.chains.last().expect("chains").chain.id.clone()
    }
}

/// The reference takes `nftables` for a backend that it does not know, and chooses itself.
#[test]
fn what_the_reference_made_is_found_where_it_chose_to_make_it() {
    for running in [false, true] {
        let machine = &mut FakeHost::default();
        machine.firewalld.running = running;
        Caller::new("ctr1", "", BOTH).add(machine).expect("added");
        machine.records.clear();
        let caller = Caller::new("ctr1", NATIVE, BOTH);
        caller.check(machine).expect("found");
        caller.del(machine).expect("removed");
        let left = Family::ALL.map(|family| dump(machine, family)).concat();
        assert!(!left.contains("10.88.0.5") && machine.firewalld.sources().is_empty(), "{left}");
        let gone = error_parts(caller.check(machine).expect_err("gone"));
        assert_eq!(gone.0, 100);
        assert!(gone.1.contains("inet cni_firewall"), "{}", gone.1);
    }
}
