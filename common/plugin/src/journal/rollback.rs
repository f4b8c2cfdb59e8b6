//! Takes back a failed ADD, in the order and with the care of DEL: as long as a link is left, its addresses stay reserved,
//! and so do the records by which DEL finds it.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_model::plan::Step;

use crate::host::Host;

/// Undoes something that is not a [`Step`].
pub type UndoFn = Box<dyn FnOnce() -> Result<(), Error>>;

/// Removes a link from a host, wherever it is.
pub type RemoveLinkFn = Box<dyn FnOnce(&mut dyn Host) -> Result<(), Error>>;

/// When a rollback has a delegated plugin take back its ADD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseTime {
    /// At its turn: it needs what was made before its ADD.
    InTurn,
    /// After everything else, and only if no link is left: a link may have its addresses.
    AfterLinks,
}

/// Undoes one change.
pub(super) enum UndoAction {
    Step(Step),
    Link(RemoveLinkFn),
    Delegate { plugin: String, time: ReleaseTime },
    Plugin { plugin: String, request: Box<Request> },
    Release(UndoFn),
}

/// A rollback on its way.
struct Rollback<'a> {
    host: &'a mut dyn Host,
    error: Error,
    notes: Vec<String>,
    is_link_left: bool,
    /// The delegated plugins to be called at the end.
    delegates: Vec<String>,
}

/// Takes these actions, the last one first. A failure with the message of the error is not repeated: a delegate that
/// cannot be started fails DEL as it failed ADD.
pub(super) fn take_back(actions: Vec<UndoAction>, host: &mut dyn Host, error: Error) -> Error {
    let mut rollback = Rollback { host, error, notes: Vec::new(), is_link_left: false, delegates: Vec::new() };
    actions.into_iter().rev().for_each(|action| rollback.take(action));
    rollback.release();
    rollback.notes.into_iter().fold(rollback.error, Error::with_note)
}

impl Rollback<'_> {
    fn take(&mut self, action: UndoAction) {
        let undone = match action {
            UndoAction::Step(step) => self.undo(&step),
            UndoAction::Link(remove) => {
                let removed = remove(self.host);
                self.is_link_left |= removed.is_err();
                removed
            }
            UndoAction::Delegate { plugin, time: ReleaseTime::InTurn } => self.delete(&plugin),
            UndoAction::Delegate { plugin, time: ReleaseTime::AfterLinks } => {
                self.delegates.push(plugin);
                Ok(())
            }
            UndoAction::Plugin { plugin, request } => {
                self.host.delegate(&plugin, Command::Del, Some(&request)).map(drop)
            }
            UndoAction::Release(release) => release(),
        };
        self.note(undone);
    }

    fn undo(&mut self, step: &Step) -> Result<(), Error> {
        if self.is_link_left && matches!(step, Step::WriteRecord { .. } | Step::RemoveRecord { .. }) {
            return Ok(());
        }
        let undone = carry_out(step, self.host);
        let is_of_link = matches!(step, Step::RemoveLink { .. } | Step::RemoveLinkByIndex { .. } | Step::MoveLink(_));
        self.is_link_left |= is_of_link && undone.is_err();
        undone
    }

    fn delete(&mut self, plugin: &str) -> Result<(), Error> {
        self.host.delegate(plugin, Command::Del, None).map(drop)
    }

    fn release(&mut self) {
        for plugin in std::mem::take(&mut self.delegates) {
            if self.is_link_left {
                self.notes
                    .push(format!("and {plugin} keeps the addresses until DEL: the interface may still have them"));
            } else {
                let released = self.delete(&plugin);
                self.note(released);
            }
        }
    }

    fn note(&mut self, undone: Result<(), Error>) {
        if let Err(failed) = undone
            && failed.to_string() != self.error.to_string()
        {
            self.notes.push(format!("and while undoing: {}", failed.in_full()));
        }
    }
}

/// A link that is missing was deleted, by itself or with its other end or its namespace.
fn carry_out(step: &Step, host: &mut dyn Host) -> Result<(), Error> {
    let Err(error) = host.apply(step) else { return Ok(()) };
    if let Step::RemoveLinkByIndex { ns, index } = step
        && host.link_by_index(*ns, *index)?.is_none()
    {
        return Ok(());
    }
    Err(error)
}
