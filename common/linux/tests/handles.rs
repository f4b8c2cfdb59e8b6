//! Remembered handles of rules, and kept tables: whatever comes in between, the outcome is that without them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use cni_core::family::Family;
use cni_linux::host::LinuxHost;
use cni_linux::nftables::NetlinkNftables;
use cni_model::plan::Ns;
use cni_netfilter::iptables::{Iptables, IptablesRuleset, ensure, missing};
use cni_netfilter::nftables::Nftables;
use cni_netfilter::{Netfilter, RuleRemoval, Ruleset};
use cni_plugin::host::Host as _;
use proptest::prelude::*;

use crate::iptables::host::{Flavour, FlavourHost, on};
use crate::iptables::wanted::{accept, portmap, refuse, unmap};
use crate::nftables::wanted::{masquerade, remove_masquerade, remove_spoof, spoof};
use crate::run;

/// So many rules of others are in each chain from the start that it is long.
const OTHERS: u16 = 40;
const CONTAINERS: u16 = 5;
const KINDS: usize = 4;

/// What a container may want, and what removes it.
fn wanted(family: Family, kind: usize, n: u16) -> (Ruleset, RuleRemoval) {
    let number = u8::try_from(n).expect("few");
    match kind {
        0 => (accept(family, n).into(), refuse(family, n).into()),
        1 => (portmap(family, n).into(), unmap(family, n).into()),
        2 => (masquerade(number).into(), remove_masquerade(number).into()),
        _ => (spoof(number).into(), remove_spoof(number).into()),
    }
}

/// What happens to a host.
#[derive(Clone, Debug)]
enum Event {
    Ensure(usize, u16),
    Remove(usize, u16),
    /// Is anything missing that a container should have?
    Look(usize, u16),
    /// Somebody else changes rules: a command of iptables, or a script of nft.
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
    /// Each is that of another rule, mostly of the same chain.
    Mixed,
}

fn event() -> impl Strategy<Value = Event> {
    let one = || (0..KINDS, 1..=CONTAINERS);
    let others = [
        "-A CNI-FORWARD -s 192.0.2.9/32 -j ACCEPT",
        "-I FORWARD 1 -j ACCEPT",
        "-D CNI-FORWARD 1",
        "-F CNI-FORWARD",
        "-F",
        "-t nat -F",
        "-t nat -F CNI-HOSTPORT-DNAT",
        "-t nat -D CNI-HOSTPORT-DNAT 1",
        "flush chain inet cni_plugins_masquerade masq_checks",
        "insert rule inet cni_plugins_masquerade masq_checks ip saddr 192.0.2.9 return",
        "add table inet others",
    ];
    let other = prop::sample::select(others.to_vec()).prop_map(|other| Event::Other(other.to_owned()));
    let copied = (1..=CONTAINERS).prop_map(|n| Event::Other(format!("copy {n}")));
    let damage = prop::sample::select(vec![
        Damage::Lost,
        Damage::Torn,
        Damage::Old,
        Damage::Mixed,
        Damage::Mixed,
        Damage::Mixed,
    ]);
    prop_oneof![
        10 => one().prop_map(|(kind, n)| Event::Ensure(kind, n)),
        8 => one().prop_map(|(kind, n)| Event::Remove(kind, n)),
        5 => one().prop_map(|(kind, n)| Event::Look(kind, n)),
        2 => other,
        1 => copied,
        3 => damage.prop_map(Event::Handles),
    ]
}

/// The links of rules, and their targets.
fn links() -> Vec<(PathBuf, PathBuf)> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let links = below("/run/cni/.cni-plugins-rs/handles".into()).flat_map(below);
    links.map(|path| (path.clone(), fs::read_link(path).expect("a link"))).collect()
}

fn damage(how: Damage, old: &[(PathBuf, PathBuf)]) {
    let mut links = links();
    links.sort_by_key(|(_, target)| target.to_string_lossy().parse::<u64>().ok());
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

/// Both engines as a new process on the host has them.
struct Engines(Box<dyn Iptables>, NetlinkNftables);

impl Engines {
    fn of(host: &FlavourHost) -> Self {
        Self(host.tables(), NetlinkNftables::new().with_path("/nonexistent".into()))
    }
}

impl Netfilter for Engines {
    fn iptables(&mut self) -> &mut dyn Iptables {
        &mut *self.0
    }

    fn nftables(&mut self) -> &mut dyn Nftables {
        &mut self.1
    }
}

/// What was answered to an event.
fn happen(host: &FlavourHost, event: &Event, old: &[(PathBuf, PathBuf)]) -> String {
    let (family, mut engines) = (host.family, Engines::of(host));
    match event {
        Event::Ensure(kind, n) => {
            format!("{:?}", wanted(family, *kind, *n).0.ensure(&mut engines).map(|undo| undo.is_some()))
        }
        Event::Remove(kind, n) => format!("{:?}", wanted(family, *kind, *n).1.remove(&mut engines)),
        Event::Look(kind, n) => {
            let missing = wanted(family, *kind, *n).0.missing(&mut engines);
            format!("{:?}", missing.map(|missing| missing.map(|missing| missing.to_string())))
        }
        Event::Other(command) => {
            let command = match command.strip_prefix("copy ") {
                Some(n) => accept(family, n.parse().expect("a number")).rules[1].to_string(),
                None => command.replace("192.0.2.9/32", &family.loopback().to_string()),
            };
            if command.starts_with('-') {
                return host.try_iptables(&command).status.to_string();
            }
            Command::new("nft").args(command.split(' ')).output().expect("nft is installed").status.to_string()
        }
        Event::Handles(how) => {
            damage(*how, old);
            String::new()
        }
    }
}

/// On a host on which the chains are long, what was answered to each event, and what was there after it.
fn history(host: &FlavourHost, events: &[Event]) -> Vec<(String, [Vec<String>; 2], String)> {
    fill(host);
    let old = links();
    assert!(!old.is_empty(), "handles of nf_tables are used everywhere");
    let seen = |event| {
        if host.flavour == Flavour::Nft {
            damage(Damage::Lost, &[]);
        }
        let answer = happen(host, event, &old);
        let tables = ["inet", "bridge"].map(|family| run(&format!("nft list ruleset {family}"))).concat();
        (answer, ["filter", "nat"].map(|table| host.dump(table)), tables)
    };
    events.iter().map(seen).collect()
}

/// Containers that nothing happens to.
fn fill(host: &FlavourHost) {
    for kind in 0..KINDS {
        for n in (CONTAINERS + 1..).take(usize::from(OTHERS)) {
            wanted(host.family, kind, n).0.ensure(&mut Engines::of(host)).expect("made");
        }
        let first = wanted(host.family, kind, CONTAINERS + 1).0;
        assert!(first.missing(&mut Engines::of(host)).expect("looked").is_none());
    }
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
        ensure(&mut *host.tables(), &many).expect("all are made at once");
        assert_eq!(links().len(), before + rules.len());
        assert_eq!(missing(&mut *host.tables(), &accept(host.family, new.end - 1)).expect("looked"), None);
    });
}

/// A tool that looks at one container after the other must not believe what it read for the one before, neither while it keeps
/// tables nor when it has stopped to, since they change all the time.
#[test]
fn a_host_that_keeps_tables_notices_what_others_change_before_each_decision() {
    on(Flavour::Kept, |host| {
        fill(host);
        let mut machine = LinuxHost::new(&crate::request()).with_kept_tables();
        let mut are_missing = |n| {
            [0, 2, 3].map(|kind| {
                let netfilter = machine.netfilter(Ns::Host).expect("the host's");
                wanted(host.family, kind, n).0.missing(netfilter).expect("looked").is_some()
            })
        };
        let (lost, kept) = (CONTAINERS + 1, CONTAINERS + 2);
        for change in 0..5 {
            assert_eq!([lost, kept].map(&mut are_missing), [[false; 3]; 2], "{change}");
            for kind in [0, 2, 3] {
                wanted(host.family, kind, lost).1.remove(&mut Engines::of(host)).expect("removed");
            }
            assert_eq!([lost, kept].map(&mut are_missing), [[true; 3], [false; 3]], "{change}");
            for kind in [0, 2, 3] {
                wanted(host.family, kind, lost).0.ensure(&mut Engines::of(host)).expect("made");
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn the_outcome_is_that_of_programs_that_remember_nothing(events in proptest::collection::vec(event(), 40)) {
        let [theirs, native, kept] = [Flavour::Nft, Flavour::Native, Flavour::Kept].map(|flavour| {
            let all = Mutex::new(Vec::new());
            on(flavour, |host| {
                let seen = history(host, &events);
                all.lock().expect("no panic").push(seen);
            });
            all.into_inner().expect("no panic").concat()
        });
        for (at, theirs) in theirs.iter().enumerate() {
            for ours in [&native, &kept] {
                prop_assert_eq!(&ours[at], theirs, "after {:?}", &events[..=at % events.len()]);
            }
        }
    }
}
