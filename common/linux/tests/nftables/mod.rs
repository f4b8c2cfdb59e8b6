//! nf_tables against the real kernel, each test in namespaces of its own. `nft` is the witness.

mod host;
pub mod wanted;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_linux::nftables::NetlinkNftables;
use cni_netfilter::nftables::{
    ChainContent, ChainId, Direction, Equality, Expression, NftChain, NftChange, NftComment, NftName, NftRule,
    NftRuleset, NftTable, Nftables, PacketEnd, Set, SetElements, SetId, TableFamily, TableId, Transaction, Verdict,
    WantedChain, ensure, missing, missing_elements, remove,
};
use cni_netfilter::{NetfilterError, Proto};

use host::{alone, handles, instructions, nft, nftables, ruleset};
use wanted::{cidr, masquerade, remove_masquerade, spoof};

fn chain_of(family: TableFamily) -> ChainId {
    TableId::fixed(family, "t").chain("c")
}

/// Expressions that mean something in tables of a family, each as the body of a rule.
fn bodies(table: TableFamily) -> Vec<Vec<Expression>> {
    use Expression::{Address, Dnat, EtherSource, InSet, Interface, Port};
    let name = |text| IfName::parse(text).expect("a name");
    let families: &[Family] = match table {
        TableFamily::Ip => &[Family::V4],
        TableFamily::Ip6 => &[Family::V6],
        TableFamily::Inet | TableFamily::Bridge => &Family::ALL,
    };
    let mut conditions = vec![
        vec![Interface(Direction::In, Equality::Equal, name("eth0.100"))],
        vec![Interface(Direction::Out, Equality::Other, name("abcdefghijklmno"))],
        vec![Interface(Direction::In, Equality::Other, name("eth*"))],
        vec![EtherSource("02:00:00:00:00:01".parse().expect("MAC"))],
    ];
    conditions.extend(Proto::ALL.map(|proto| vec![Port(proto, 8080)]));
    let other = || NftName::fixed("other");
    let verdicts = [Verdict::Accept, Verdict::Drop, Verdict::Return, Verdict::Jump(other()), Verdict::Goto(other())];
    let mut bodies: Vec<_> = verdicts.map(|verdict| vec![Expression::Verdict(verdict)]).to_vec();
    if table != TableFamily::Bridge {
        use Expression::{DestinationTranslated, EstablishedRelated, LocalDestination};
        conditions.extend([LocalDestination, EstablishedRelated, DestinationTranslated].map(|one| vec![one]));
    }
    for family in families {
        let (one, to, prefixes): (Cidr, Cidr, &[u8]) = match family {
            Family::V4 => (cidr("10.1.2.200/32"), cidr("10.88.0.5/32"), &[32, 24, 20, 8, 4, 1, 0]),
            Family::V6 => (cidr("2001:db8:1:2:3:4:5:ff/128"), cidr("fd00:88::5/128"), &[128, 64, 61, 48, 8, 7, 0]),
        };
        let ends = [PacketEnd::Source, PacketEnd::Destination];
        conditions.extend(ends.map(|end| vec![InSet(end, *family, set_of(*family))]));
        let both = ends.map(|end| Address(end, Equality::Equal, one));
        conditions.push([Port(Proto::Udp, 53)].into_iter().chain(both).collect());
        for (prefix, at) in prefixes.iter().zip([0, 1].into_iter().cycle()) {
            let network = Cidr::truncated(one.address(), *prefix).network();
            conditions.push(vec![Address(ends[at], [Equality::Equal, Equality::Other][at], network)]);
        }
        if table != TableFamily::Bridge {
            bodies.extend([
                vec![Port(Proto::Tcp, 80), Dnat(to.address(), Some(8080))],
                vec![Port(Proto::Sctp, 80), Dnat(to.address(), None)],
                vec![Port(Proto::Udp, 80), Expression::Masquerade],
            ]);
        }
    }
    let accept = || Expression::Verdict(Verdict::Accept);
    bodies.extend(conditions.into_iter().map(|body| body.into_iter().chain([accept()]).collect()));
    bodies
}

fn set_of(family: Family) -> NftName {
    NftName::fixed(match family {
        Family::V4 => "set4",
        Family::V6 => "set6",
    })
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
        let id = SetId { table: chain.table.clone(), name: set_of(family) };
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
fn the_kernel_holds_the_same_as_when_nft_writes_the_text_and_each_rule_is_read_back_as_what_it_was() {
    for family in [TableFamily::Ip, TableFamily::Ip6, TableFamily::Inet, TableFamily::Bridge] {
        let transaction = everything(family);
        let rules: Vec<&NftRule> = transaction
            .ops
            .iter()
            .filter_map(|op| if let NftChange::AddRule(rule) = op { Some(rule) } else { None })
            .collect();
        let ours = alone(|| {
            nftables().commit(&transaction).expect("committed");
            let text = nft(&["list", "chain", family.as_str(), "t", "c"], "");
            let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("\t\t")).skip(1).collect();
            assert_eq!(lines, rules.iter().map(|rule| rule.to_string()).collect::<Vec<_>>());
            let listed = nftables().list(&chain_of(family)).expect("listed").expect("there");
            assert_eq!(listed.len(), rules.len());
            for (found, rule) in listed.iter().zip(&rules) {
                assert_eq!(found.expressions.as_ref(), Some(&rule.expressions), "{rule}");
                assert!(found.is(rule), "{rule}: {found:?}");
            }
            [ruleset(), instructions()]
        });
        let theirs = alone(|| {
            nft(&["-f", "-"], &transaction.script().expect("a script"));
            [ruleset(), instructions()]
        });
        assert_eq!(ours, theirs, "{family}");
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

#[test]
fn a_users_words_take_nft_and_what_it_refuses_changes_nothing() {
    let words = |words: &[&str]| {
        let mut want = spoof(1);
        let words = words.iter().map(|&word| word.to_owned()).collect();
        want.owned[0].rules[0].expressions.insert(0, Expression::Raw(words));
        want
    };
    alone(|| {
        let want = words(&["ether", "type", "arp"]);
        let error = ensure(&mut nftables(), &want).expect_err("no nft");
        assert!(
            error.to_string().starts_with(r#"failed to locate nft, which must interpret the rule "ether type arp"#)
        );
        assert_eq!((error.code(), error.details().as_str()), (Code::Program, "PATH=/nonexistent"));
        let error = ensure(&mut NetlinkNftables::new(), &words(&["ether", "nonsense"])).expect_err("refused");
        assert!(error.to_string().ends_with("nft -f - failed, exit status: 1"), "{error}");
        assert!(error.details().contains("nonsense"), "{}", error.details());
        assert_eq!(ruleset(), "");
        ensure(&mut NetlinkNftables::new(), &want).expect("ensured").expect("something to undo");
        assert_eq!(missing(&mut nftables(), &want).expect("looked"), None);
        assert!(ruleset().contains("ether type arp"), "{}", ruleset());
    });
}

/// Rules that all add to the same chain, and elements of a set.
#[test]
fn many_at_once_add_each_rule_once_and_lose_no_element_and_a_bound_transaction_is_refused_after_any_change() {
    let table = chain_of(TableFamily::Inet).table;
    let set = SetId { table: table.clone(), name: NftName::fixed("s") };
    let want = |number: u8| {
        let link = IfName::parse(&format!("br{}", number % 3)).expect("a name");
        let by_link = Expression::Interface(Direction::In, Equality::Equal, link);
        let rule = NftRule::new(table.chain("links"), vec![by_link, Expression::Verdict(Verdict::Return)]);
        let (chain, content) = (NftChain::regular(table.chain("links")), ChainContent::AtLeast(vec![rule]));
        NftRuleset {
            tables: vec![NftTable { id: table.clone(), comment: None }],
            sets: vec![Set { id: set.clone(), family: Family::V4 }],
            chains: vec![WantedChain { chain, content }],
            elements: vec![SetElements { set: set.clone(), addresses: vec![[10, 0, 0, number].into()] }],
            ..NftRuleset::default()
        }
    };
    alone(|| {
        std::thread::scope(|scope| {
            (1..=24).for_each(|n| drop(scope.spawn(move || ensure(&mut nftables(), &want(n)).expect("ensured"))));
        });
        let text = ruleset();
        assert_eq!(text.matches("iifname").count(), 3, "{text}");
        for number in 1..=24 {
            assert_eq!(missing_elements(&mut nftables(), &want(number)).expect("read"), None, "{text}");
        }
        let mut nftables = nftables();
        let since = Some(nftables.generation().expect("told"));
        let add =
            |name| vec![NftChange::AddTable(NftTable { id: TableId::fixed(TableFamily::Ip, name), comment: None })];
        nftables.commit(&Transaction { ops: add("first"), since }).expect("nothing has changed");
        let refused = nftables.commit(&Transaction { ops: add("second"), since });
        assert!(
            refused.as_ref().is_err_and(NetfilterError::is_refusal) && !ruleset().contains("second"),
            "{refused:?}"
        );
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
fn thousands_of_elements_are_one_transaction() {
    alone(|| {
        let table = chain_of(TableFamily::Ip).table;
        let set = SetId { table: table.clone(), name: NftName::fixed("s") };
        let elements = |numbers: std::ops::Range<u32>| {
            let address = |number| std::net::Ipv4Addr::from(0x0a00_0000 + number).into();
            SetElements { set: set.clone(), addresses: numbers.map(address).collect() }
        };
        let ops = vec![
            NftChange::AddTable(NftTable { id: table, comment: None }),
            NftChange::AddSet(Set { id: set.clone(), family: Family::V4 }),
            NftChange::AddElements(elements(0..5000)),
            NftChange::DeleteElements(elements(1..5000)),
        ];
        nftables().commit(&Transaction::from(ops)).expect("committed");
        assert!(ruleset().contains("elements = { 10.0.0.0 }"), "{}", ruleset());
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
        let error = refused.expect_err("refused");
        assert!(error.is_refusal(), "not refused: {error:?}");
        assert_eq!(error.to_string(), "failed to delete rule bridge t c handle 77");
        assert_eq!((error.details(), error.code()), ("no such thing".to_owned(), Code::Kernel));
        assert_eq!(ruleset(), "");
        assert_eq!(nftables().list(&chain).expect("listed"), None);
    });
}
