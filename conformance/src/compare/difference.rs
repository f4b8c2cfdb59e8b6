//! Where two lives part.

use std::fmt;
use std::thread;

use super::accepted::{self, Side};
use super::history::History;
use super::replay::{Moment, Telling, Words, live};
use super::sets::{Maker, PluginSet};
use crate::state::differences;

/// Whether what may differ on purpose counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// Wanted differences between these plugins and the reference are passed over.
    Accept,
    /// Everything counts.
    Strict,
}

/// Two sets that are compared.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The set under test.
    pub plugins: PluginSet,
    /// What it is compared with.
    pub reference: PluginSet,
    /// What counts.
    pub acceptance: Acceptance,
}

/// The first step after which something is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its number in the history, from 0.
    pub step: usize,
    /// Lines of the reference alone (`- `) and of the plugins alone (`+ `).
    pub changes: Vec<String>,
}

impl Pair {
    /// Tells whether the tables of wanted differences are for this pair: one set is ours, the other is not.
    pub fn accepts(&self) -> bool {
        self.acceptance == Acceptance::Accept && (self.side(&self.plugins) != self.side(&self.reference))
    }

    /// Returns what both sets know.
    pub fn telling(&self) -> Telling {
        let words = if self.accepts() { Words::Own } else { Words::Compared };
        Telling { level: self.plugins.level.min(self.reference.level), words }
    }

    /// Lets both live through a history, and finds where they part.
    ///
    /// # Panics
    /// When a private host cannot be made.
    pub fn difference(&self, history: &History) -> Option<Difference> {
        let telling = self.telling();
        let [theirs, ours] = thread::scope(|scope| {
            let lives = [&self.reference, &self.plugins];
            let lives = lives.map(|set| scope.spawn(move || live(history, &set.folder, telling)));
            lives.map(|life| life.join().expect("a life ends with its last moment"))
        });
        (0..theirs.len().max(ours.len())).find_map(|step| {
            let changes = self.changes(theirs.get(step), ours.get(step));
            (!changes.is_empty()).then_some(Difference { step, changes })
        })
    }

    fn changes(&self, theirs: Option<&Moment>, ours: Option<&Moment>) -> Vec<String> {
        let (theirs, ours) = (theirs.cloned().unwrap_or_default(), ours.cloned().unwrap_or_default());
        let mut changes =
            differences(&self.told(&self.reference, theirs.printed), &self.told(&self.plugins, ours.printed));
        if let Some((theirs, ours)) = theirs.state.zip(ours.state) {
            let [mut theirs, mut ours] = [self.told(&self.reference, theirs), self.told(&self.plugins, ours)];
            theirs.sort();
            ours.sort();
            changes.extend(differences(&theirs, &ours));
        }
        changes
    }

    /// The lines of one set, without what may differ.
    fn told(&self, set: &PluginSet, lines: Vec<String>) -> Vec<String> {
        if self.accepts() { accepted::apply_in_histories(self.side(set), &lines) } else { lines }
    }

    fn side(&self, set: &PluginSet) -> Side {
        match set.maker {
            Maker::Ours => Side::Ours,
            Maker::Others => Side::Reference,
        }
    }
}

/// How many lines of a difference are shown.
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
