//! `ensure` and `missing` on nf_tables in memory.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_netfilter::nftables::{
    BaseChainType, ChainContent, ChainId, Equality, ExistingRules, Expression, Generation, Hook, ListedRule, NftChain,
    NftChange, NftComment, NftName, NftRemoval, NftRule, NftRuleset, NftTable, Nftables, NftablesError, OwnedRules,
    PacketEnd, RuleSelection, RuleTag, Set, SetElements, SetId, TableFamily, TableId, Transaction, TransactionError,
    UnwantedNftRules, Verdict, WantedChain, ensure, missing, missing_elements, remove, undo,
};
use cni_netfilter::{Proto, RulePosition};
use cni_testkit::FakeNftables;
use proptest::prelude::*;

fn table() -> TableId {
    TableId::fixed(TableFamily::Inet, "t")
}

fn jump(from: &'static str, to: &'static str) -> NftRule {
    NftRule::new(table().chain(from), vec![Expression::Verdict(Verdict::Jump(NftName::fixed(to)))])
}

fn accept(chain: &'static str, last: u8, comment: &str) -> NftRule {
    let address = Cidr::host([10, 0, 0, last].into());
    let source = Expression::Address(PacketEnd::Source, Equality::Equal, address);
    NftRule::new(table().chain(chain), vec![source, Expression::Verdict(Verdict::Accept)])
        .with_comment(NftComment::cut(comment))
}

fn wanted(chain: NftChain, content: ChainContent) -> WantedChain {
    WantedChain { chain, content }
}

/// A skeleton of a base chain that leads to an open one, an own chain, and rules in the open one.
fn want(id: &str, hosts: &[u8], existing: ExistingRules) -> NftRuleset {
    let own = NftChain::regular(table().chain_named(NftName::parse(&format!("own-{id}")).expect("a name")));
    let base = NftChain::base(table().chain("base"), BaseChainType::Filter, Hook::Forward, 0);
    let closing = NftRule::new(own.id.clone(), vec![Expression::Verdict(Verdict::Drop)]);
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: Some(NftComment::cut("test")) }],
        chains: vec![
            wanted(NftChain::regular(table().chain("open")), ChainContent::Open),
            wanted(base, ChainContent::Fixed(vec![jump("base", "open")])),
            wanted(own, ChainContent::Own(vec![closing])),
        ],
        owned: vec![OwnedRules {
            chain: table().chain("open"),
            tag: RuleTag::Begins(format!("{id}, ")),
            rules: hosts.iter().map(|host| accept("open", *host, &format!("{id}, x"))).collect(),
            existing,
            position: RulePosition::Back,
        }],
        ..NftRuleset::default()
    }
}

fn unwanted(id: &str) -> NftRemoval {
    let which = RuleSelection::Tagged(RuleTag::Begins(format!("{id}, ")));
    NftRemoval {
        rules: vec![UnwantedNftRules { chain: table().chain("open"), which }],
        chains: vec![table().chain_named(NftName::parse(&format!("own-{id}")).expect("a name"))],
        ..NftRemoval::default()
    }
}

#[test]
fn an_empty_host_gets_everything_in_one_transaction() {
    let mut fake = FakeNftables::new();
    let change = ensure(&mut fake, &want("a", &[1, 2], ExistingRules::Replace)).expect("ensured").expect("something");
    let full = "table inet t {
\tcomment \"test\"
\tchain open {
\t\tip saddr 10.0.0.1 accept comment \"a, x\"
\t\tip saddr 10.0.0.2 accept comment \"a, x\"
\t}

\tchain base {
\t\ttype filter hook forward priority filter; policy accept;
\t\tjump open
\t}

\tchain own-a {
\t\tdrop
\t}
}
";
    assert_eq!((fake.dump().as_str(), fake.commits()), (full, 1));
    undo(&mut fake, &change).expect("undone");
    let rest = "\tchain open {\n\t}\n\n\tchain base {\n\t\ttype filter hook forward priority filter; policy accept;\n\t\tjump open\n\t}\n}\n";
    assert!(fake.dump().ends_with(rest), "{}", fake.dump());
    assert_eq!(fake.commits(), 2);
}

#[test]
fn what_is_there_is_not_written_again_and_not_undone() {
    let mut fake = FakeNftables::new();
    for existing in [ExistingRules::Replace, ExistingRules::Keep] {
        let want = want("a", &[1, 2], existing);
        ensure(&mut fake, &want).expect("ensured");
        let (dump, commits) = (fake.dump(), fake.commits());
        assert_eq!(ensure(&mut fake, &want).expect("ensured"), None);
        assert_eq!((fake.dump(), fake.commits()), (dump, commits));
    }
}

#[test]
fn stale_rules_with_the_tag_go_in_the_same_transaction() {
    let mut fake = FakeNftables::new();
    ensure(&mut fake, &want("a", &[1, 2], ExistingRules::Replace)).expect("ensured");
    ensure(&mut fake, &want("b", &[7], ExistingRules::Replace)).expect("ensured");
    let before = sorted(&fake);
    let change = ensure(&mut fake, &want("a", &[2, 3], ExistingRules::Replace)).expect("ensured").expect("something");
    assert_eq!(fake.commits(), 3);
    let open = "\tchain open {
\t\tip saddr 10.0.0.7 accept comment \"b, x\"
\t\tip saddr 10.0.0.2 accept comment \"a, x\"
\t\tip saddr 10.0.0.3 accept comment \"a, x\"
\t}
";
    assert!(fake.dump().contains(open), "{}", fake.dump());
    undo(&mut fake, &change).expect("undone");
    assert_eq!((sorted(&fake), fake.commits()), (before, 4));
}

/// The lines of a dump without their order.
fn sorted(fake: &FakeNftables) -> Vec<String> {
    let mut lines: Vec<String> = fake.dump().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn a_chain_that_was_filled_again_gets_its_rules_back() {
    let mut fake = FakeNftables::new();
    let mut first = want("a", &[1], ExistingRules::Replace);
    ensure(&mut fake, &first).expect("ensured");
    let before = fake.dump();
    let own = first.chains.last_mut().expect("its own chain");
    own.content = ChainContent::Own(vec![jump("own-a", "open")]);
    let change = ensure(&mut fake, &first).expect("ensured").expect("something");
    assert_ne!(fake.dump(), before);
    undo(&mut fake, &change).expect("undone");
    assert_eq!(fake.dump(), before);
}

#[test]
fn rules_of_another_interface_are_kept_and_not_undone() {
    let mut fake = FakeNftables::new();
    ensure(&mut fake, &want("a", &[1, 2], ExistingRules::Keep)).expect("ensured");
    let before = fake.dump();
    let change = ensure(&mut fake, &want("a", &[2, 3], ExistingRules::Keep)).expect("ensured").expect("something");
    assert!(fake.dump().contains("10.0.0.1 accept") && fake.dump().contains("10.0.0.3 accept"), "{}", fake.dump());
    undo(&mut fake, &change).expect("undone");
    assert_eq!(fake.dump(), before);
}

#[test]
fn a_skeleton_that_was_changed_is_filled_again_and_counts_as_nobodys() {
    let mut fake = FakeNftables::new();
    let want = want("a", &[1], ExistingRules::Replace);
    ensure(&mut fake, &want).expect("ensured");
    let right = fake.dump();
    let twice = Transaction::from(vec![NftChange::AddRule(jump("base", "open"))]);
    fake.commit(&twice).expect("someone else");
    assert_eq!(ensure(&mut fake, &want).expect("ensured"), None);
    assert_eq!(fake.dump(), right);
}

#[test]
fn two_first_attachments_at_once_make_one_skeleton() {
    let mut fake = FakeNftables::new();
    let mut other = FakeNftables::new();
    ensure(&mut other, &want("b", &[7], ExistingRules::Replace)).expect("ensured");
    let others = other.last_commit().expect("committed").clone();
    fake.before_commit(1, others);
    ensure(&mut fake, &want("a", &[1], ExistingRules::Replace)).expect("ensured");
    assert_eq!(fake.dump().matches("jump open").count(), 1, "{}", fake.dump());
    assert!(fake.dump().contains("b, x") && fake.dump().contains("a, x"), "{}", fake.dump());
}

#[test]
fn a_stale_rule_that_someone_else_deletes_first_is_no_failure() {
    let mut fake = FakeNftables::new();
    ensure(&mut fake, &want("a", &[1], ExistingRules::Replace)).expect("ensured");
    let handle = fake.list(&table().chain("open")).expect("listed").expect("there")[0].handle;
    fake.before_commit(2, Transaction::from(vec![NftChange::DeleteRule(table().chain("open"), handle)]));
    ensure(&mut fake, &want("a", &[2], ExistingRules::Replace)).expect("ensured");
    assert_eq!(fake.commits(), 3);
    assert!(fake.dump().contains("10.0.0.2 accept") && !fake.dump().contains("10.0.0.1"), "{}", fake.dump());
}

#[test]
fn a_stale_rule_is_not_mistaken_for_the_one_with_its_handle_after_others_have_loaded_the_tables_again() {
    let mut fake = FakeNftables::new();
    for id in ["a", "b", "c", "d", "e", "f"] {
        ensure(&mut fake, &want(id, &[1], ExistingRules::Replace)).expect("ensured");
    }
    let rules = fake.list(&table().chain("open")).expect("listed").expect("there");
    fake.commit(&Transaction::from(vec![NftChange::DeleteRule(table().chain("open"), rules[0].handle)])).expect("done");
    fake.reload_before_commit(fake.commits() + 1);
    ensure(&mut fake, &want("b", &[2], ExistingRules::Replace)).expect("ensured");
    assert!(fake.dump().matches(", x").count() == 5 && fake.dump().contains("f, x"), "{}", fake.dump());
}

#[test]
fn a_failure_is_reported_and_nothing_is_changed() {
    let mut fake = FakeNftables::new();
    fake.fail_commit(1);
    let error = ensure(&mut fake, &want("a", &[1], ExistingRules::Replace)).expect_err("failed");
    assert_eq!(error.to_string(), "failed to commit");
    assert_eq!(fake.dump(), "");
    let error = ensure(&mut FakeNftables::unsupported(), &want("a", &[1], ExistingRules::Replace)).expect_err("failed");
    assert_eq!(error.to_string(), "failed to list chain inet t own-a: nf_tables is not supported by this kernel");
}

#[test]
fn a_missing_rule_is_named() {
    let mut fake = FakeNftables::new();
    let want = want("a", &[1, 2], ExistingRules::Replace);
    assert_eq!(missing(&mut fake, &want).expect("looked").map(ToString::to_string), Some("jump open".to_owned()));
    ensure(&mut fake, &want).expect("ensured");
    let commits = fake.commits();
    assert_eq!(missing(&mut fake, &want).expect("looked"), None);
    assert_eq!(fake.commits(), commits);
    let handle = fake.list(&table().chain("open")).expect("listed").expect("there")[1].handle;
    fake.commit(&Transaction::from(vec![NftChange::DeleteRule(table().chain("open"), handle)])).expect("deleted");
    let named = missing(&mut fake, &want).expect("looked").map(ToString::to_string);
    assert_eq!(named.as_deref(), Some("ip saddr 10.0.0.2 accept comment \"a, x\""));
}

#[test]
fn a_rule_with_a_users_words_is_there_when_one_is_that_cannot_be_read() {
    let mut fake = FakeNftables::new();
    let mut want = want("a", &[1], ExistingRules::Replace);
    let words = Expression::Raw(vec!["meta".to_owned(), "mark".to_owned(), "7".to_owned()]);
    let rule = NftRule::new(table().chain("base"), vec![words, Expression::Verdict(Verdict::Accept)]);
    want.chains[1].content = ChainContent::Fixed(vec![rule.clone()]);
    assert_eq!(missing(&mut fake, &want).expect("looked"), Some(&rule));
    ensure(&mut fake, &want).expect("ensured");
    assert_eq!((missing(&mut fake, &want).expect("looked"), fake.scripts()), (None, 1));
    ensure(&mut fake, &want).expect("ensured");
    assert_eq!(fake.dump().matches("meta mark 7 accept").count(), 1, "{}", fake.dump());
}

#[test]
fn a_rule_that_cannot_be_read_is_there_for_one_rule_with_a_users_words() {
    let mut fake = FakeNftables::new();
    let mut want = want("a", &[1], ExistingRules::Replace);
    let rule = |port| {
        let words = Expression::Raw(vec!["meta".to_owned(), "mark".to_owned(), "7".to_owned()]);
        NftRule::new(table().chain("base"), vec![words, Expression::Port(Proto::Tcp, port)])
    };
    want.chains[1].content = ChainContent::Fixed(vec![rule(80), rule(81)]);
    ensure(&mut fake, &want).expect("ensured");
    assert_eq!(missing(&mut fake, &want).expect("looked"), None);
    let handle = fake.list(&table().chain("base")).expect("listed").expect("there")[0].handle;
    fake.commit(&Transaction::from(vec![NftChange::DeleteRule(table().chain("base"), handle)])).expect("deleted");
    assert_eq!(missing(&mut fake, &want).expect("looked"), Some(&rule(81)));
    let foreign = rule(80).with_comment(NftComment::cut("b"));
    fake.commit(&Transaction::from(vec![NftChange::AddRule(foreign)])).expect("added");
    assert_eq!(missing(&mut fake, &want).expect("looked"), Some(&rule(81)));
}

proptest! {
    #[test]
    fn the_undo_leaves_what_was_there_before(hosts in proptest::collection::vec(1u8..6, 0..4), keep in any::<bool>(), again in proptest::collection::vec(1u8..6, 1..4)) {
        let mut fake = FakeNftables::new();
        let dedup = |mut hosts: Vec<u8>| { hosts.sort_unstable(); hosts.dedup(); hosts };
        let existing = if keep { ExistingRules::Keep } else { ExistingRules::Replace };
        ensure(&mut fake, &want("other", &[9], existing)).expect("ensured");
        ensure(&mut fake, &want("a", &dedup(hosts), ExistingRules::Keep)).expect("ensured");
        let before = fake.dump();
        let again = if keep { dedup(again) } else { Vec::new() };
        if let Some(change) = ensure(&mut fake, &want("a", &again, existing)).expect("ensured") {
            undo(&mut fake, &change).expect("undone");
        }
        if keep {
            prop_assert_eq!(fake.dump(), before);
        }
        remove(&mut fake, &unwanted("a")).expect("removed");
        prop_assert!(!fake.dump().contains("a, x") && !fake.dump().contains("own-a"), "{}", fake.dump());
        prop_assert!(fake.dump().contains("other, x"), "{}", fake.dump());
    }
}

fn set() -> Set {
    Set { id: SetId { table: table(), name: NftName::fixed("s") }, family: Family::V4 }
}

fn hosts(last: &[u8]) -> Vec<SetElements> {
    vec![SetElements { set: set().id, addresses: last.iter().map(|last| [10, 9, 0, *last].into()).collect() }]
}

/// A chain that asks a set, rules among others, and elements.
fn want_elements(among: &[u8], elements: &[u8]) -> NftRuleset {
    let asks = NftRule::new(
        table().chain("asks"),
        vec![Expression::InSet(PacketEnd::Source, Family::V4, set().id.name), Expression::Verdict(Verdict::Accept)],
    );
    let among = among.iter().map(|host| accept("open", *host, "x")).collect();
    NftRuleset {
        tables: vec![NftTable { id: table(), comment: None }],
        sets: vec![set()],
        chains: vec![
            wanted(NftChain::regular(table().chain("open")), ChainContent::AtLeast(among)),
            wanted(NftChain::regular(table().chain("asks")), ChainContent::Fixed(vec![asks])),
        ],
        elements: hosts(elements),
        ..NftRuleset::default()
    }
}

#[test]
fn only_elements_that_were_absent_are_removed_again() {
    let fake = &mut FakeNftables::new();
    ensure(fake, &want_elements(&[1], &[8])).expect("made");
    let before = fake.dump();
    let change = ensure(fake, &want_elements(&[1], &[8, 9])).expect("made").expect("something was added");
    assert_eq!(change.added, Some(NftRemoval { elements: hosts(&[9]), ..NftRemoval::default() }));
    assert!(fake.dump().contains("elements = { 10.9.0.8,\n\t\t\t     10.9.0.9 }"), "{}", fake.dump());
    undo(fake, &change).expect("taken back");
    assert_eq!(fake.dump(), before);
    undo(fake, &change).expect("gone");
    assert_eq!((ensure(fake, &want_elements(&[1], &[8])).expect("there"), fake.commits()), (None, 3));
}

#[test]
fn a_set_is_not_made_again_where_a_rule_names_it() {
    let fake = &mut FakeNftables::new();
    ensure(fake, &want_elements(&[], &[])).expect("made");
    ensure(fake, &want_elements(&[1], &[])).expect("made");
    let added = fake.last_commit().map(|transaction| transaction.ops.clone());
    assert_eq!(added, Some(vec![NftChange::AddRule(accept("open", 1, "x"))]));
}

#[test]
fn rules_among_others_stay_with_those_and_are_nobodys() {
    let fake = &mut FakeNftables::new();
    assert_eq!(ensure(fake, &want_elements(&[1], &[])).expect("made"), None);
    assert_eq!(ensure(fake, &want_elements(&[2, 1], &[])).expect("made"), None);
    let dump = fake.dump();
    let places = ["10.0.0.1 ", "10.0.0.2 "].map(|address| (dump.matches(address).count(), dump.find(address)));
    assert!(places[0].0 == 1 && places[1].0 == 1 && places[0].1 < places[1].1, "{dump}");
}

#[test]
fn a_rule_among_others_is_added_once_however_many_add_it_at_the_same_time() {
    let fake = &mut FakeNftables::new();
    ensure(fake, &want_elements(&[1], &[])).expect("made");
    fake.before_commit(2, Transaction::from(vec![NftChange::AddRule(accept("open", 2, "x"))]));
    ensure(fake, &want_elements(&[2], &[])).expect("made by another");
    assert_eq!(fake.dump().matches("10.0.0.2 ").count(), 1, "{}", fake.dump());
}

#[test]
fn missing_elements_are_named_and_nothing_is_written() {
    let fake = &mut FakeNftables::new();
    let want = want_elements(&[], &[8, 9]);
    assert_eq!(missing_elements(fake, &want).expect("read"), Some(hosts(&[8, 9]).remove(0)));
    ensure(fake, &want_elements(&[], &[8])).expect("made");
    let commits = fake.commits();
    assert_eq!(missing_elements(fake, &want).expect("read"), Some(hosts(&[9]).remove(0)));
    ensure(fake, &want).expect("made");
    assert_eq!(missing_elements(fake, &want).expect("read"), None);
    assert_eq!(fake.commits(), commits + 1);
}

fn open_hosts(fake: &mut FakeNftables) -> Vec<String> {
    let rules = fake.list(&table().chain("open")).expect("listed").expect("a chain");
    let words = rules.into_iter().filter_map(|rule| rule.expressions).flatten();
    words
        .filter_map(|part| if let Expression::Address(_, _, host) = part { Some(host) } else { None })
        .map(|host| host.address().to_string().replace("10.0.0.", ""))
        .collect()
}

/// An attachment whose rules for some hosts lead to its own chain, before those that lead to the chains of others.
fn want_jumps(id: &str, hosts: &[u8], later: &[&str], existing: ExistingRules) -> NftRuleset {
    let mut want = want(id, &[], existing);
    let own = want.chains[2].chain.id.name.clone();
    let lead = |host: &u8| NftRule {
        expressions: vec![
            accept("open", *host, "").expressions.remove(0),
            Expression::Verdict(Verdict::Jump(own.clone())),
        ],
        ..accept("open", *host, id)
    };
    want.owned[0] = OwnedRules {
        chain: table().chain("open"),
        tag: RuleTag::LeadsTo(own.clone()),
        rules: hosts.iter().map(lead).collect(),
        existing,
        position: RulePosition::before(later.iter().map(|id| format!("own-{id}"))),
    };
    want
}

#[test]
fn rules_of_others_that_come_later_are_moved_behind() {
    for existing in [ExistingRules::Replace, ExistingRules::Keep] {
        let fake = &mut FakeNftables::new();
        for (id, hosts) in [("a", [1, 2]), ("c", [5, 6]), ("d", [7, 8])] {
            ensure(fake, &want_jumps(id, &hosts, &[], existing)).expect("made");
        }
        let before = fake.dump();
        let want = want_jumps("b", &[3, 4], &["c", "d"], existing);
        let change = ensure(fake, &want).expect("made").expect("something");
        assert_eq!(open_hosts(fake), ["1", "2", "3", "4", "5", "6", "7", "8"], "{existing:?}");
        let commits = fake.commits();
        ensure(fake, &want).expect("made");
        assert_eq!(fake.commits(), commits, "all of it is in its place");
        undo(fake, &change).expect("removed");
        assert_eq!(fake.dump(), before);
    }
}

/// nf_tables that notes which rules were looked for in a chain of others.
struct Watched {
    fake: FakeNftables,
    looked_for: Vec<RuleSelection>,
}

impl Nftables for Watched {
    fn list(&mut self, chain: &ChainId) -> Result<Option<Vec<ListedRule>>, NftablesError> {
        assert_ne!(*chain, table().chain("open"), "it has the rules of all");
        self.fake.list(chain)
    }

    fn find(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<ListedRule>>, NftablesError> {
        self.looked_for.extend_from_slice(meant);
        self.fake.find(chain, meant)
    }

    fn held(&mut self, elements: &SetElements) -> Result<Option<Vec<IpAddr>>, NftablesError> {
        self.fake.held(elements)
    }

    fn generation(&mut self) -> Result<Generation, NftablesError> {
        self.fake.generation()
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        self.fake.commit(transaction)
    }
}

#[test]
fn no_rule_is_looked_for_that_would_lead_to_a_chain_that_does_not_exist() {
    let mut watched = Watched { fake: FakeNftables::new(), looked_for: Vec::new() };
    ensure(&mut watched.fake, &want_jumps("a", &[1], &[], ExistingRules::Replace)).expect("made");
    let want = want_jumps("b", &[2], &[], ExistingRules::Replace);
    ensure(&mut watched, &want).expect("made").expect("something");
    assert_eq!((watched.looked_for.len(), open_hosts(&mut watched.fake)), (0, vec!["1".to_owned(), "2".to_owned()]));
    assert_eq!(ensure(&mut watched, &want).expect("made"), None);
    assert_eq!(watched.looked_for, [RuleSelection::Tagged(want.owned[0].tag.clone())], "now there is a chain");
}

#[test]
fn rules_that_lead_to_the_own_chain_keep_their_places() {
    let fake = &mut FakeNftables::new();
    for (id, hosts) in [("a", [1, 2]), ("b", [3, 4])] {
        ensure(fake, &want_jumps(id, &hosts, &[], ExistingRules::Replace)).expect("made");
    }
    for (hosts, later, want) in [
        ([1, 2], &[][..], ["1", "2", "3", "4"]),
        ([1, 5], &[], ["1", "3", "4", "5"]),
        ([1, 5], &["b"], ["1", "5", "3", "4"]),
        ([6, 5], &["b"], ["5", "6", "3", "4"]),
    ] {
        ensure(fake, &want_jumps("a", &hosts, later, ExistingRules::Replace)).expect("made");
        assert_eq!(open_hosts(fake), want, "{hosts:?} before {later:?}");
    }
}
