//! The packet filter against the real kernel: both flavours of iptables, both families, each test in
//! namespaces of its own. `iptables -S` is the witness.

mod handles;
mod host;
mod native;
mod wanted;

use std::fs::File;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::names::{Comment, IfName};
use cni_kernel::netns::{Netns, NetnsScope};
use cni_netfilter::Proto;
use cni_netfilter::iptables::{
    Batch, BatchLine, Iptables, IptablesRemoval, IptablesRule, IptablesTable, JumpRemoval, Mark, Match, OwnedChainRef,
    PortRange, PortSet, Target, UidRange, ensure, missing, remove, undo,
};
use nix::sched::{CloneFlags, unshare};

use host::{Flavour, FlavourHost, FlavourIptables, everywhere, on, run};
use wanted::{accept, address, chain, dnat_chain, masquerade, portmap, redirecting, refuse, unmap};

/// One rule of every kind, and of every combination that the plugins write.
fn all_kinds(family: Family) -> Vec<IptablesRule> {
    let here = address(family, 5);
    let name = |text| IfName::parse(text).expect("a name");
    let comment = |text: &str| Match::Comment(Comment::new(text));
    let raw = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let full = PortSet::new((9000..9015).collect()).expect("ports");
    let to = Target::Jump(chain("CNI-OTHER"));
    let rule = |matches, target| IptablesRule::new(chain("CNI-TEST"), matches, target);
    let mut rules = vec![
        rule(vec![], Target::Accept),
        rule(vec![Match::Source(here), Match::Destination(here)], Target::Return),
        rule(vec![Match::NotSource(here), Match::NotDestination(family.multicast())], Target::Masquerade),
        rule(vec![Match::Source(family.default_route())], to.clone()),
        rule(vec![Match::In(name("br0")), Match::NotOut(name("br0"))], to.clone()),
        rule(vec![Match::NotIn(name("eth0.100")), Match::Out(name("eth+"))], to.clone()),
        rule(vec![Match::LocalDestination], to.clone()),
        rule(vec![Match::RelatedEstablished, comment("simple")], Target::Accept),
        rule(vec![comment("name: \"nomad\" id: \"8c0b-7f\""), Match::RelatedEstablished], Target::Accept),
        rule(vec![comment("it's a \\ in `$x`, ünïcode & more"), Match::LocalDestination], Target::Return),
        rule(vec![comment(&"x".repeat(300))], Target::Return),
        rule(vec![comment("-j")], Target::Return),
        rule(vec![Match::Mark(Mark { value: 0x10, mask: u32::MAX })], to.clone()),
        rule(vec![Match::Mark(Mark { value: 0x2000, mask: 0x2000 })], Target::Masquerade),
        rule(vec![], Target::SetMark(Mark { value: 0x20, mask: 0x20 })),
        rule(vec![Match::Ports(Proto::Udp, full), comment("a b")], to.clone()),
        rule(vec![Match::Raw(raw(&["-m", "length", "--length", "10:20"]))], Target::Raw(raw(&["-g", "CNI-OTHER"]))),
        rule(vec![comment("counts")], Target::Raw(Vec::new())),
    ];
    rules.extend(redirection(family));
    for proto in Proto::ALL {
        let matches = vec![Match::Source(here), Match::Port(proto, 8080), comment("x y"), Match::Destination(here)];
        rules.push(rule(matches, Target::Dnat((here.address(), 80).into())));
    }
    rules
}

/// What consul-cni writes.
fn redirection(family: Family) -> [IptablesRule; 9] {
    let here = Match::Destination(Cidr::host(address(family, 5).address()));
    let users = |first, last| Match::User(UidRange::new(first, last).expect("users"));
    let ports = |first, last| PortRange::new(first, last).expect("ports");
    let (dns, to) = (Match::Port(Proto::Udp, 53), address(family, 9).address());
    [
        (vec![Match::Protocol(Proto::Tcp)], Target::Jump(chain("CNI-OTHER"))),
        (vec![Match::Protocol(Proto::Sctp), here.clone()], Target::Return),
        (vec![Match::Protocol(Proto::Tcp)], Target::Redirect(15001)),
        (vec![users(101, 101)], Target::Return),
        (vec![Match::Protocol(Proto::Udp), users(1000, UidRange::MAX)], Target::Return),
        (vec![Match::PortRange(Proto::Tcp, ports(8000, 8005))], Target::Return),
        (vec![Match::PortRange(Proto::Udp, ports(1, 65535)), here.clone()], Target::Return),
        (vec![here, dns.clone()], Target::Dnat((to, 8600).into())),
        (vec![dns], Target::DnatAddress(to)),
    ]
    .map(|(matches, target)| IptablesRule::new(chain("CNI-TEST"), matches, target))
}

#[test]
fn the_text_of_every_kind_of_rule_is_what_iptables_prints() {
    everywhere(|host| {
        let rules = all_kinds(host.family);
        let mut ops = vec![BatchLine::CreateChain(chain("CNI-OTHER")), BatchLine::CreateChain(chain("CNI-TEST"))];
        ops.extend(rules.iter().cloned().map(BatchLine::Append));
        host.tables().commit(&Batch { family: host.family, table: IptablesTable::Nat, ops }).expect("committed");
        let printed = host.iptables("-t nat -S CNI-TEST");
        let lines: Vec<&str> = printed.lines().skip(1).collect();
        assert_eq!(lines, rules.iter().map(IptablesRule::to_string).collect::<Vec<_>>());
        let listed = host.tables().list(host.family, IptablesTable::Nat, &chain("CNI-TEST")).expect("listed");
        assert_eq!(listed, Some(rules.iter().map(IptablesRule::canonical).collect()));
        let conditions = rules.into_iter().map(BatchLine::Require).collect();
        host.tables()
            .commit(&Batch { family: host.family, table: IptablesTable::Nat, ops: conditions })
            .expect("all there");
    });
}

#[test]
fn in_the_usual_state_each_change_and_each_look_is_one_process_at_most() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut tables, &portmap(family, 1)).expect("the skeleton and container 1");
        let before = host.dump("nat");
        host.started();
        ensure(&mut tables, &portmap(family, 2)).expect("container 2");
        assert_eq!(host.started().len(), host.programs(1));
        assert_eq!(missing(&mut tables, &portmap(family, 2)).expect("looked"), None);
        assert_eq!(host.started().len(), host.programs(1));
        remove(&mut tables, &unmap(family, 2)).expect("removed");
        assert_eq!(host.started().len(), host.programs(1));
        assert_eq!(host.dump("nat"), before);
    });
}

#[test]
fn rules_without_a_chain_take_two_processes_at_most() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut tables, &accept(family, 1)).expect("the skeleton and container 1");
        let before = host.dump("filter");
        host.started();
        let change = ensure(&mut tables, &accept(family, 2)).expect("container 2");
        assert_eq!(host.started().len(), host.programs(2));
        assert_eq!(change.and_then(|change| change.added), Some(refuse(family, 2)));
        let added = host.dump("filter");
        assert_eq!(ensure(&mut tables, &accept(family, 2)).expect("container 2 again"), None);
        assert_eq!(host.dump("filter"), added);
        host.started();
        remove(&mut tables, &refuse(family, 2)).expect("removed");
        assert_eq!(host.started().len(), host.programs(2));
        assert_eq!(host.dump("filter"), before);
    });
}

#[test]
fn an_empty_host_gets_the_skeleton_in_its_places() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        host.iptables("-t nat -A POSTROUTING -j RETURN");
        host.iptables("-t nat -A PREROUTING -j RETURN");
        let change = ensure(&mut tables, &portmap(family, 1)).expect("ensured").expect("something to undo");
        let text = host.dump("nat").join("\n");
        assert!(text.contains("-j CNI-HOSTPORT-MASQ\n-A POSTROUTING -j RETURN"), "{text}");
        assert!(text.contains("-A PREROUTING -j RETURN\n-A PREROUTING -m addrtype"), "{text}");
        undo(&mut tables, &change).expect("undone");
        let text = host.dump("nat").join("\n");
        assert!(!text.contains("CNI-DN-") && text.contains("-N CNI-HOSTPORT-DNAT"), "{text}");
    });
}

#[test]
fn what_is_left_of_an_older_attempt_is_replaced() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        let mut old = portmap(family, 1);
        old.rules.extend(wanted::entries(1));
        for chain in &mut old.chains {
            chain.rules.reverse();
        }
        ensure(&mut tables, &portmap(family, 2)).expect("container 2");
        let mut want = host.dump("nat");
        ensure(&mut tables, &old).expect("an older container 1");
        ensure(&mut tables, &portmap(family, 1)).expect("container 1");
        let got = host.dump("nat");
        let mine = |line: &&String| line.contains(dnat_chain(1).as_str());
        assert_eq!(got.iter().filter(mine).count(), 4, "{got:#?}");
        want.sort();
        let mut others: Vec<String> = got.iter().filter(|line| !mine(line)).cloned().collect();
        others.sort();
        assert_eq!(others, want);
        assert_eq!(missing(&mut tables, &portmap(family, 1)).expect("looked"), None);
    });
}

#[test]
fn surplus_copies_go_when_the_skeleton_is_looked_at() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut tables, &portmap(family, 1)).expect("container 1");
        let once = host.dump("nat");
        host.iptables("-t nat -A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT");
        host.iptables("-t nat -I PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT");
        host.iptables("-t nat -A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE");
        ensure(&mut tables, &portmap(family, 1)).expect("container 1 again");
        assert_eq!(host.dump("nat"), once);
    });
}

#[test]
fn addresses_of_one_container_share_a_chain_that_goes_with_the_last() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut tables, &masquerade(family, 1)).expect("the first");
        let change = ensure(&mut tables, &masquerade(family, 2)).expect("the second").expect("something to undo");
        let text = host.iptables("-t nat -S CNI-a19237f207ed3fa9670f34ba");
        assert!(text.trim_end().ends_with("-j MASQUERADE"), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
        assert_eq!(missing(&mut tables, &masquerade(family, 1)).expect("looked"), None);
        undo(&mut tables, &change).expect("undone");
        assert_eq!(host.iptables("-t nat -S CNI-a19237f207ed3fa9670f34ba").lines().count(), 3);
        let gone = |stays: u16, jumps: &dyn Fn(std::net::IpAddr) -> JumpRemoval| IptablesRemoval {
            family,
            table: IptablesTable::Nat,
            chains: vec![OwnedChainRef {
                name: chain("CNI-a19237f207ed3fa9670f34ba"),
                parents: vec![chain("POSTROUTING")],
                jumps: jumps(address(family, stays).address()),
            }],
            rules: Vec::new(),
        };
        remove(&mut tables, &gone(1, &|stays| JumpRemoval::AllBut(vec![stays]))).expect("nothing to remove");
        assert_eq!(missing(&mut tables, &masquerade(family, 1)).expect("looked"), None);
        remove(&mut tables, &gone(1, &|_| JumpRemoval::All)).expect("removed");
        assert_eq!(host.dump("nat"), [""; 0]);
    });
}

#[test]
fn removing_what_is_not_there_succeeds_and_makes_nothing() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        for _ in 0..2 {
            remove(&mut tables, &unmap(family, 1)).expect("nothing to remove");
            remove(&mut tables, &refuse(family, 1)).expect("nothing to remove");
        }
        assert_untouched(host);
        ensure(&mut tables, &portmap(family, 1)).expect("ensured");
        remove(&mut tables, &unmap(family, 1)).expect("removed");
        let before = host.dump("nat");
        remove(&mut tables, &unmap(family, 1)).expect("removed again");
        assert_eq!(host.dump("nat"), before);
    });
}

/// With nf_tables not even a table may be there; legacy makes its empty tables for any reader.
fn assert_untouched(host: &FlavourHost) {
    match host.flavour {
        Flavour::Nft | Flavour::Native | Flavour::Kept => assert_eq!(run("nft list ruleset"), ""),
        Flavour::Legacy => assert_eq!((host.dump("nat"), host.dump("filter")), (Vec::new(), Vec::new())),
    }
}

#[test]
fn a_look_names_what_is_missing_and_writes_nothing() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        let want = portmap(family, 1);
        let first = want.shared[0].rule.clone();
        assert_eq!(missing(&mut tables, &want).expect("looked"), Some(&first));
        assert_eq!(
            missing(&mut tables, &accept(family, 1)).expect("looked").map(|rule| rule.chain.clone()),
            Some(chain("FORWARD"))
        );
        assert_untouched(host);
        ensure(&mut tables, &want).expect("ensured");
        let handles = run("nft -a list ruleset");
        assert_eq!(missing(&mut tables, &want).expect("looked"), None);
        assert_eq!(run("nft -a list ruleset"), handles);
        for rule in want.shared.iter().map(|shared| &shared.rule).chain(&want.rules) {
            let specification = rule.specification();
            delete(&mut tables, host, rule);
            let before = host.dump("nat");
            assert_eq!(
                missing(&mut tables, &want).expect("looked").map(IptablesRule::specification),
                Some(specification)
            );
            assert_eq!(host.dump("nat"), before);
            ensure(&mut tables, &want).expect("mended");
        }
    });
}

fn delete(tables: &mut FlavourIptables, host: &FlavourHost, rule: &IptablesRule) {
    let ops = vec![BatchLine::Delete(rule.clone())];
    tables.commit(&Batch { family: host.family, table: IptablesTable::Nat, ops }).expect("deleted");
}

#[test]
fn a_chain_that_an_administrator_uses_is_emptied_and_reported() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        ensure(&mut tables, &portmap(family, 1)).expect("ensured");
        let own = dnat_chain(1);
        host.iptables(&format!("-t nat -A OUTPUT -p udp -j {own}"));
        let error = remove(&mut tables, &unmap(family, 1)).expect_err("in use");
        assert_eq!(error.to_string(), format!("the {family} chain {own} of table nat is still in use"));
        assert_eq!(host.iptables(&format!("-t nat -S {own}")), format!("-N {own}\n"));
        host.iptables(&format!("-t nat -D OUTPUT -p udp -j {own}"));
        remove(&mut tables, &unmap(family, 1)).expect("removed");
        assert!(!host.dump("nat").join("\n").contains(own.as_str()));
    });
}

/// `iptables -S` shows none of these as they are written here.
#[test]
fn rules_with_a_users_words_are_found_as_iptables_finds_them() {
    everywhere(|host| {
        let family = host.family;
        let [here, there] = [5, 6].map(|n| address(family, n).address().to_string());
        let words = [
            vec!["-s", &here],
            vec!["-m", "mark", "--mark", "5"],
            vec!["-s", &here, "-m", "comment", "--comment", "a b"],
        ];
        for words in words {
            let mut want = portmap(family, 1);
            want.rules[0].matches.push(Match::Raw(words.iter().map(|&word| word.to_owned()).collect()));
            let mut tables = host.tables();
            ensure(&mut tables, &want).expect("ensured");
            assert_eq!(missing(&mut tables, &want).expect("looked"), None, "{words:?}");
            ensure(&mut tables, &want).expect("ensured again");
            assert_eq!(missing(&mut tables, &want).expect("looked"), None, "{words:?}");
            let mut others = want.clone();
            others.rules[0].matches.pop();
            others.rules[0].matches.push(Match::Raw(vec!["-s".to_owned(), there.clone()]));
            assert_eq!(missing(&mut tables, &others).expect("looked"), Some(&others.rules[0]));
            host.iptables("-t nat -F CNI-HOSTPORT-DNAT");
            assert_eq!(missing(&mut tables, &want).expect("looked"), Some(&want.rules[0]), "{words:?}");
            remove(&mut tables, &unmap(family, 1)).expect("removed");
        }
    });
}

#[test]
fn words_that_iptables_does_not_know_are_refused_in_its_own_words() {
    everywhere(|host| {
        let mut want = portmap(host.family, 1);
        want.rules[0].matches.push(Match::Raw(vec!["--no-such-option".to_owned()]));
        let error = ensure(&mut host.tables(), &want).expect_err("refused");
        assert_eq!(error.code(), Code::Kernel);
        assert!(error.details().contains("unknown option \"--no-such-option\""), "{}", error.details());
        assert_untouched(host);
    });
}

#[test]
fn sixteen_at_once_make_one_skeleton() {
    everywhere(|host| {
        let family = host.family;
        std::thread::scope(|scope| {
            for n in 0..16 {
                let path = host.path();
                scope.spawn(move || {
                    let mut tables = FlavourIptables::new(host.flavour, path);
                    ensure(&mut tables, &portmap(family, n)).expect("rules of portmap");
                    ensure(&mut tables, &accept(family, n)).expect("rules of firewall");
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..8 {
                        host.iptables("-t nat -A OUTPUT -p udp -j RETURN");
                        host.iptables("-t filter -I FORWARD -p udp -j ACCEPT");
                    }
                });
            }
        });
        let mut lines = [host.dump("nat"), host.dump("filter")].concat();
        let others = lines.iter().filter(|line| line.contains("-p udp")).count();
        lines.retain(|line| !line.contains("-p udp"));
        let total = lines.len();
        lines.sort();
        lines.dedup();
        assert_eq!(lines.len(), total, "{lines:#?}");
        // Five chains and seven rules are shared; a container has a chain and five rules.
        assert_eq!((total, others), (5 + 7 + 16 * 6, 32), "{lines:#?}");
        for n in 0..16 {
            assert_eq!(missing(&mut host.tables(), &portmap(family, n)).expect("looked"), None);
            assert_eq!(missing(&mut host.tables(), &accept(family, n)).expect("looked"), None);
        }
    });
}

#[test]
fn others_who_know_nothing_of_the_lock_do_not_disturb() {
    everywhere(|host| {
        let shared = ["CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-SETMARK", "CNI-HOSTPORT-MASQ"];
        for _ in 0..5 {
            std::thread::scope(|scope| {
                for name in shared {
                    scope.spawn(move || host.try_iptables(&format!("-t nat -N {name}")));
                }
                for n in 0..3 {
                    let path = host.path();
                    scope.spawn(move || {
                        let mut tables = FlavourIptables::new(host.flavour, path);
                        ensure(&mut tables, &portmap(host.family, n)).expect("ensured");
                    });
                }
            });
            for n in 0..3 {
                assert_eq!(missing(&mut host.tables(), &portmap(host.family, n)).expect("looked"), None);
            }
            host.iptables("-t nat -F");
            host.iptables("-t nat -X");
        }
    });
}

#[test]
fn sixteen_at_once_take_away_what_is_theirs() {
    everywhere(|host| {
        let family = host.family;
        ensure(&mut host.tables(), &portmap(family, 99)).expect("ensured");
        let before = host.dump("nat");
        for n in 0..16 {
            ensure(&mut host.tables(), &portmap(family, n)).expect("ensured");
        }
        std::thread::scope(|scope| {
            for n in 0..16 {
                let path = host.path();
                scope.spawn(move || {
                    let mut tables = FlavourIptables::new(host.flavour, path);
                    remove(&mut tables, &unmap(family, n)).expect("removed");
                });
            }
        });
        assert_eq!(host.dump("nat"), before);
    });
}

#[test]
fn a_held_lock_of_legacy_iptables_is_an_error_in_time() {
    on(Flavour::Legacy, |host| {
        let (family, mut tables) = (host.family, host.tables().with_patience(Duration::from_secs(1)));
        ensure(&mut tables, &portmap(family, 1)).expect("ensured");
        let before = host.dump("nat");
        let held = File::create("/run/xtables.lock").expect("the lock");
        held.lock().expect("held");
        let started = Instant::now();
        let change = ensure(&mut tables, &portmap(family, 2)).expect_err("locked");
        let look = tables.list(family, IptablesTable::Nat, &chain("OUTPUT")).expect_err("locked");
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
        drop(held);
        for error in [change, look] {
            let want =
                format!("gave up after 1s: the lock /run/xtables.lock is held by process {} (", std::process::id());
            assert!(error.to_string().starts_with(&want), "{error}");
            assert_eq!(error.code(), Code::TryAgain);
        }
        assert_eq!(host.dump("nat"), before);
    });
}

#[test]
fn nf_tables_needs_no_lock_of_legacy_iptables() {
    on(Flavour::Nft, |host| {
        let held = File::create("/run/xtables.lock").expect("the lock");
        held.lock().expect("held");
        ensure(&mut host.tables(), &portmap(host.family, 1)).expect("ensured");
    });
}

#[test]
fn the_lock_of_the_skeleton_is_waited_for_in_bounds() {
    everywhere(|host| {
        let mut tables = host.tables().with_patience(Duration::from_millis(100));
        let held = host.tables().lock().expect("the lock");
        let error = ensure(&mut tables, &portmap(host.family, 1)).expect_err("locked");
        let text = error.to_string();
        assert!(text.starts_with("gave up after 100ms: the lock /run/cni/.cni-plugins-rs/filter-"), "{text}");
        assert!(text.contains(&format!("process {} (", std::process::id())), "{text}");
        drop(held);
        ensure(&mut tables, &portmap(host.family, 1)).expect("ensured");
    });
}

#[test]
fn a_missing_program_is_named() {
    everywhere(|host| {
        let mut tables = FlavourIptables::new(host.flavour, "/nowhere".into());
        let program = host.family.iptables();
        let error = ensure(&mut tables, &portmap(host.family, 1)).expect_err("absent");
        assert!(error.to_string().starts_with(&format!("failed to locate {program}-restore: ")), "{error}");
        assert_eq!((error.details().as_str(), error.code()), ("PATH=/nowhere", Code::Program));
        let listed = tables.list(host.family, IptablesTable::Nat, &chain("OUTPUT"));
        if matches!(host.flavour, Flavour::Native | Flavour::Kept) {
            // Only nf_tables can hold rules here, and the kernel shows them without programs.
            assert_eq!(listed.expect("listed"), None);
        } else {
            let error = listed.expect_err("absent");
            assert!(error.to_string().starts_with(&format!("failed to locate {program}: ")), "{error}");
        }
    });
}

#[test]
fn an_absent_chain_is_none() {
    everywhere(|host| {
        let listed = host.tables().list(host.family, IptablesTable::Nat, &chain("CNI-HOSTPORT-DNAT"));
        assert_eq!(listed.expect("listed"), None);
        assert_untouched(host);
    });
}

#[test]
fn a_chain_that_only_nft_can_read_is_not_absent() {
    on(Flavour::Nft, |host| {
        let family = match host.family {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        };
        run(&format!("nft add table {family} nat"));
        run(&format!("nft add chain {family} nat CNI-HOSTPORT-DNAT"));
        run(&format!("nft add rule {family} nat CNI-HOSTPORT-DNAT ct state new counter"));
        let error =
            host.tables().list(host.family, IptablesTable::Nat, &chain("CNI-HOSTPORT-DNAT")).expect_err("unreadable");
        assert!(error.details().contains("incompatible"), "{}", error.details());
    });
}

#[test]
fn the_rules_of_another_namespace_are_made_and_found_inside_it() {
    everywhere(|host| {
        let there = Rc::new(Netns::own().expect("a namespace"));
        unshare(CloneFlags::CLONE_NEWNET).expect("another namespace; this test needs root");
        let mut tables = host.tables().within(NetnsScope::Other(Rc::clone(&there)));
        let want = portmap(host.family, 1);
        let change = ensure(&mut tables, &want).expect("ensured").expect("something was added");
        let dump_there = || there.inside(|| host.dump("nat")).expect("entered");
        assert!(dump_there().iter().any(|line| line.contains("CNI-DN-")), "{:?}", dump_there());
        assert_eq!(host.dump("nat"), [""; 0]);
        assert_eq!(missing(&mut tables, &want).expect("looked"), None);
        undo(&mut tables, &change).expect("removed");
        assert!(!dump_there().iter().any(|line| line.contains("CNI-DN-")), "{:?}", dump_there());
    });
}

#[test]
fn chains_that_lead_to_each_other_come_and_go_at_once() {
    everywhere(|host| {
        let (family, mut tables) = (host.family, host.tables());
        let want = redirecting(family);
        let text: Vec<String> =
            want.chains.iter().flat_map(|chain| &chain.rules).chain(&want.rules).map(ToString::to_string).collect();
        for existing in ["nothing", "an empty table"] {
            host.started();
            let change = ensure(&mut tables, &want).expect(existing).expect("something was added");
            assert_eq!(host.started().len(), host.programs(1), "{existing}");
            let mut dump: Vec<String> = host.dump("nat").into_iter().filter(|line| line.starts_with("-A")).collect();
            dump.sort_by_key(|line| text.iter().position(|wanted| wanted == line));
            assert_eq!(dump, text);
            assert_eq!(missing(&mut tables, &want).expect("looked"), None);
            let before = host.dump("nat");
            ensure(&mut tables, &want).expect("again");
            assert_eq!(host.dump("nat"), before);
            let mut other = want.clone();
            other.rules.pop();
            other.chains.iter_mut().for_each(|chain| chain.rules.truncate(1));
            let replacement = ensure(&mut tables, &other).expect(existing).expect("something was replaced");
            assert_ne!(host.dump("nat"), before);
            undo(&mut tables, &replacement).expect("restored");
            assert_eq!(host.dump("nat"), before);
            undo(&mut tables, &change).expect("removed");
            assert_eq!(host.dump("nat"), [""; 0]);
        }
    });
}
