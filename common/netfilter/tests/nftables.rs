//! Which transactions change nf_tables, for each state of the host.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_netfilter::nftables::{
    BaseChainType, ChainContent, ChainId, Equality, ExistingRules, Expression, Generation, Hook, ListedRule, NftChain,
    NftComment, NftName, NftRemoval, NftRule, NftRuleset, NftTable, Nftables, OwnedRules, PacketEnd, RuleSelection,
    RuleTag, Set, SetElements, SetId, TableFamily, TableId, Transaction, UnwantedNftRules, Verdict, WantedChain,
    WantedRules, ensure, remove,
};
use cni_netfilter::{NetfilterError, NetfilterErrorKind, RulePosition};

/// Tables that do not change, with answers to transactions: `r` for a refusal, `f` for a failure. All others succeed.
/// Handles are the numbers of the rules in their chains.
#[derive(Default)]
struct GivenTables {
    chains: Vec<(ChainId, Vec<NftRule>)>,
    held: Option<Vec<IpAddr>>,
    answers: String,
    scripts: Vec<String>,
    bound: Vec<bool>,
}

impl GivenTables {
    /// The tables in which there is all of something.
    fn of(want: &NftRuleset) -> Self {
        let rules = |content: &ChainContent| match content {
            ChainContent::Open => Vec::new(),
            ChainContent::Fixed(rules) | ChainContent::AtLeast(rules) | ChainContent::Own(rules) => rules.clone(),
        };
        let chains = want.chains.iter().map(|wanted| (wanted.chain.id.clone(), rules(&wanted.content)));
        let mut tables = Self { chains: chains.collect(), ..Self::default() };
        for owned in &want.owned {
            tables.rules(&owned.chain).extend(owned.rules.clone());
        }
        tables
    }

    fn rules(&mut self, chain: &ChainId) -> &mut Vec<NftRule> {
        &mut self.chains.iter_mut().find(|(id, _)| id == chain).expect("a chain").1
    }
}

impl Nftables for GivenTables {
    fn list(&mut self, chain: &ChainId) -> Result<Option<Vec<ListedRule>>, NetfilterError> {
        let listed = |(at, rule): (usize, &NftRule)| ListedRule {
            handle: at as u64 + 1,
            comment: rule.comment.as_ref().map(ToString::to_string),
            expressions: Some(rule.expressions.clone()).filter(|_| !rule.has_words()),
        };
        let found = self.chains.iter().find(|(id, _)| id == chain);
        Ok(found.map(|(_, rules)| rules.iter().enumerate().map(listed).collect()))
    }

    fn find(&mut self, chain: &ChainId, meant: &[RuleSelection]) -> Result<Option<Vec<ListedRule>>, NetfilterError> {
        let wanted = WantedRules::new(meant);
        let found = self.list(chain)?;
        Ok(found.map(|rules| rules.into_iter().filter(|rule| wanted.hold(chain.table.family, rule)).collect()))
    }

    fn held(&mut self, elements: &SetElements) -> Result<Option<Vec<IpAddr>>, NetfilterError> {
        let among = |held: &Vec<IpAddr>| elements.addresses.iter().copied().filter(|ip| held.contains(ip)).collect();
        Ok(self.held.as_ref().map(among))
    }

    fn generation(&mut self) -> Result<Generation, NetfilterError> {
        Ok(Generation(7))
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<(), NetfilterError> {
        self.bound.push(transaction.since.is_some());
        self.scripts.push(short(&transaction.script().expect("a script")));
        let error =
            |kind| Err(NetfilterError::new(kind, Code::Kernel, "failed to do as it was told to".to_owned(), "told"));
        match self.answers.as_bytes().get(self.scripts.len() - 1) {
            Some(b'r') => error(NetfilterErrorKind::Refused),
            Some(b'f') => error(NetfilterErrorKind::Other),
            _ => Ok(()),
        }
    }
}

fn table() -> TableId {
    TableId::fixed(TableFamily::Inet, "t")
}

fn jump(from: &'static str, to: &'static str) -> NftRule {
    NftRule::new(table().chain(from), vec![Expression::Verdict(Verdict::Jump(NftName::fixed(to)))])
}

fn accept(last: u8, comment: &str) -> NftRule {
    let source = Expression::Address(PacketEnd::Source, Equality::Equal, Cidr::host([10, 0, 0, last].into()));
    let rule = NftRule::new(table().chain("open"), vec![source, Expression::Verdict(Verdict::Accept)]);
    rule.with_comment(NftComment::cut(comment))
}

fn chain(name: &'static str, content: ChainContent) -> WantedChain {
    WantedChain { chain: NftChain::regular(table().chain(name)), content }
}

fn tables() -> Vec<NftTable> {
    vec![NftTable { id: table(), comment: None }]
}

/// A base chain that leads to an open one, an own chain, and rules in the open one.
fn want(hosts: &[u8], existing: ExistingRules) -> NftRuleset {
    let base = NftChain::base(table().chain("base"), BaseChainType::Filter, Hook::Forward, 0);
    let closing = NftRule::new(table().chain("own"), vec![Expression::Verdict(Verdict::Drop)]);
    NftRuleset {
        tables: tables(),
        chains: vec![
            chain("open", ChainContent::Open),
            WantedChain { chain: base, content: ChainContent::Fixed(vec![jump("base", "open")]) },
            chain("own", ChainContent::Own(vec![closing])),
        ],
        owned: vec![OwnedRules {
            chain: table().chain("open"),
            tag: RuleTag::Begins("a, ".to_owned()),
            rules: hosts.iter().map(|host| accept(*host, "a, x")).collect(),
            existing,
            position: RulePosition::Back,
        }],
        ..NftRuleset::default()
    }
}

fn among(hosts: &[u8]) -> NftRuleset {
    let rules = hosts.iter().map(|host| accept(*host, "x")).collect();
    NftRuleset { tables: tables(), chains: vec![chain("open", ChainContent::AtLeast(rules))], ..NftRuleset::default() }
}

/// Rules for hosts that lead to the own chain, before those that lead to the chain `b` of another container.
fn leading(hosts: &[u8], is_before: bool, existing: ExistingRules) -> NftRuleset {
    let mut want = want(&[], existing);
    let position = RulePosition::before(is_before.then(|| "b".to_owned()));
    let rules = hosts.iter().map(|host| lead(*host, "own")).collect();
    want.owned[0] =
        OwnedRules { tag: RuleTag::LeadsTo(NftName::fixed("own")), rules, position, ..want.owned[0].clone() };
    want
}

fn lead(host: u8, to: &'static str) -> NftRule {
    let mut rule = accept(host, "j");
    rule.expressions[1] = Expression::Verdict(Verdict::Jump(NftName::fixed(to)));
    rule
}

fn elements(last: &[u8]) -> SetElements {
    let set = SetId { table: table(), name: NftName::fixed("s") };
    SetElements { set, addresses: last.iter().map(|last| [10, 9, 0, *last].into()).collect() }
}

/// A chain that asks a set, and elements of it.
fn asking(last: &[u8]) -> NftRuleset {
    let in_set = Expression::InSet(PacketEnd::Source, Family::V4, NftName::fixed("s"));
    let asks = NftRule::new(table().chain("asks"), vec![in_set, Expression::Verdict(Verdict::Accept)]);
    let sets = vec![Set { id: elements(&[]).set, family: Family::V4 }];
    let chains = vec![chain("asks", ChainContent::Fixed(vec![asks]))];
    NftRuleset { tables: tables(), sets, chains, elements: vec![elements(last)], ..NftRuleset::default() }
}

/// What [`want`] has made, with other rules in its chains, in the order base, open, own.
fn state(hosts: &[NftRule], change: impl FnOnce(&mut GivenTables)) -> GivenTables {
    let mut tables = GivenTables::of(&want(&[], ExistingRules::Replace));
    tables.rules(&table().chain("open")).extend_from_slice(hosts);
    change(&mut tables);
    tables
}

fn as_is(_: &mut GivenTables) {}

/// Commands in one line, without what is the same in most of them.
fn short(text: &str) -> String {
    let text = text.trim_end().replace("\n  ", "|").replace('\n', "|").replace(" inet t ", " ");
    text.replace(" comment \"a, x\"", "").replace("ip saddr 10.0.0.", "from ")
}

#[test]
fn what_is_there_is_mended_and_only_what_is_the_containers_is_undone() {
    use ExistingRules::{Keep, Replace};
    let held =
        |addresses: &[u8]| GivenTables { held: Some(elements(addresses).addresses), ..GivenTables::of(&asking(&[])) };
    let [own, base] = [table().chain("own"), table().chain("base")];
    let led = [lead(1, "own"), lead(2, "own"), lead(3, "b")];
    let mut blocks = include_str!("nftables.txt").split("\n\n").skip(1);
    for (name, mut tables, want) in [
        ("nothing is there", GivenTables::default(), want(&[1, 2], Replace)),
        ("all of it is there", state(&[accept(1, "a, x")], as_is), want(&[1], Replace)),
        ("all that is kept is there", state(&[accept(1, "a, x")], as_is), want(&[1], Keep)),
        (
            "rules with the tag are stale",
            state(&[accept(1, "a, x"), accept(7, "b, x"), accept(2, "a, x")], as_is),
            want(&[2, 3], Replace),
        ),
        ("rules of another interface stay", state(&[accept(1, "a, x"), accept(2, "a, x")], as_is), want(&[2, 3], Keep)),
        (
            "the own chain was changed",
            state(&[], |tables| tables.rules(&own).push(jump("own", "open"))),
            want(&[], Replace),
        ),
        (
            "a shared chain was changed",
            state(&[], |tables| tables.rules(&base).push(jump("base", "own"))),
            want(&[], Replace),
        ),
        ("one of the rules among others is there", state(&[accept(1, "x")], as_is), among(&[2, 1])),
        ("there is no set", GivenTables::default(), asking(&[8])),
        ("one element is there", held(&[8]), asking(&[8, 9])),
        ("a rule names the set", GivenTables::of(&asking(&[])), asking(&[8])),
        ("all rules lead to the own chain", state(&led, as_is), leading(&[1, 2], false, Replace)),
        ("one rule leads to the own chain", state(&led, as_is), leading(&[1, 5], false, Replace)),
        ("others come later", state(&led, as_is), leading(&[5, 6], true, Replace)),
        (
            "others come first that should come later",
            state(&[lead(3, "b"), lead(1, "own")], as_is),
            leading(&[1], true, Keep),
        ),
        ("others come later already", state(&led, as_is), leading(&[1, 2], true, Keep)),
    ] {
        let change = ensure(&mut tables, &want).expect("ensured");
        let mut lines = vec![name.to_owned()];
        lines.extend(tables.bound.iter().any(|bound| *bound).then(|| "bound".to_owned()));
        lines.extend(tables.scripts.iter().flat_map(|script| script.split('|')).map(str::to_owned));
        lines.extend(change.map(|undo| format!("undo {}", short(&undo.to_string()))));
        assert_eq!(lines, blocks.next().expect(name).lines().collect::<Vec<_>>());
    }
    assert_eq!(blocks.next(), None);
}

#[test]
fn what_others_change_in_between_is_read_again_and_a_failure_is_no_refusal() {
    let stale = |answers: &str| GivenTables { answers: answers.to_owned(), ..state(&[accept(1, "a, x")], as_is) };
    for (answers, commits, is_done) in
        [("r".repeat(19), 20, true), ("r".repeat(20), 20, false), ("rf".to_owned(), 2, false)]
    {
        let [mut ensured, mut removed] = [(); 2].map(|()| stale(&answers));
        let change = ensure(&mut ensured, &want(&[2], ExistingRules::Replace)).map(drop);
        let removal = remove(&mut removed, &unwanted());
        for (tables, done) in [(ensured, change), (removed, removal)] {
            assert_eq!((tables.scripts.len(), done.is_ok()), (commits, is_done), "{answers}");
            let unbound = tables.bound.iter().position(|bound| !bound);
            assert_eq!(unbound, (commits == 20).then_some(19), "programs that never pause do not keep stale rules");
        }
    }
    let mut kept = stale(&"r".repeat(20));
    let error = ensure(&mut kept, &want(&[2], ExistingRules::Keep)).expect_err("refused");
    assert_eq!((error.to_string(), error.details()), ("failed to do as it was told to".to_owned(), "told".to_owned()));
    assert!(kept.bound.iter().all(|bound| *bound), "no rule is ever added twice");
}

/// The rules with the tag, a chain, another that does not exist, and two elements.
fn unwanted() -> NftRemoval {
    let which = RuleSelection::Tagged(RuleTag::Begins("a, ".to_owned()));
    let rules = vec![UnwantedNftRules { chain: table().chain("open"), which }];
    NftRemoval { rules, chains: vec![table().chain("own"), table().chain("none")], elements: vec![elements(&[8, 9])] }
}

#[test]
fn what_is_the_containers_is_removed_and_absence_takes_no_transaction() {
    let held = Some(elements(&[9]).addresses);
    let there = GivenTables { held, ..state(&[accept(7, "b, x"), accept(1, "a, x"), accept(2, "a, x")], as_is) };
    for (mut tables, script) in [
        (there, "delete element s { 10.9.0.9 }|delete rule open handle 2|delete rule open handle 3|delete chain own"),
        (GivenTables::default(), ""),
    ] {
        remove(&mut tables, &unwanted()).expect("removed");
        assert_eq!(tables.scripts.concat(), script);
        assert!(tables.bound.iter().all(|bound| *bound), "a handle may be another rule's by then");
    }
}
