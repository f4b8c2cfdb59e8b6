//! Remembered handles of rules, and kept tables: whatever comes in between, the outcome is that of programs which remember
//! nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cni_core::family::Family;
use cni_linux::host::LinuxHost;
use cni_linux::nftables::KeptTables;
use cni_model::plan::Ns;
use cni_netfilter::iptables::{IptablesRuleset, IptablesTable, ensure, missing, remove};
use cni_plugin::host::Host as _;
use proptest::prelude::*;

use super::host::{Flavour, FlavourHost, FlavourIptables, on};
use super::wanted::{accept, portmap, refuse, unmap};

/// So many rules of others are in each chain from the start that it is long.
const OTHERS: usize = 40;
const CONTAINERS: u16 = 5;

/// What happens to a host.
#[derive(Clone, Debug)]
enum Event {
    Accept(u16),
    Refuse(u16),
    Map(u16),
    Unmap(u16),
    /// Is anything missing that a container should have?
    Look(u16),
    /// Somebody else changes rules.
    Other(String),
    /// Something happens to the remembered handles.
    Handles(Damage),
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Lost,
    /// They are not numbers.
    Torn,
    /// They are those of the beginning of the history.
    Old,
    /// Each is that of another rule.
    Mixed,
}

fn event() -> impl Strategy<Value = Event> {
    let one = 1..=CONTAINERS;
    let admin = prop_oneof![
        Just("-A CNI-FORWARD -s 192.0.2.9/32 -j ACCEPT".to_owned()),
        Just("-I FORWARD 1 -j ACCEPT".to_owned()),
        Just("-D CNI-FORWARD 1".to_owned()),
        Just("-F CNI-FORWARD".to_owned()),
        Just("-F".to_owned()),
        Just("-t nat -F".to_owned()),
        Just("-t nat -F CNI-HOSTPORT-DNAT".to_owned()),
        Just("-t nat -D CNI-HOSTPORT-DNAT 1".to_owned()),
    ];
    let copied = one.clone().prop_map(|n| Event::Other(format!("copy {n}")));
    let damage = prop_oneof![Just(Damage::Lost), Just(Damage::Torn), Just(Damage::Old), Just(Damage::Mixed)];
    prop_oneof![
        6 => one.clone().prop_map(Event::Accept),
        5 => one.clone().prop_map(Event::Refuse),
        5 => one.clone().prop_map(Event::Map),
        4 => one.clone().prop_map(Event::Unmap),
        4 => one.prop_map(Event::Look),
        1 => admin.prop_map(Event::Other),
        1 => copied,
        1 => damage.prop_map(Event::Handles),
    ]
}

/// The links of rules, and their targets.
fn links() -> Vec<(PathBuf, PathBuf)> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let links = below("/run/cni/.cni-plugins-rs/handles".into()).flat_map(below);
    links.map(|path| (path.clone(), fs::read_link(path).expect("a link"))).collect()
}

fn damage(how: Damage, old: &[(PathBuf, PathBuf)]) {
    let links = links();
    links.iter().for_each(|(path, _)| fs::remove_file(path).expect("removed"));
    let write = |path: &PathBuf, target: &Path| symlink(target, path).expect("written");
    match how {
        Damage::Lost => {}
        Damage::Torn => links.iter().for_each(|(path, _)| write(path, Path::new("x"))),
        Damage::Old => old.iter().for_each(|(path, target)| write(path, target)),
        Damage::Mixed => {
            let targets = links.iter().cycle().skip(1).map(|(_, target)| target);
            links.iter().zip(targets).for_each(|((path, _), target)| write(path, target));
        }
    }
}

/// What is seen after an event: what was answered, and both tables.
type Seen = (String, Vec<String>, Vec<String>);

fn both(host: &FlavourHost, n: u16) -> [IptablesRuleset; 2] {
    [accept(host.family, n), portmap(host.family, n)]
}

fn happen(host: &FlavourHost, tables: &mut FlavourIptables, event: &Event, old: &[(PathBuf, PathBuf)]) -> String {
    let family = host.family;
    match event {
        Event::Accept(n) => format!("{:?}", ensure(tables, &accept(family, *n)).map(|undo| undo.is_some())),
        Event::Map(n) => format!("{:?}", ensure(tables, &portmap(family, *n)).map(|undo| undo.is_some())),
        Event::Refuse(n) => format!("{:?}", remove(tables, &refuse(family, *n))),
        Event::Unmap(n) => format!("{:?}", remove(tables, &unmap(family, *n))),
        Event::Look(n) => {
            let mut look = |want: &IptablesRuleset| missing(tables, want).map(|rule| rule.cloned());
            format!("{:?}", both(host, *n).each_ref().map(&mut look))
        }
        Event::Other(command) => {
            let command = match command.strip_prefix("copy ") {
                Some(n) => accept(family, n.parse().expect("a number")).rules[1].to_string(),
                None => command.replace("192.0.2.9/32", &family.loopback().to_string()),
            };
            format!("{}", host.try_iptables(&command).status)
        }
        Event::Handles(how) => {
            damage(*how, old);
            String::new()
        }
    }
}

/// A host on which the chains are long, after some events.
fn history(host: &FlavourHost, events: &[Event]) -> Vec<Seen> {
    fill(host);
    let old = links();
    // What keeps tables uses handles too, once the tables have changed too often.
    match host.flavour {
        Flavour::Native => assert!(!old.is_empty(), "plugins use handles"),
        Flavour::Nft => assert!(old.is_empty(), "programs know of no handles"),
        Flavour::Kept | Flavour::Legacy => {}
    }
    let mut kept = host.tables();
    let seen = |event| {
        if host.flavour == Flavour::Kept {
            kept.expire();
        } else {
            kept = host.tables();
        }
        (happen(host, &mut kept, event, &old), host.dump("filter"), host.dump("nat"))
    };
    events.iter().map(seen).collect()
}

/// Containers that nothing happens to.
fn fill(host: &FlavourHost) {
    let (family, mut tables) = (host.family, host.tables());
    for n in (CONTAINERS + 1..).take(OTHERS) {
        ensure(&mut tables, &accept(family, n)).expect("accepted");
        ensure(&mut tables, &portmap(family, n)).expect("mapped");
    }
    missing(&mut tables, &portmap(family, CONTAINERS + 1)).expect("looked");
}

/// The kernel answers with each of the new rules. If the answers do not fit the socket, the last of them is lost, which
/// says that the rules are made.
#[test]
fn so_many_rules_at_once_are_answered_and_each_has_its_handle() {
    const AT_ONCE: u16 = 1000;
    on(Flavour::Native, |host| {
        fill(host);
        let before = links().len();
        let new = 1000..1000 + AT_ONCE;
        let rules: Vec<_> = new.clone().flat_map(|n| accept(host.family, n).rules).collect();
        let many = IptablesRuleset { rules: rules.clone(), ..accept(host.family, 1000) };
        ensure(&mut host.tables(), &many).expect("all are made at once");
        assert_eq!(links().len(), before + rules.len());
        assert_eq!(missing(&mut host.tables(), &accept(host.family, new.end - 1)).expect("looked"), None);
    });
}

/// A tool that looks at one container after the other must not believe what it read for the one before, neither while it keeps
/// tables nor when it has stopped to, since they change all the time.
#[test]
fn a_host_that_keeps_tables_notices_what_others_change_before_each_decision() {
    on(Flavour::Kept, |host| {
        fill(host);
        let request = cni_testkit::request("ADD", &[], r#"{"cniVersion":"1.0.0","name":"net1","type":"firewall"}"#);
        let tables = KeptTables::default();
        tables.read_ahead(IptablesTable::ALL.map(|table| (host.family, table)));
        let mut machine = LinuxHost::new(&request).with_kept_tables(tables);
        let mut is_missing = |n| {
            let tables = machine.netfilter(Ns::Host).expect("the host's").iptables();
            missing(tables, &accept(host.family, n)).expect("looked").is_some()
        };
        let (lost, kept) = (CONTAINERS + 1, CONTAINERS + 2);
        assert_eq!([lost, kept].map(&mut is_missing), [false, false]);
        for change in 0..5 {
            remove(&mut host.tables(), &refuse(host.family, lost)).expect("removed");
            assert_eq!([lost, kept].map(&mut is_missing), [true, false], "{change}");
            ensure(&mut host.tables(), &accept(host.family, lost)).expect("made");
            assert_eq!([lost, kept].map(&mut is_missing), [false, false], "{change}");
        }
    });
}

/// What is seen on a host of a flavour, for each family.
fn seen(flavour: Flavour, events: &[Event]) -> Vec<(Family, Vec<Seen>)> {
    let all = Mutex::new(Vec::new());
    on(flavour, |host| {
        let seen = history(host, events);
        all.lock().expect("no panic").push((host.family, seen));
    });
    all.into_inner().expect("no panic")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn the_outcome_is_that_of_programs_that_remember_nothing(events in proptest::collection::vec(event(), 30)) {
        let theirs = seen(Flavour::Nft, &events);
        for flavour in [Flavour::Native, Flavour::Kept] {
            for ((family, ours), (_, theirs)) in seen(flavour, &events).iter().zip(&theirs) {
                for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                    prop_assert_eq!(ours, theirs, "{:?} {} after {:?}", flavour, family, &events[..=at]);
                }
            }
        }
    }
}
