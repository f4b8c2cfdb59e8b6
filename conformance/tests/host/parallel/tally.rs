//! What the calls of a round came to: any failure of ours, and the reference's by what they say.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use cni_conformance::Outcome;

use crate::parallel::calls::Side;

/// Counts calls, from any thread.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    calls: BTreeMap<Side, usize>,
    slowest: BTreeMap<Side, Duration>,
    ours: Vec<String>,
    reference: BTreeMap<String, usize>,
    abandoned: Vec<IpAddr>,
    repairs: usize,
    collections: usize,
    slowest_meddling: Duration,
}

impl Tally {
    fn counted<T>(&self, work: impl FnOnce(&mut Counted) -> T) -> T {
        work(&mut self.0.lock().expect("nobody panics with the tally"))
    }

    pub fn called(&self, side: Side, attached: &str, outcome: &Outcome) {
        self.counted(|counted| {
            *counted.calls.entry(side).or_default() += 1;
            match side {
                _ if outcome.succeeded() => {}
                Side::Ours => counted.ours.push(format!("{attached}: {outcome}")),
                Side::Reference => *counted.reference.entry(kind_of_failure(outcome)).or_default() += 1,
            }
        });
    }

    pub fn took(&self, side: Side, time: Duration) {
        self.counted(|counted| {
            let slowest = counted.slowest.entry(side).or_default();
            *slowest = time.max(*slowest);
        });
    }

    pub fn repaired(&self, outcome: &Outcome) {
        self.counted(|counted| {
            counted.repairs += 1;
            counted.slowest_meddling = counted.slowest_meddling.max(outcome.elapsed());
            if !outcome.succeeded() {
                counted.ours.push(format!("repair: {outcome}"));
            }
        });
    }

    pub fn collected(&self, outcomes: &[Outcome]) {
        self.counted(|counted| {
            counted.collections += 1;
            let slowest = outcomes.iter().map(Outcome::elapsed).max().unwrap_or_default();
            counted.slowest_meddling = counted.slowest_meddling.max(slowest);
            counted
                .ours
                .extend(outcomes.iter().filter(|outcome| !outcome.succeeded()).map(|outcome| format!("{outcome}")));
        });
    }

    /// The reference has failed to add a container that has these addresses.
    pub fn abandoned_by_reference(&self, addresses: Vec<IpAddr>) {
        self.counted(|counted| counted.abandoned.extend(addresses));
    }

    /// The addresses that containers had which the reference has failed to add.
    pub fn abandoned(&self) -> Vec<IpAddr> {
        self.counted(|counted| counted.abandoned.clone())
    }

    /// What failed that is ours.
    pub fn failures(&self) -> Vec<String> {
        self.counted(|counted| counted.ours.clone())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counted(|Counted { calls, slowest, ours, reference, repairs, collections, slowest_meddling, .. }| {
            write!(
                f,
                "calls {calls:?}, slowest {slowest:?}, {repairs} repairs, {collections} GCs, the slowest of them {slowest_meddling:?}, {} failures",
                ours.len()
            )?;
            for (kind, times) in reference {
                write!(f, "\n  the reference fails {times} times: {kind}")?;
            }
            Ok(())
        })
    }
}

/// The message without what differs between containers.
fn kind_of_failure(outcome: &Outcome) -> String {
    let said = format!("{} {}", outcome.stdout().trim(), outcome.stderr().trim());
    let word =
        |word: &str| if word.chars().any(|letter| letter.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() };
    said.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}
