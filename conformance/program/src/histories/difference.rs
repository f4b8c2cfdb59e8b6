//! Finds the first difference between two runs of a history.

use std::fmt;
use std::thread;

use super::history::History;
use super::replay::{ErrorWords, Observation, ResultForm, live};
use super::sets::{PluginOrigin, PluginSet};
use super::situations::ContainerStates;
use cni_conformance::compare::accepted::{self, LineOwner};
use cni_conformance::state::differences;

/// Whether intended differences count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// Intended differences between these plugins and the reference are accepted.
    Accept,
    /// Everything counts.
    Strict,
}

/// Two sets that are compared.
#[derive(Debug, Clone)]
pub struct ComparedSets {
    /// The set under test.
    pub plugins: PluginSet,
    /// The set to compare with.
    pub reference: PluginSet,
    /// Whether intended differences count.
    pub acceptance: Acceptance,
}

/// The first step after which something is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its number in the history, from 0.
    pub step: usize,
    /// Lines only of the reference (`- `) and only of the plugins (`+ `).
    pub changes: Vec<String>,
}

/// The outcome of a history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// Nothing that is not accepted.
    Same,
    /// Both failed in the ADD of this number. What the reference leaves then is accepted, so the history ends here.
    Ended {
        /// Its number in the history, from 0.
        step: usize,
    },
    /// Something else.
    Different(Difference),
}

impl ComparedSets {
    /// Whether the tables of intended differences apply to this pair: one set is ours, the other is not.
    pub fn accepts(&self) -> bool {
        self.acceptance == Acceptance::Accept && (self.side(&self.plugins) != self.side(&self.reference))
    }

    /// Returns what both sets know.
    pub fn telling(&self) -> ResultForm {
        let words = if self.accepts() { ErrorWords::Own } else { ErrorWords::Compared };
        ResultForm { level: self.plugins.level.min(self.reference.level), words }
    }

    /// Lets both live through a history, and finds where they part first.
    ///
    /// # Panics
    /// When a private host cannot be made.
    pub fn difference(&self, history: &History) -> Comparison {
        let telling = self.telling();
        let [theirs, ours] = thread::scope(|scope| {
            let lives = [&self.reference, &self.plugins];
            let lives = lives.map(|set| scope.spawn(move || live(history, &set.folder, telling)));
            lives.map(|life| life.join().expect("a life ends with its last moment"))
        });
        let never = Observation::default();
        let mut course = ContainerStates::of(history);
        for (step, what) in history.steps.iter().enumerate() {
            let (theirs, ours) = (theirs.get(step).unwrap_or(&never), ours.get(step).unwrap_or(&never));
            let mut changes = self.changes(&theirs.printed, &ours.printed);
            let failed = self.accepts() && changes.is_empty() && ours.fails() && course.is_first_add(what);
            if failed {
                return Comparison::Ended { step };
            }
            if let (Some(theirs), Some(ours)) = (&theirs.state, &ours.state) {
                changes.extend(self.changes(theirs, ours));
            }
            if !changes.is_empty() {
                return Comparison::Different(Difference { step, changes });
            }
            course.goes_on(what);
        }
        Comparison::Same
    }

    fn changes(&self, theirs: &[String], ours: &[String]) -> Vec<String> {
        differences(&self.reported(&self.reference, theirs), &self.reported(&self.plugins, ours))
    }

    /// The lines of one set, without what may differ.
    fn reported(&self, set: &PluginSet, lines: &[String]) -> Vec<String> {
        if self.accepts() { accepted::apply_in_histories(self.side(set), lines) } else { lines.to_vec() }
    }

    fn side(&self, set: &PluginSet) -> LineOwner {
        match set.maker {
            PluginOrigin::Ours => LineOwner::Ours,
            PluginOrigin::Others => LineOwner::Reference,
        }
    }
}

/// The largest number of printed lines of a difference.
const SHOWN: usize = 40;

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes.iter().take(SHOWN).try_for_each(|change| writeln!(f, "  {change}"))?;
        match self.changes.len().checked_sub(SHOWN) {
            None | Some(0) => Ok(()),
            Some(more) => writeln!(f, "  and {more} lines more"),
        }
    }
}
