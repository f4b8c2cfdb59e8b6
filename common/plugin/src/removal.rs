//! Removal on DEL and GC: every part is tried, and the first error is reported at the end.
//!
//! After a failure a runtime may try again or give up. In both cases everything that could be removed is removed.

use crate::host::Host;
use cni_core::error::{Error, Failures};
use cni_model::plan::{Plan, Step};

/// A removal on its way: a host, and what has failed on it so far.
pub struct Removal<'a> {
    host: &'a mut dyn Host,
    failures: Failures,
}

impl<'a> Removal<'a> {
    /// Begins on a host.
    pub fn new(host: &'a mut dyn Host) -> Self {
        Self { host, failures: Failures::default() }
    }

    /// Does a part of the work; its failure does not keep the others. `None` when it failed.
    pub fn attempt<T>(&mut self, work: impl FnOnce(&mut dyn Host) -> Result<T, Error>) -> Option<T> {
        self.failures.keep(work(self.host))
    }

    /// Carries out a step.
    pub fn step(&mut self, step: &Step) {
        self.attempt(|host| host.apply(step));
    }

    /// Carries out the steps of a plan, each of which needs those before it: stops at the first that fails.
    pub fn in_order(&mut self, plan: &Plan) {
        self.attempt(|host| host.carry_out(plan));
    }

    /// Ends the removal.
    pub fn finish(self) -> Result<(), Error> {
        self.failures.into_result()
    }
}
