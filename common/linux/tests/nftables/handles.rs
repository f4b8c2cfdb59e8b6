//! Remembered handles of rules: whatever comes in between, the outcome is that without them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use cni_netfilter::nftables::{NftRemoval, NftRuleset, ensure, missing, remove};
use proptest::prelude::*;

use super::host::{alone, nft, nftables, ruleset};
use super::wanted::{masquerade, remove_masquerade, remove_spoof, spoof};

/// So many containers that the chains with rules of all are long.
const OTHERS: u8 = 40;
const CONTAINERS: u8 = 4;

/// What a container may want, and what takes it away.
type Wanted = (fn(u8) -> NftRuleset, fn(u8) -> NftRemoval);

const WANTED: [Wanted; 2] = [(masquerade, remove_masquerade), (spoof, remove_spoof)];

/// What happens to a host. Indices are those of [`WANTED`].
#[derive(Clone, Debug)]
enum Event {
    Ensure(usize, u8),
    Remove(usize, u8),
    Look(usize, u8),
    /// Somebody else changes rules.
    Other(&'static str),
    /// Each remembered handle is that of another rule.
    Mixed,
    Lost,
}

fn event() -> impl Strategy<Value = Event> {
    let one = || (0..WANTED.len(), 1..=CONTAINERS);
    let other = prop_oneof![
        Just("flush chain inet cni_plugins_masquerade masq_checks"),
        Just("insert rule inet cni_plugins_masquerade masq_checks ip saddr 192.0.2.9 return"),
        Just("flush ruleset"),
        Just("add table inet others"),
    ];
    prop_oneof![
        6 => one().prop_map(|(what, who)| Event::Ensure(what, who)),
        4 => one().prop_map(|(what, who)| Event::Remove(what, who)),
        4 => one().prop_map(|(what, who)| Event::Look(what, who)),
        1 => other.prop_map(Event::Other),
        1 => Just(Event::Mixed),
        1 => Just(Event::Lost),
    ]
}

fn links() -> Vec<PathBuf> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    below("/run/cni/.cni-plugins-rs/handles".into()).flat_map(below).collect()
}

fn lose() {
    links().iter().for_each(|link| fs::remove_file(link).expect("removed"));
}

fn mix() {
    let links = links();
    let targets: Vec<PathBuf> = links.iter().map(|link| fs::read_link(link).expect("a link")).collect();
    lose();
    let others = targets.iter().cycle().skip(1);
    links.iter().zip(others).for_each(|(link, target)| symlink(target, link).expect("written"));
}

fn happen(event: &Event) -> String {
    let mut tables = nftables();
    match event {
        Event::Ensure(what, who) => {
            format!("{:?}", ensure(&mut tables, &WANTED[*what].0(*who)).map(|undo| undo.is_some()))
        }
        Event::Remove(what, who) => format!("{:?}", remove(&mut tables, &WANTED[*what].1(*who))),
        Event::Look(what, who) => format!("{:?}", missing(&mut tables, &WANTED[*what].0(*who))),
        Event::Other(script) => {
            // Where a chain is gone, there is nothing to change.
            let exists = script.split(' ').nth(1) != Some("chain") && !script.starts_with("insert");
            if exists || ruleset().contains("masq_checks") {
                nft(&["-f", "-"], script);
            }
            String::new()
        }
        Event::Mixed => {
            mix();
            String::new()
        }
        Event::Lost => {
            lose();
            String::new()
        }
    }
}

/// What was answered, and what was there, after each event.
fn history(events: &[Event], with_handles: bool) -> Vec<(String, String)> {
    alone(|| {
        for who in CONTAINERS + 1..=CONTAINERS + OTHERS {
            for (want, _) in WANTED {
                ensure(&mut nftables(), &want(who)).expect("made");
            }
        }
        let first = missing(&mut nftables(), &masquerade(CONTAINERS + 1)).expect("looked").cloned();
        assert_eq!((first, links().is_empty()), (None, false), "there are long chains");
        let after = |event| {
            if !with_handles {
                lose();
            }
            (happen(event), ruleset())
        };
        events.iter().map(after).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn the_outcome_is_that_without_handles(events in proptest::collection::vec(event(), 40)) {
        let (with, without) = (history(&events, true), history(&events, false));
        for (at, (with, without)) in with.iter().zip(&without).enumerate() {
            prop_assert_eq!(with, without, "after {:?}", &events[..=at]);
        }
    }
}
