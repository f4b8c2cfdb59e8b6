//! Changes that are made to fail, and changes by others between two steps.

use cni_core::error::{Code, Error, Failure};

use super::{FakeHost, REFUSAL};

/// A step that is made to fail.
#[derive(Debug, thiserror::Error)]
#[error("{REFUSAL}: {step}")]
struct RefusedStep {
    step: String,
}

impl Failure for RefusedStep {
    fn code(&self) -> Code {
        Code::Kernel
    }
}

impl FakeHost {
    /// Lets the change of this number, counted from 1, fail, once. Steps count, and a delegated ADD.
    pub fn fail_at(&mut self, number: usize) {
        self.failing = Some(number);
    }

    /// Lets every step fail whose text contains these words, until it is called again.
    pub const fn refuse_steps(&mut self, words: Option<&'static str>) {
        self.refused = words;
    }

    /// Lets root in the container change something just before the next step whose text contains these words.
    pub fn interfere_before(&mut self, words: &'static str, interference: fn(&mut Self)) {
        self.interference = Some((words, interference));
    }

    /// Whether a change that is made to fail has not been tried yet.
    pub const fn is_to_fail(&self) -> bool {
        self.failing.is_some()
    }

    /// Counts a change, and fails if a test has asked for that.
    pub(super) fn count(&mut self, change: String) -> Result<(), Error> {
        self.applied.push(change.clone());
        let fails = self.failing.take_if(|number| *number == self.applied.len()).is_some();
        if fails || self.refused.is_some_and(|words| change.contains(words)) {
            return Err(RefusedStep { step: change }.into());
        }
        Ok(())
    }
}
