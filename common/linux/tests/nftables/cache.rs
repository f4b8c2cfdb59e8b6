//! The cache of long chains: whatever comes in between, the outcome is that without a cache.

use std::fs;
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
    /// The files of the cache are cut to this length.
    Torn(usize),
    /// The files of the cache tell other numbers of the rules than the kernel.
    Renumbered,
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
        1 => (0_usize..200).prop_map(Event::Torn),
        1 => Just(Event::Renumbered),
        1 => Just(Event::Lost),
    ]
}

fn cache() -> Vec<PathBuf> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    below("/run/cni/.cni-plugins-rs/chains".into()).flat_map(below).collect()
}

fn lose() {
    cache().iter().for_each(|file| fs::remove_file(file).expect("removed"));
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
        Event::Torn(length) => {
            for file in cache() {
                let content = fs::read(&file).expect("read");
                fs::write(&file, &content[..content.len().min(*length)]).expect("written");
            }
            String::new()
        }
        Event::Renumbered => {
            for file in cache() {
                let content = fs::read_to_string(&file).expect("read");
                let lines: Vec<String> = content.lines().map(renumbered).collect();
                fs::write(&file, format!("{}\n", lines.join("\n"))).expect("written");
            }
            String::new()
        }
        Event::Lost => {
            lose();
            String::new()
        }
    }
}

/// A line of a file with a number that no rule has; one without a rule stays.
fn renumbered(line: &str) -> String {
    let rule = line.split_once(' ').and_then(|(handle, text)| Some((handle.parse::<u64>().ok()?, text)));
    rule.filter(|(_, text)| text.contains('\t'))
        .map_or_else(|| line.to_owned(), |(handle, text)| format!("{} {text}", handle + 1_000_000))
}

/// What was answered, and what was there, after each event.
fn history(events: &[Event], with_cache: bool) -> Vec<(String, String)> {
    alone(|| {
        for who in CONTAINERS + 1..=CONTAINERS + OTHERS {
            for (want, _) in WANTED {
                ensure(&mut nftables(), &want(who)).expect("made");
            }
        }
        assert!(!cache().is_empty(), "there are long chains");
        let after = |event| {
            if !with_cache {
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
    fn the_outcome_is_that_without_a_cache(events in proptest::collection::vec(event(), 40)) {
        let (with, without) = (history(&events, true), history(&events, false));
        for (at, (with, without)) in with.iter().zip(&without).enumerate() {
            prop_assert_eq!(with, without, "after {:?}", &events[..=at]);
        }
    }
}
