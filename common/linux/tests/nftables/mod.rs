//! nf_tables against the real kernel, each test in namespaces of its own. `nft` is the witness.

mod handles;
mod host;
mod kept;
mod sets;
mod wanted;

use std::rc::Rc;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_kernel::netns::{Netns, NetnsScope};
use cni_linux::nftables::NetlinkNftables;
use cni_netfilter::Proto;
use cni_netfilter::nftables::{
    ChainContent, Direction, Equality, Expression, NftChain, NftChange, NftComment, NftName, NftRemoval, NftRule,
    NftRuleset, NftTable, NftUndo, Nftables, PacketEnd, Set, SetElements, SetId, TableFamily, TableId, Transaction,
    TransactionError, Verdict, ensure, missing, remove, undo,
};
use cni_testkit::FakeNftables;
use nix::sched::{CloneFlags, unshare};

use host::{alone, handles, instructions, nft, nftables, ruleset};
use wanted::{cidr, masquerade, portmap, remove_masquerade, remove_spoof, spoof};

const FAMILIES: [TableFamily; 4] = [TableFamily::Ip, TableFamily::Ip6, TableFamily::Inet, TableFamily::Bridge];

fn chain_of(family: TableFamily) -> cni_netfilter::nftables::ChainId {
    TableId::fixed(family, "t").chain("c")
}

/// Expressions that mean something in tables of a family, each as the body of a rule.
fn bodies(table: TableFamily) -> Vec<Vec<Expression>> {
    let name = |text| IfName::parse(text).expect("a name");
    let accept = || Expression::Verdict(Verdict::Accept);
    let families: &[Family] = match table {
        TableFamily::Ip => &[Family::V4],
        TableFamily::Ip6 => &[Family::V6],
        TableFamily::Inet | TableFamily::Bridge => &Family::ALL,
    };
    let mut bodies = vec![
        vec![accept()],
        vec![Expression::Verdict(Verdict::Drop)],
        vec![Expression::Verdict(Verdict::Return)],
        vec![Expression::Verdict(Verdict::Jump(NftName::fixed("other")))],
        vec![Expression::Verdict(Verdict::Goto(NftName::fixed("other")))],
        vec![Expression::Interface(Direction::In, Equality::Equal, name("eth0.100")), accept()],
        vec![Expression::Interface(Direction::Out, Equality::Other, name("abcdefghijklmno")), accept()],
        vec![Expression::Interface(Direction::In, Equality::Other, name("eth*")), accept()],
        vec![Expression::EtherSource("02:00:00:00:00:01".parse().expect("MAC")), accept()],
    ];
    bodies.extend(Proto::ALL.map(|proto| vec![Expression::Port(proto, 8080), accept()]));
    for family in families {
        bodies.extend(address_bodies(*family));
    }
    if table != TableFamily::Bridge {
        bodies.push(vec![Expression::LocalDestination, accept()]);
        bodies.push(vec![Expression::EstablishedRelated, accept()]);
        bodies.push(vec![Expression::DestinationTranslated, accept()]);
        bodies.extend(families.iter().flat_map(|family| nat_bodies(*family)));
    }
    bodies
}

fn address_bodies(family: Family) -> Vec<Vec<Expression>> {
    let accept = || Expression::Verdict(Verdict::Accept);
    let (one, prefixes): (Cidr, &[u8]) = match family {
        Family::V4 => (cidr("10.1.2.200/32"), &[32, 24, 20, 8, 4, 1, 0]),
        Family::V6 => (cidr("2001:db8:1:2:3:4:5:ff/128"), &[128, 64, 61, 48, 8, 7, 0]),
    };
    let in_set = |end| Expression::InSet(end, family, NftName::fixed(set_name(family)));
    let mut bodies = vec![
        vec![in_set(PacketEnd::Source), accept()],
        vec![in_set(PacketEnd::Destination), accept()],
        vec![
            Expression::Port(Proto::Udp, 53),
            Expression::Address(PacketEnd::Source, Equality::Equal, one),
            Expression::Address(PacketEnd::Destination, Equality::Equal, one),
            accept(),
        ],
    ];
    for (index, prefix) in prefixes.iter().enumerate() {
        let network = Cidr::truncated(one.address(), *prefix).network();
        let (end, is) = if index % 2 == 0 {
            (PacketEnd::Source, Equality::Equal)
        } else {
            (PacketEnd::Destination, Equality::Other)
        };
        bodies.push(vec![Expression::Address(end, is, network), accept()]);
    }
    bodies
}

fn nat_bodies(family: Family) -> [Vec<Expression>; 3] {
    let to = match family {
        Family::V4 => cidr("10.88.0.5/32").address(),
        Family::V6 => cidr("fd00:88::5/128").address(),
    };
    [
        vec![Expression::Port(Proto::Tcp, 80), Expression::Dnat(to, Some(8080))],
        vec![Expression::Port(Proto::Sctp, 80), Expression::Dnat(to, None)],
        vec![Expression::Port(Proto::Udp, 80), Expression::Masquerade],
    ]
}

const fn set_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "set4",
        Family::V6 => "set6",
    }
}

/// A table with sets, and a rule of every kind.
fn everything(family: TableFamily) -> Transaction {
    let chain = chain_of(family);
    let other = chain.table.chain("other");
    let mut ops = vec![
        NftChange::AddTable(NftTable { id: chain.table.clone(), comment: Some(NftComment::cut("a table's")) }),
        NftChange::AddChain(NftChain::regular(other)),
        NftChange::AddChain(NftChain {
            comment: Some(NftComment::cut("a chain's")),
            ..NftChain::regular(chain.clone())
        }),
    ];
    for family in Family::ALL {
        let id = SetId { table: chain.table.clone(), name: NftName::fixed(set_name(family)) };
        ops.push(NftChange::AddSet(Set { id: id.clone(), family }));
        let addresses = vec![family.loopback(), family.multicast().address()];
        ops.push(NftChange::AddElements(SetElements { set: id, addresses }));
    }
    ops.extend(bodies(family).into_iter().map(|body| NftChange::AddRule(NftRule::new(chain.clone(), body))));
    let comment = NftComment::cut(&"ü".repeat(64));
    let commented = NftRule::new(chain, vec![Expression::Verdict(Verdict::Accept)]).with_comment(comment);
    ops.push(NftChange::AddRule(commented));
    Transaction::from(ops)
}

#[test]
fn the_kernel_holds_the_same_instructions_as_when_nft_writes_the_text() {
    for family in FAMILIES {
        let transaction = everything(family);
        let ours = alone(|| {
            nftables().commit(&transaction).expect("committed");
            (ruleset(), instructions())
        });
        let theirs = alone(|| {
            nft(&["-f", "-"], &transaction.script().expect("a script"));
            (ruleset(), instructions())
        });
        assert_eq!(ours.0, theirs.0, "{family}");
        assert_eq!(ours.1, theirs.1, "{family}");
    }
}

#[test]
fn a_rule_is_listed_as_its_text_and_read_back_as_what_it_was() {
    for family in FAMILIES {
        alone(|| {
            let transaction = everything(family);
            let rules: Vec<&NftRule> = transaction
                .ops
                .iter()
                .filter_map(|op| if let NftChange::AddRule(rule) = op { Some(rule) } else { None })
                .collect();
            let mut nftables = nftables();
            nftables.commit(&transaction).expect("committed");
            let text = nft(&["list", "chain", family.as_str(), "t", "c"], "");
            let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("\t\t")).skip(1).collect();
            assert_eq!(lines, rules.iter().map(|rule| rule.to_string()).collect::<Vec<_>>());
            let listed = nftables.list(&chain_of(family)).expect("listed").expect("there");
            assert_eq!(listed.len(), rules.len());
            for (found, rule) in listed.iter().zip(&rules) {
                assert_eq!(found.expressions.as_ref(), Some(&rule.expressions), "{rule}");
                assert!(found.is(rule), "{rule}: {found:?}");
            }
        });
    }
}

#[test]
fn rules_that_others_wrote_are_read_as_far_as_they_have_a_type() {
    alone(|| {
        let script = "add table ip t
add chain ip t c
add rule ip t c counter accept
add rule ip t c ip saddr 10.0.0.1-10.0.0.9 accept
add rule ip t c iifname \"eth*\" accept
add rule ip t c tcp sport 80 accept
add rule ip t c meta l4proto tcp ip saddr 10.0.0.1 accept
add rule ip t c ip saddr 10.0.0.1 accept comment \"mine\"
";
        nft(&["-f", "-"], script);
        let listed = nftables().list(&chain_of(TableFamily::Ip)).expect("listed").expect("there");
        let texts: Vec<_> = listed.iter().map(|rule| rule.expressions.as_ref().map(Vec::len)).collect();
        assert_eq!(texts, [None, None, None, None, None, Some(2)]);
        assert_eq!(listed.last().and_then(|rule| rule.comment.as_deref()), Some("mine"));
        let numbers = handles();
        for rule in &listed {
            assert!(numbers.contains(&format!("# handle {}\n", rule.handle)), "{numbers}");
        }
    });
}

/// What a change leaves, by netlink here and by the reference's scripts there.
fn same(want: &NftRuleset, scripts: &[(&[&str], String)]) {
    let ours = alone(|| {
        ensure(&mut nftables(), want).expect("ensured").expect("something to undo");
        assert_eq!(missing(&mut nftables(), want).expect("looked"), None);
        (ruleset(), instructions())
    });
    let theirs = alone(|| {
        for (arguments, script) in scripts {
            nft(arguments, script);
        }
        let seen = (ruleset(), instructions());
        let before = handles();
        assert_eq!(missing(&mut nftables(), want).expect("looked"), None);
        assert_eq!(ensure(&mut nftables(), want).expect("ensured"), None);
        assert_eq!(handles(), before);
        seen
    });
    assert_eq!(ours.0, theirs.0);
    assert_eq!(ours.1, theirs.1);
}

#[test]
fn a_masquerade_is_the_references() {
    same(&masquerade(4), &[(&["-f", "-"], wanted::masquerade_script(4))]);
}

#[test]
fn port_mappings_are_the_references() {
    for family in Family::ALL {
        same(&portmap(family, &[]), &[(&["-f", "-"], wanted::portmap_script(family, ""))]);
    }
}

#[test]
fn a_spoof_check_is_the_references() {
    let scripts = wanted::spoof_json(4).map(|json| (&["-j", "-f", "-"][..], json));
    same(&spoof(4), &scripts);
}

#[test]
fn a_users_words_take_nft_once_and_then_no_more() {
    let words = ["ip", "saddr", "!=", "192.0.2.0/24"];
    let want = portmap(Family::V4, &words);
    let ours = alone(|| {
        let error = ensure(&mut nftables(), &want).expect_err("no nft");
        let reported = r#"failed to locate nft, which must interpret the rule "ip saddr != 192.0.2.0/24 fib daddr type local jump hostports_all": no such program in the directories of PATH"#;
        assert_eq!((error.to_string(), error.code()), (reported.to_owned(), Code::Program));
        assert_eq!(error.details(), "PATH=/nonexistent");
        assert_eq!(ruleset(), "");
        ensure(&mut NetlinkNftables::new(), &want).expect("ensured").expect("something to undo");
        assert_eq!(ensure(&mut nftables(), &want).expect("all there"), None);
        ruleset()
    });
    let theirs = alone(|| {
        nft(&["-f", "-"], &wanted::portmap_script(Family::V4, &words.join(" ")));
        ruleset()
    });
    assert_eq!(ours, theirs);
}

#[test]
fn words_that_nft_refuses_change_nothing_and_are_reported() {
    alone(|| {
        let want = portmap(Family::V4, &["ip", "nonsense"]);
        let error = ensure(&mut NetlinkNftables::new(), &want).expect_err("refused");
        assert!(error.to_string().ends_with("nft -f - failed, exit status: 1"), "{error}");
        assert!(error.details().contains("nonsense"), "{}", error.details());
        assert_eq!(ruleset(), "");
    });
}

/// Carries out the same changes in memory and in the kernel.
struct Both {
    fake: FakeNftables,
    kernel: NetlinkNftables,
}

impl Both {
    fn new() -> Self {
        Self { fake: FakeNftables::new(), kernel: nftables() }
    }

    fn ensure(&mut self, want: &NftRuleset) -> Option<NftUndo> {
        let undo = ensure(&mut self.kernel, want).expect("ensured");
        let in_memory = ensure(&mut self.fake, want).expect("ensured");
        // The kernel has cleared the host bits of what was replaced.
        let outline = |undo: &Option<NftUndo>| undo.clone().map(|undo| (undo.replaced.is_some(), undo.added));
        assert_eq!(outline(&in_memory), outline(&undo));
        assert_eq!(ruleset(), self.fake.dump());
        undo
    }

    fn undo(&mut self, change: &NftUndo) {
        undo(&mut self.kernel, change).expect("undone");
        undo(&mut self.fake, change).expect("undone");
        assert_eq!(ruleset(), self.fake.dump());
    }

    fn remove(&mut self, unwanted: &NftRemoval) {
        remove(&mut self.kernel, unwanted).expect("removed");
        remove(&mut self.fake, unwanted).expect("removed");
        assert_eq!(ruleset(), self.fake.dump());
    }
}

#[test]
fn the_fake_is_what_the_kernel_is() {
    alone(|| {
        let mut both = Both::new();
        both.remove(&remove_spoof(1));
        both.remove(&remove_masquerade(1));
        let undo = both.ensure(&spoof(1)).expect("something to undo");
        both.ensure(&masquerade(1));
        both.ensure(&portmap(Family::V6, &[]));
        both.ensure(&masquerade(2));
        both.ensure(&spoof(2));
        let mut moved = masquerade(2);
        moved.owned[0].rules.pop();
        let before = ruleset();
        let replaced = both.ensure(&moved).expect("something to undo");
        both.undo(&replaced);
        assert_eq!(ruleset(), before);
        both.ensure(&moved);
        both.ensure(&moved);
        both.undo(&undo);
        both.remove(&remove_spoof(2));
        both.remove(&remove_spoof(2));
        both.remove(&remove_masquerade(2));
        let text = ruleset();
        assert!(text.contains("10.1.2.1 ") && !text.contains("10.1.2.2 ") && !text.contains("cni-br-iface"), "{text}");
    });
}

#[test]
fn what_a_reload_of_rules_took_is_mended_by_the_next_attachment() {
    alone(|| {
        let mut nftables = nftables();
        ensure(&mut nftables, &masquerade(1)).expect("ensured");
        ensure(&mut nftables, &masquerade(2)).expect("ensured");
        let right = ruleset();
        nft(&["flush", "ruleset"], "");
        assert!(missing(&mut nftables, &masquerade(1)).expect("looked").is_some());
        ensure(&mut nftables, &masquerade(1)).expect("ensured");
        ensure(&mut nftables, &masquerade(2)).expect("ensured");
        assert_eq!(ruleset(), right);
        nft(&["insert rule inet cni_plugins_masquerade postrouting counter"], "");
        ensure(&mut nftables, &masquerade(1)).expect("ensured");
        assert_eq!(ruleset(), right);
    });
}

#[test]
fn many_at_once_lose_nothing_and_leave_nothing() {
    alone(|| {
        let numbers: Vec<u8> = (1..=24).collect();
        let at_once = |work: &(dyn Fn(u8) + Sync)| {
            std::thread::scope(|scope| numbers.iter().for_each(|&number| drop(scope.spawn(move || work(number)))));
        };
        at_once(&|number| {
            ensure(&mut nftables(), &masquerade(number)).expect("ensured");
            ensure(&mut nftables(), &spoof(number)).expect("ensured");
        });
        let text = ruleset();
        assert_eq!(text.matches("goto masq_checks").count(), 1, "{text}");
        assert_eq!(text.matches(" masquerade comment ").count(), 2 * numbers.len(), "{text}");
        assert_eq!(text.matches("iifname").count(), numbers.len(), "{text}");
        at_once(&|number| {
            remove(&mut nftables(), &remove_masquerade(number)).expect("removed");
            remove(&mut nftables(), &remove_spoof(number)).expect("removed");
            remove(&mut nftables(), &remove_spoof(1)).expect("removed by many");
        });
        let text = ruleset();
        assert!(!text.contains("comment \"net-") && !text.contains("cni-br-iface"), "{text}");
    });
}

/// The netfilter sockets of the namespace.
fn sockets() -> usize {
    let table = std::fs::read_to_string("/proc/thread-self/net/netlink").expect("the kernel lists them");
    table.lines().filter(|line| line.split_whitespace().nth(1) == Some("12")).count()
}

/// The kernel closes them, and not this process. None may stay.
#[test]
fn sockets_are_closed_when_their_batches_are_done() {
    alone(|| {
        let before = sockets();
        for _ in 0..30 {
            let mut nftables = nftables();
            ensure(&mut nftables, &masquerade(1)).expect("ensured");
            remove(&mut nftables, &remove_masquerade(1)).expect("removed");
            assert!(sockets() > before, "this one is open");
        }
        let started = std::time::Instant::now();
        while sockets() > before {
            assert!(started.elapsed() < std::time::Duration::from_secs(60), "{} sockets stay", sockets() - before);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    });
}

#[test]
fn thousands_of_changes_are_one_transaction() {
    alone(|| {
        let chain = chain_of(TableFamily::Ip);
        let set = SetId { table: chain.table.clone(), name: NftName::fixed("s") };
        let elements = |numbers: std::ops::Range<u32>| {
            let address = |number| std::net::Ipv4Addr::from(0x0a00_0000 + number).into();
            SetElements { set: set.clone(), addresses: numbers.map(address).collect() }
        };
        let mut ops = vec![
            NftChange::AddTable(NftTable { id: chain.table.clone(), comment: None }),
            NftChange::AddChain(NftChain::regular(chain.clone())),
            NftChange::AddSet(Set { id: set.clone(), family: Family::V4 }),
            NftChange::AddElements(elements(0..5000)),
        ];
        let rule = |port| NftRule::new(chain.clone(), vec![Expression::Port(Proto::Tcp, port)]);
        ops.extend((0..5000).map(rule).map(NftChange::AddRule));
        let mut nftables = nftables();
        nftables.commit(&Transaction::from(ops)).expect("committed");
        assert_eq!(nftables.list(&chain).expect("listed").expect("there").len(), 5000);
        nftables.commit(&Transaction::from(vec![NftChange::DeleteElements(elements(1..5000))])).expect("committed");
        assert!(ruleset().contains("elements = { 10.0.0.0 }"), "{}", nft(&["list", "set", "ip", "t", "s"], ""));
    });
}

#[test]
fn a_refusal_names_the_change_and_the_kernels_word() {
    alone(|| {
        let chain = chain_of(TableFamily::Bridge);
        let table = NftChange::AddTable(NftTable { id: chain.table.clone(), comment: None });
        let add = NftChange::AddChain(NftChain::regular(chain.clone()));
        let delete = NftChange::DeleteRule(chain.clone(), 77);
        let refused = nftables().commit(&Transaction::from(vec![table, add, delete]));
        let Err(TransactionError::Refused(error)) = refused else { panic!("not refused: {refused:?}") };
        assert_eq!(error.to_string(), "failed to delete rule bridge t c handle 77");
        assert_eq!((error.details(), error.code()), ("no such thing".to_owned(), Code::Kernel));
        assert_eq!(ruleset(), "");
        assert_eq!(nftables().list(&chain).expect("listed"), None);
    });
}

#[test]
fn a_chain_that_a_foreign_rule_leads_to_is_reported_and_nothing_is_changed() {
    alone(|| {
        let mut nftables = nftables();
        ensure(&mut nftables, &spoof(1)).expect("ensured");
        nft(&["add rule bridge nat PREROUTING jump cni-br-iface-id1-eth0 comment \"foreign\""], "");
        let before = handles();
        let error = remove(&mut nftables, &remove_spoof(1)).expect_err("in use");
        assert_eq!(error.to_string(), "failed to delete chain bridge nat cni-br-iface-id1-eth0");
        assert_eq!(error.details(), "device or resource busy");
        assert_eq!(handles(), before);
    });
}

#[test]
fn the_policy_of_a_chain_that_is_there_stays() {
    alone(|| {
        nft(
            &["-f", "-"],
            "add table bridge nat\nadd chain bridge nat PREROUTING { type filter hook prerouting priority -300 ; policy drop ; }\n",
        );
        ensure(&mut nftables(), &spoof(1)).expect("ensured");
        assert!(ruleset().contains("policy drop;"), "{}", ruleset());
        let own = spoof(1).chains.iter().filter(|wanted| matches!(wanted.content, ChainContent::Own(_))).count();
        assert_eq!(own, 2);
    });
}

#[test]
fn the_tables_of_another_namespace_are_made_inside_it_with_and_without_nft() {
    alone(|| {
        let there = Rc::new(Netns::own().expect("a namespace"));
        unshare(CloneFlags::CLONE_NEWNET).expect("another namespace; this test needs root");
        let mut elsewhere = NetlinkNftables::new().within(NetnsScope::Other(Rc::clone(&there)));
        ensure(&mut elsewhere, &masquerade(1)).expect("by netlink");
        ensure(&mut elsewhere, &portmap(Family::V4, &["ip", "saddr", "!=", "192.0.2.0/24"])).expect("by nft");
        let text = there.inside(ruleset).expect("entered");
        assert!(text.contains("masquerade") && text.contains("192.0.2.0/24"), "{text}");
        assert_eq!(ruleset(), "");
    });
}
