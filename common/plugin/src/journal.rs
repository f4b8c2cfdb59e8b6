//! The rollback journal: carries out an ADD, and undoes the changes that belong to the attachment if ADD fails.
//!
//! The undo steps run in reverse order and never replace the first error; an undo step that fails is noted in its
//! details. Shared objects stay, since another container may use them already. As on DEL, addresses are released last, and
//! only if no interface is left that may have them.

use crate::host::Host;
use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_model::plan::{Plan, Sharing, Step};

mod rollback;

use rollback::UndoAction;
pub use rollback::{ReleaseTime, RemoveLinkFn, UndoFn};

/// A host on which every owned change is remembered until [`Journal::commit`].
pub struct Journal<'a> {
    host: &'a mut dyn Host,
    undo: Vec<UndoAction>,
}

impl<'a> Journal<'a> {
    /// Opens an empty journal on a host.
    pub fn new(host: &'a mut dyn Host) -> Self {
        Self { host, undo: Vec::new() }
    }

    /// The host, to be asked.
    pub fn host(&mut self) -> &mut dyn Host {
        self.host
    }

    /// Carries out a plan, step by step.
    ///
    /// # Errors
    /// That of the first step that fails; the steps before it stay in the journal.
    pub fn apply(&mut self, plan: &Plan) -> Result<(), Error> {
        for (sharing, step) in plan.steps() {
            let applied = self.host.apply(step);
            let undo = match (sharing, &applied) {
                (Sharing::Owned, Ok(undo)) => undo.clone().or_else(|| step.inverse()),
                // The kernel's answer may have been lost on its way, so the change may have been made.
                (Sharing::Owned, Err(_)) => step.inverse_of_attempt(),
                (Sharing::Within | Sharing::Shared, _) => None,
            };
            self.undo.extend(undo.map(UndoAction::Step));
            applied?;
        }
        Ok(())
    }

    /// Calls a delegated plugin with ADD, and returns what it printed. On rollback the plugin is called with DEL.
    ///
    /// # Errors
    /// The delegate's own error. Then it is not called with DEL unless [`Journal::release_delegate`] says so.
    pub fn delegate_add(&mut self, plugin: &str, time: ReleaseTime) -> Result<Vec<u8>, Error> {
        let output = self.host.delegate(plugin, Command::Add, None)?;
        self.release_delegate(plugin, time);
        Ok(output)
    }

    /// On rollback, calls a delegated plugin with DEL.
    pub fn release_delegate(&mut self, plugin: &str, time: ReleaseTime) {
        self.undo.push(UndoAction::Delegate { plugin: plugin.to_owned(), time });
    }

    /// On rollback, calls a plugin with DEL, and with the environment and the input of another request.
    pub fn release_plugin(&mut self, plugin: &str, request: &Request) {
        self.undo.push(UndoAction::Plugin { plugin: plugin.to_owned(), request: Box::new(request.clone()) });
    }

    /// On rollback, removes a link before the undo steps of everything so far. While that fails, no address is released, and
    /// the records stay which DEL needs to remove the link.
    pub fn remove_link_by(&mut self, remove: RemoveLinkFn) {
        self.undo.push(UndoAction::Link(remove));
    }

    /// On rollback, carries out this step before the undo steps of everything so far.
    pub fn undo_first(&mut self, step: Step) {
        self.undo.push(UndoAction::Step(step));
    }

    /// Remembers how to undo something that was done outside the journal.
    pub fn on_failure(&mut self, release: UndoFn) {
        self.undo.push(UndoAction::Release(release));
    }

    /// Keeps everything.
    pub fn commit(self) {}

    /// Takes everything back, and returns the error that was the reason, with what could not be undone.
    pub fn rollback(self, error: Error) -> Error {
        rollback::take_back(self.undo, self.host, error)
    }
}
