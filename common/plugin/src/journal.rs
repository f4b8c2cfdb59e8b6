//! The rollback journal: carries out an ADD, and undoes the changes that belong to the attachment if ADD fails.
//!
//! The undo steps run in reverse order and never replace the first error; an undo step that fails is noted in its
//! details. Shared objects stay, since another container may use them already.

use crate::host::Host;
use cni_core::error::{Code, Error};
use cni_core::request::{Command, Request};
use cni_model::plan::{Plan, Sharing, Step};

/// Undoes something that is not a [`Step`].
pub type UndoFn = Box<dyn FnOnce() -> Result<(), Error>>;

enum UndoAction {
    Step(Step),
    Delegate { plugin: String, other: Option<Box<Request>> },
    Release(UndoFn),
}

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

    /// On rollback, calls a delegated plugin with DEL.
    pub fn release_delegate(&mut self, plugin: &str) {
        self.undo.push(UndoAction::Delegate { plugin: plugin.to_owned(), other: None });
    }

    /// On rollback, calls a plugin with DEL, and with the environment and the input of another request.
    pub fn release_plugin(&mut self, plugin: &str, request: &Request) {
        self.undo.push(UndoAction::Delegate { plugin: plugin.to_owned(), other: Some(Box::new(request.clone())) });
    }

    /// On rollback, carries out this step before the undo steps of everything so far: a link is removed, or an address
    /// taken off it, before its addresses are released. The link's own undo step follows at its turn.
    pub fn undo_first(&mut self, step: Step) {
        self.undo.push(UndoAction::Step(step));
    }

    /// Remembers how to undo something that was done outside the journal.
    pub fn on_failure(&mut self, release: UndoFn) {
        self.undo.push(UndoAction::Release(release));
    }

    /// Keeps everything.
    pub fn commit(self) {}

    /// Takes everything back, and returns the error that was the reason, with what could not be undone. A failure with the
    /// same message is not repeated: a delegate that cannot be started fails DEL as it failed ADD.
    ///
    /// As long as a link or its address cannot be taken away, no delegated plugin is called: another container would get
    /// the address. If it stays, the delegated plugins are left to DEL. A state file stays if the delegated plugin was called with DEL and
    /// failed: it says how to call it again.
    pub fn rollback(mut self, mut error: Error) -> Error {
        // Whether a link of this attachment may still have an address.
        let (mut is_held, mut waiting) = (false, Vec::new());
        let mut keeps_state = false;
        while let Some(undo) = self.undo.pop() {
            if is_held && matches!(undo, UndoAction::Delegate { .. }) {
                waiting.push(undo);
                continue;
            }
            let step = if let UndoAction::Step(step) = &undo { Some(step) } else { None };
            if keeps_state && matches!(step, Some(Step::WriteStateFile { .. } | Step::RemoveStateFile { .. })) {
                continue;
            }
            let frees_all = step.is_some_and(Step::takes_link_away);
            let frees_one = step.is_some_and(Step::takes_address_away);
            let is_delegate = step.is_none();
            let undone = self.carry_out(undo);
            // A plugin that is missing was not called by ADD either.
            let is_missing = |failed: &Error| {
                failed.code().number() == Code::Program.number() && failed.to_string() == error.to_string()
            };
            keeps_state |= is_delegate && undone.as_ref().is_err_and(|failed| !is_missing(failed));
            if frees_all {
                is_held = undone.is_err();
            } else if frees_one {
                is_held |= undone.is_err();
            }
            error = noted(error, undone);
        }
        if is_held && !waiting.is_empty() {
            return error.with_note(
                "the addresses stay reserved until DEL, since the interface may still have them".to_owned(),
            );
        }
        waiting.into_iter().fold(error, |error, delegate| noted(error, self.carry_out(delegate)))
    }

    fn carry_out(&mut self, undo: UndoAction) -> Result<(), Error> {
        match undo {
            UndoAction::Step(step) => self.host.apply(&step).map(|_| ()),
            UndoAction::Delegate { plugin, other } => {
                self.host.delegate(&plugin, Command::Del, other.as_deref()).map(|_| ())
            }
            UndoAction::Release(release) => release(),
        }
    }
}

/// An error with the note that something could not be undone.
fn noted(error: Error, undone: Result<(), Error>) -> Error {
    match undone {
        Err(failed) if failed.to_string() != error.to_string() => {
            error.with_note(format!("and while undoing: {}", failed.in_full()))
        }
        Ok(()) | Err(_) => error,
    }
}
