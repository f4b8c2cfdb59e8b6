//! `ensure` on a table in memory: what is left of every state that a host may be in.

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::RulePosition;
use cni_netfilter::iptables::{
    Batch, BatchLine, ExistingChain, IptablesError, IptablesRule, IptablesRuleset, IptablesTable, IptablesUndo,
    OwnedChain, RulePlacement, SharedRule, ensure, undo,
};
use cni_testkit::FakeIptables;

/// How often a change is tried when others keep changing the same chains in between.
const ATTEMPTS: usize = 5;

fn rule(line: &str) -> IptablesRule {
    IptablesRule::parse(line).expect(line)
}

fn chain(name: &str) -> ChainName {
    ChainName::parse(name).expect(name)
}

fn shared(place: RulePlacement, line: &str) -> SharedRule {
    SharedRule { rule: rule(line), place }
}

/// What portmap wants for one container: a skeleton of four rules, a chain, an entry rule.
fn portmap(own: &str, port: u16, existing: ExistingChain) -> IptablesRuleset {
    let rules = vec![
        rule(&format!("-A {own} -s 10.88.0.0/24 -p tcp -m tcp --dport {port} -j CNI-HOSTPORT-SETMARK")),
        rule(&format!("-A {own} -p tcp -m tcp --dport {port} -j DNAT --to-destination 10.88.0.5:80")),
    ];
    IptablesRuleset {
        family: Family::V4,
        table: IptablesTable::Nat,
        shared_chains: vec![chain("CNI-HOSTPORT-DNAT"), chain("CNI-HOSTPORT-SETMARK")],
        shared: vec![
            shared(RulePlacement::Last, "-A CNI-HOSTPORT-SETMARK -j MARK --set-xmark 0x2000/0x2000"),
            shared(RulePlacement::First, "-A POSTROUTING -m mark --mark 0x2000/0x2000 -j MASQUERADE"),
            shared(RulePlacement::Last, "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT"),
        ],
        chains: vec![OwnedChain { name: chain(own), rules, existing }],
        rules: vec![rule(&format!("-A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports {port} -j {own}"))],
        position: RulePosition::Back,
    }
}

const SKELETON: &str = "\
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-SETMARK
-A CNI-HOSTPORT-SETMARK -j MARK --set-xmark 0x2000/0x2000
-A POSTROUTING -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT";

const ONE: &str = "\
-N CNI-DN-1
-N CNI-HOSTPORT-DNAT
-N CNI-HOSTPORT-SETMARK
-A CNI-DN-1 -s 10.88.0.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
-A CNI-DN-1 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
-A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports 8080 -j CNI-DN-1
-A CNI-HOSTPORT-SETMARK -j MARK --set-xmark 0x2000/0x2000
-A POSTROUTING -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT";

fn nat(text: &str) -> FakeIptables {
    let mut fake = FakeIptables::new();
    fake.load(Family::V4, IptablesTable::Nat, text).expect("loads");
    fake
}

fn dump(fake: &FakeIptables) -> String {
    fake.dump(Family::V4, IptablesTable::Nat)
}

fn run(fake: &mut FakeIptables, want: &IptablesRuleset) -> Option<IptablesUndo> {
    ensure(fake, want).expect("ensured")
}

#[test]
fn an_empty_host_gets_everything_at_once() {
    let mut fake = FakeIptables::new();
    run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace));
    assert_eq!(dump(&fake), ONE);
    assert_eq!((fake.commits(), fake.locks()), (2, 1));
}

#[test]
fn the_usual_state_takes_one_batch_and_no_look() {
    let mut fake = nat(SKELETON);
    run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace));
    assert_eq!(dump(&fake), ONE);
    assert_eq!((fake.commits(), fake.lists(), fake.locks()), (1, 0, 0));
}

#[test]
fn a_replaced_chain_leaves_nothing_of_the_old_one() {
    let mut fake = nat(SKELETON);
    run(&mut fake, &portmap("CNI-DN-1", 1, ExistingChain::Replace));
    run(&mut fake, &portmap("CNI-DN-2", 2, ExistingChain::Replace));
    let others = dump(&fake);
    assert!(others.contains("--dports 1 -j CNI-DN-1"));
    run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace));
    run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace));
    let text = dump(&fake);
    assert!(!text.contains("--dports 1 ") && !text.contains("--dport 1 "), "{text}");
    assert_eq!(text.matches("-j CNI-DN-1").count(), 1, "{text}");
    let second =
        |text: &str| text.lines().filter(|line| line.contains("CNI-DN-2")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(second(&text), second(&others));
}

#[test]
fn foreign_rules_that_lead_to_a_replaced_chain_stay() {
    let mut fake = nat(&format!("{SKELETON}\n-N CNI-DN-1\n-A OUTPUT -s 1.2.3.4/32 -j CNI-DN-1"));
    run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace));
    assert!(dump(&fake).contains("-A OUTPUT -s 1.2.3.4/32 -j CNI-DN-1"));
}

#[test]
fn missing_parts_of_the_skeleton_are_put_in_their_places() {
    let mut fake = nat("-A POSTROUTING -j ACCEPT\n-A PREROUTING -j ACCEPT\n-N CNI-HOSTPORT-DNAT");
    run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace));
    let text = dump(&fake);
    let post = "-A POSTROUTING -m mark --mark 0x2000/0x2000 -j MASQUERADE\n-A POSTROUTING -j ACCEPT";
    let pre = "-A PREROUTING -j ACCEPT\n-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT";
    assert!(text.contains(post) && text.contains(pre), "{text}");
}

#[test]
fn several_missing_first_rules_end_in_the_reverse_of_their_order() {
    let mut want = portmap("CNI-DN-1", 8080, ExistingChain::Replace);
    want.shared.push(shared(RulePlacement::First, "-A POSTROUTING -s 1.1.1.1/32 -j RETURN"));
    let mut fake = FakeIptables::new();
    run(&mut fake, &want);
    let text = dump(&fake);
    let order = "-A POSTROUTING -s 1.1.1.1/32 -j RETURN\n-A POSTROUTING -m mark --mark 0x2000/0x2000 -j MASQUERADE";
    assert!(text.contains(order), "{text}");
}

#[test]
fn surplus_copies_of_shared_rules_go() {
    let masquerade = "-A POSTROUTING -m mark --mark 0x2000/0x2000 -j MASQUERADE";
    let dnat = "-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT";
    let mut fake = nat(&format!(
        "{masquerade}\n-A POSTROUTING -j ACCEPT\n{masquerade}\n-N CNI-HOSTPORT-DNAT\n{dnat}\n{dnat}\n{dnat}"
    ));
    run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace));
    let text = dump(&fake);
    assert!(text.contains(&format!("{masquerade}\n-A POSTROUTING -j ACCEPT")), "{text}");
    assert_eq!((text.matches(masquerade).count(), text.matches(dnat).count()), (1, 1), "{text}");
}

#[test]
fn surplus_copies_below_a_foreign_rule_do_not_rise_above_it() {
    let masquerade = "-A POSTROUTING -m mark --mark 0x2000/0x2000 -j MASQUERADE";
    let mut fake = nat(&format!("-A POSTROUTING -j ACCEPT\n{masquerade}\n{masquerade}"));
    run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace));
    let text = dump(&fake);
    assert!(text.contains(&format!("-A POSTROUTING -j ACCEPT\n{masquerade}\n")), "{text}");
    assert_eq!(text.matches(masquerade).count(), 1, "{text}");
}

#[test]
fn undo_removes_what_was_added_and_nothing_shared() {
    let mut fake = FakeIptables::new();
    let change = run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace)).expect("something to undo");
    undo(&mut fake, &change).expect("undone");
    assert_eq!(dump(&fake), SKELETON);
}

#[test]
fn undo_restores_the_chain_that_was_replaced_and_the_rules_that_lead_to_it() {
    for second in [1, 8080] {
        let mut fake = nat(SKELETON);
        run(&mut fake, &portmap("CNI-DN-1", 1, ExistingChain::Replace));
        run(&mut fake, &portmap("CNI-DN-2", 2, ExistingChain::Replace));
        let before = entry_ports(&fake);
        let whole = dump(&fake);
        let mut want = portmap("CNI-DN-1", second, ExistingChain::Replace);
        want.chains[0].rules.pop();
        want.rules.push(rule("-A CNI-HOSTPORT-SETMARK -j CNI-DN-1"));
        let change = run(&mut fake, &want).expect("something to undo");
        assert_ne!(dump(&fake), whole);
        undo(&mut fake, &change).expect("undone");
        let sorted = |mut ports: Vec<String>| {
            ports.sort();
            ports
        };
        assert_eq!(sorted(entry_ports(&fake)), sorted(before), "{second}");
        let lines =
            |text: &str| text.lines().filter(|line| !line.contains("--dports")).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines(&dump(&fake)), lines(&whole), "{second}");
    }
}

#[test]
fn a_chain_that_holds_what_is_wanted_is_unchanged() {
    let mut fake = nat(SKELETON);
    for _ in 0..2 {
        run(&mut fake, &portmap("CNI-DN-1", 1, ExistingChain::Replace));
        run(&mut fake, &portmap("CNI-DN-2", 2, ExistingChain::Replace));
    }
    assert_eq!(entry_ports(&fake), ["1", "2"]);
    assert_eq!(run(&mut fake, &portmap("CNI-DN-1", 1, ExistingChain::Replace)), None);
}

fn masquerade(addresses: &[&str]) -> IptablesRuleset {
    let own = "CNI-a19237f207ed3fa9670f34ba";
    let comment = r#"-m comment --comment "name: \"net1\" id: \"id1\"""#;
    let mut rules: Vec<IptablesRule> =
        addresses.iter().map(|ip| rule(&format!("-A {own} -d {ip}.0/24 {comment} -j ACCEPT"))).collect();
    rules.push(rule(&format!("-A {own} ! -d 224.0.0.0/4 {comment} -j MASQUERADE")));
    IptablesRuleset {
        family: Family::V4,
        table: IptablesTable::Nat,
        shared_chains: Vec::new(),
        shared: Vec::new(),
        chains: vec![OwnedChain { name: chain(own), rules, existing: ExistingChain::Merge }],
        rules: addresses.iter().map(|ip| rule(&format!("-A POSTROUTING -s {ip}.2/32 {comment} -j {own}"))).collect(),
        position: RulePosition::Back,
    }
}

#[test]
fn a_second_interface_joins_the_chain_in_front_of_its_last_rule() {
    let mut fake = FakeIptables::new();
    run(&mut fake, &masquerade(&["10.1.2", "10.1.3"]));
    let whole = dump(&fake);
    let mut fake = FakeIptables::new();
    run(&mut fake, &masquerade(&["10.1.2"]));
    let first = dump(&fake);
    let change = run(&mut fake, &masquerade(&["10.1.3"])).expect("something to undo");
    assert_eq!(dump(&fake), whole);
    undo(&mut fake, &change).expect("undone");
    assert_eq!(dump(&fake), first);
}

#[test]
fn a_merge_with_nothing_missing_changes_nothing() {
    let mut fake = FakeIptables::new();
    run(&mut fake, &masquerade(&["10.1.2"]));
    let before = dump(&fake);
    assert_eq!(run(&mut fake, &masquerade(&["10.1.2"])), None);
    assert_eq!(dump(&fake), before);
}

#[test]
fn a_merge_puts_a_last_rule_that_is_not_last_behind_the_others() {
    let mut fake = FakeIptables::new();
    run(&mut fake, &masquerade(&["10.1.2"]));
    let own = "CNI-a19237f207ed3fa9670f34ba";
    fake.load(
        Family::V4,
        IptablesTable::Nat,
        &format!(r#"-A {own} -d 10.1.3.0/24 -m comment --comment "name: \"net1\" id: \"id1\"" -j ACCEPT"#),
    )
    .expect("loads");
    run(&mut fake, &masquerade(&["10.1.2"]));
    let text = dump(&fake);
    let tail: Vec<&str> = text.lines().filter(|line| line.starts_with(&format!("-A {own}"))).collect();
    assert_eq!(tail.len(), 3, "{text}");
    assert!(tail[2].ends_with("-j MASQUERADE"), "{text}");
}

fn accepts(ip: &str) -> IptablesRuleset {
    IptablesRuleset {
        family: Family::V4,
        table: IptablesTable::Filter,
        shared_chains: vec![chain("CNI-FORWARD"), chain("CNI-ADMIN")],
        shared: vec![
            shared(
                RulePlacement::First,
                r#"-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD"#,
            ),
            shared(
                RulePlacement::First,
                r#"-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN"#,
            ),
        ],
        chains: Vec::new(),
        rules: vec![
            rule(&format!("-A CNI-FORWARD -d {ip}/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")),
            rule(&format!("-A CNI-FORWARD -s {ip}/32 -j ACCEPT")),
        ],
        position: RulePosition::Back,
    }
}

const FILTER: &str = r#"-N CNI-ADMIN
-N CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD"#;

#[test]
fn rules_without_a_chain_of_their_own_are_added_once() {
    let mut fake = FakeIptables::new();
    assert!(run(&mut fake, &accepts("10.88.0.5")).is_some());
    assert_eq!(fake.dump(Family::V4, IptablesTable::Filter), FILTER);
    let (lists, commits) = (fake.lists(), fake.commits());
    assert_eq!(run(&mut fake, &accepts("10.88.0.5")), None);
    assert_eq!((fake.lists() - lists, fake.commits() - commits), (1, 1));
    assert_eq!(fake.dump(Family::V4, IptablesTable::Filter), FILTER);
}

#[test]
fn of_rules_without_a_chain_one_copy_stays_and_undo_takes_only_what_was_missing() {
    let mut fake = FakeIptables::new();
    run(&mut fake, &accepts("10.88.0.6"));
    let copy = "-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT";
    fake.load(Family::V4, IptablesTable::Filter, &format!("{copy}\n{copy}")).expect("loads");
    let change = run(&mut fake, &accepts("10.88.0.5")).expect("something to undo");
    let text = fake.dump(Family::V4, IptablesTable::Filter);
    assert_eq!(text.matches(copy).count(), 1, "{text}");
    undo(&mut fake, &change).expect("undone");
    let text = fake.dump(Family::V4, IptablesTable::Filter);
    assert!(text.contains(copy) && !text.contains("-d 10.88.0.5/32"), "{text}");
}

const TO_RULES: &str = "-A FORWARD -j CNI-FORWARD";
const TO_STAGES: &str = "-A FORWARD -j CNI-STAGE";
const OTHER: &str = "-A FORWARD -j DOCKER-USER";

/// A rule that lets pass, and, with a policy, the one that must be asked before it.
fn ordered(with_policy: bool) -> IptablesRuleset {
    let mut shared_chains = vec![chain("CNI-FORWARD")];
    let mut skeleton = vec![shared(RulePlacement::Below(rule(TO_STAGES)), TO_RULES)];
    if with_policy {
        shared_chains.push(chain("CNI-STAGE"));
        skeleton.push(shared(RulePlacement::Above(rule(TO_RULES)), TO_STAGES));
    }
    IptablesRuleset { shared_chains, shared: skeleton, rules: Vec::new(), ..accepts("10.88.0.5") }
}

fn forward(rules: &[&str], want: &IptablesRuleset) -> Vec<String> {
    let mut fake = FakeIptables::new();
    let text = ["-N CNI-FORWARD", "-N CNI-STAGE", "-N DOCKER-USER"].iter().chain(rules).copied().collect::<Vec<_>>();
    fake.load(Family::V4, IptablesTable::Filter, &text.join("\n")).expect("loads");
    run(&mut fake, want);
    let dump = fake.dump(Family::V4, IptablesTable::Filter);
    dump.lines().filter(|line| line.starts_with("-A FORWARD")).map(str::to_owned).collect()
}

#[test]
fn a_rule_stays_above_the_one_that_it_must_be_asked_before() {
    let order = [TO_STAGES, TO_RULES];
    for before in [
        [].as_slice(),
        &[TO_STAGES],
        &[TO_RULES],
        &[TO_STAGES, TO_RULES],
        &[TO_RULES, TO_STAGES],
        &[TO_RULES, TO_STAGES, TO_STAGES],
        &[TO_STAGES, TO_STAGES],
        &[TO_RULES, TO_RULES],
        &[TO_RULES, TO_RULES, TO_STAGES, TO_STAGES],
    ] {
        assert_eq!(forward(before, &ordered(true)), order, "{before:?}");
    }
    for (before, after) in [
        (&[OTHER, TO_RULES, TO_STAGES], [TO_STAGES, OTHER, TO_RULES]),
        (&[TO_STAGES, OTHER, TO_RULES], [TO_STAGES, OTHER, TO_RULES]),
        (&[OTHER, TO_STAGES, TO_RULES], [OTHER, TO_STAGES, TO_RULES]),
    ] {
        assert_eq!(forward(before, &ordered(true)), after, "{before:?}");
    }
}

#[test]
fn a_rule_that_is_put_above_another_networks_policy_takes_its_place_behind_it() {
    for (before, after) in [
        ([].as_slice(), [TO_RULES].as_slice()),
        (&[TO_STAGES], &[TO_STAGES, TO_RULES]),
        (&[OTHER, TO_STAGES], &[TO_STAGES, TO_RULES, OTHER]),
        (&[TO_STAGES, TO_STAGES], &[TO_STAGES, TO_RULES]),
        (&[TO_STAGES, TO_RULES], &[TO_STAGES, TO_RULES]),
    ] {
        assert_eq!(forward(before, &ordered(false)), after, "{before:?}");
    }
}

fn meanwhile(fake: &mut FakeIptables, number: usize, lines: &[BatchLine]) {
    fake.before_commit(number, Batch { family: Family::V4, table: IptablesTable::Nat, ops: lines.to_vec() });
}

#[test]
fn someone_who_makes_the_same_chain_in_between_is_no_failure() {
    let mut fake = FakeIptables::new();
    meanwhile(&mut fake, 2, &[BatchLine::CreateChain(chain("CNI-HOSTPORT-DNAT"))]);
    meanwhile(&mut fake, 3, &[BatchLine::CreateChain(chain("CNI-HOSTPORT-SETMARK"))]);
    run(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace));
    assert_eq!(dump(&fake), ONE);
    assert_eq!(fake.commits(), 4);
}

#[test]
fn rules_that_never_fit_are_refused_after_some_tries() {
    let mut fake = FakeIptables::new();
    let mut want = portmap("CNI-DN-1", 8080, ExistingChain::Replace);
    want.rules.push(rule("-A CNI-NOWHERE -j CNI-DN-1"));
    let error = ensure(&mut fake, &want).expect_err("refused");
    assert!(matches!(error, IptablesError::Refused { family: Family::V4, table: IptablesTable::Nat, .. }), "{error:?}");
    assert_eq!(dump(&fake), "");
    assert_eq!(fake.commits(), 1 + ATTEMPTS);
}

#[test]
fn a_failure_from_outside_is_no_refusal() {
    for number in [1, 2] {
        let mut fake = FakeIptables::new();
        fake.fail_commit(number);
        let error = ensure(&mut fake, &portmap("CNI-DN-1", 8080, ExistingChain::Replace)).expect_err("failed");
        assert_eq!(error.to_string(), "fake failed, as it was told to");
        assert_eq!((fake.commits(), dump(&fake)), (number, String::new()));
    }
}

#[test]
fn a_skeleton_that_no_rule_proves_is_looked_at() {
    let mut want = portmap("CNI-DN-1", 8080, ExistingChain::Replace);
    want.shared_chains.push(chain("CNI-ALONE"));
    let mut fake = nat(SKELETON);
    run(&mut fake, &want);
    assert!(dump(&fake).contains("-N CNI-ALONE"));
}

#[test]
fn a_plan_reads_like_a_listing() {
    assert_eq!(
        portmap("CNI-DN-1", 8080, ExistingChain::Replace).to_string(),
        "ensure v4 nat
  shared chain CNI-HOSTPORT-DNAT
  shared chain CNI-HOSTPORT-SETMARK
  shared last -A CNI-HOSTPORT-SETMARK -j MARK --set-xmark 0x2000/0x2000
  shared first -A POSTROUTING -m mark --mark 0x2000/0x2000 -j MASQUERADE
  shared last -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
  replace chain CNI-DN-1
  -A CNI-DN-1 -s 10.88.0.0/24 -p tcp -m tcp --dport 8080 -j CNI-HOSTPORT-SETMARK
  -A CNI-DN-1 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.88.0.5:80
  -A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports 8080 -j CNI-DN-1"
    );
}

/// Chains of a container that lead to each other, entered from two places.
fn redirection() -> IptablesRuleset {
    let owned = |name: &str, lines: &[&str]| OwnedChain {
        name: chain(name),
        rules: lines.iter().map(|line| rule(&format!("-A {name} {line}"))).collect(),
        existing: ExistingChain::ReplaceInOrder,
    };
    IptablesRuleset {
        family: Family::V4,
        table: IptablesTable::Nat,
        shared_chains: Vec::new(),
        shared: Vec::new(),
        chains: vec![
            owned("INBOUND", &["-p tcp -m tcp --dport 22 -j RETURN", "-p tcp -j REDIRECTED"]),
            owned("EMPTY", &[]),
            owned("REDIRECTED", &["-p tcp -j REDIRECT --to-ports 15001"]),
        ],
        rules: vec![
            rule("-A PREROUTING -p tcp -j INBOUND"),
            rule("-A OUTPUT -p udp -j EMPTY"),
            rule("-A OUTPUT -p tcp -j REDIRECTED"),
        ],
        position: RulePosition::Back,
    }
}

const REDIRECTION: &str = "\
-N EMPTY
-N INBOUND
-N REDIRECTED
-A INBOUND -p tcp -m tcp --dport 22 -j RETURN
-A INBOUND -p tcp -j REDIRECTED
-A OUTPUT -p udp -j EMPTY
-A OUTPUT -p tcp -j REDIRECTED
-A PREROUTING -p tcp -j INBOUND
-A REDIRECTED -p tcp -j REDIRECT --to-ports 15001";

#[test]
fn chains_that_lead_to_each_other_come_and_go_in_one_batch() {
    let mut fake = FakeIptables::new();
    let change = run(&mut fake, &redirection()).expect("something was added");
    assert_eq!(dump(&fake), REDIRECTION);
    assert_eq!((fake.commits(), fake.lists()), (1, 0));
    undo(&mut fake, &change).expect("removed");
    assert_eq!(dump(&fake), "");
    assert_eq!((fake.commits(), fake.lists()), (2, 0));
}

#[test]
fn whatever_is_left_of_several_chains_they_become_what_is_wanted() {
    let lines: Vec<&str> = REDIRECTION.lines().collect();
    for without in &lines {
        let mut fake = FakeIptables::new();
        let name = without.strip_prefix("-N ").unwrap_or("nothing");
        let stays = |line: &&&str| line != &without && line.split(' ').all(|word| word != name);
        let rest: Vec<&str> = lines.iter().filter(stays).copied().collect();
        let load = |fake: &mut FakeIptables, text: &str| fake.load(Family::V4, IptablesTable::Nat, text);
        load(&mut fake, &rest.join("\n")).expect("loads");
        load(&mut fake, "-A OUTPUT -j ACCEPT").expect("loads");
        run(&mut fake, &redirection()).expect("something was added");
        let text = dump(&fake).replace("-A OUTPUT -j ACCEPT\n", "");
        assert_eq!(text, REDIRECTION, "without {without}");
        run(&mut fake, &redirection());
        assert_eq!(dump(&fake).replace("-A OUTPUT -j ACCEPT\n", ""), REDIRECTION, "again, without {without}");
    }
}

/// Where a rule of each port is among those of the shared chain.
fn entry_ports(fake: &FakeIptables) -> Vec<String> {
    let text = dump(fake);
    let entries = text.lines().filter_map(|line| line.strip_prefix("-A CNI-HOSTPORT-DNAT "));
    entries.filter_map(|line| Some(line.split("--dports ").nth(1)?.split(' ').next()?.to_owned())).collect()
}

/// A container with two ports, each led to by a rule of its own.
fn two_ports(own: &str, ports: [u16; 2], later: &[&str]) -> IptablesRuleset {
    let mut want = portmap(own, ports[0], ExistingChain::Replace);
    want.rules.extend(portmap(own, ports[1], ExistingChain::Replace).rules);
    want.position = RulePosition::before(later.iter().map(ToString::to_string));
    want
}

#[test]
fn rules_of_others_that_come_later_are_moved_behind() {
    let mut fake = nat(SKELETON);
    for (own, ports) in [("CNI-DN-1", [1, 2]), ("CNI-DN-3", [5, 6]), ("CNI-DN-4", [7, 8])] {
        run(&mut fake, &two_ports(own, ports, &[]));
    }
    let before = dump(&fake);
    let change = run(&mut fake, &two_ports("CNI-DN-2", [3, 4], &["CNI-DN-3", "CNI-DN-4"])).expect("something");
    assert_eq!(entry_ports(&fake), ["1", "2", "3", "4", "5", "6", "7", "8"]);
    undo(&mut fake, &change).expect("removed");
    assert_eq!(dump(&fake), before);
}

#[test]
fn rules_that_are_there_keep_their_places_when_the_chain_is_replaced() {
    let mut fake = nat(SKELETON);
    run(&mut fake, &two_ports("CNI-DN-1", [1, 2], &[]));
    run(&mut fake, &two_ports("CNI-DN-2", [3, 4], &[]));
    for (ports, later, want) in [
        ([1, 2], &[][..], ["1", "2", "3", "4"]),
        ([1, 5], &[], ["1", "3", "4", "5"]),
        ([1, 5], &["CNI-DN-2"], ["1", "5", "3", "4"]),
        ([6, 5], &["CNI-DN-2"], ["5", "6", "3", "4"]),
    ] {
        run(&mut fake, &two_ports("CNI-DN-1", ports, later));
        assert_eq!(entry_ports(&fake), want, "{ports:?} before {later:?}");
    }
}
