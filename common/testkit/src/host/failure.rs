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

    /// Lets root in the container change something just before the next step whose text contains these words.
    pub fn interfere_before(&mut self, words: &'static str, interference: fn(&mut Self)) {
        self.interference = Some((words, interference));
    }

    /// Whether a change that is made to fail has not been tried yet.
    pub const fn is_to_fail(&self) -> bool {
        self.failing.is_some()
    }

    /// Counts a change, and fails if it is the one that is to.
    pub(super) fn count(&mut self, change: String) -> Result<(), Error> {
        self.applied.push(change.clone());
        if self.failing == Some(self.applied.len()) {
            self.failing = None;
            return Err(RefusedStep { step: change }.into());
        }
        Ok(())
    }
}
