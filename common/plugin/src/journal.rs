//! The rollback journal: carries out an ADD, and undoes what is the attachment's own when it fails.
//!
//! Undo runs in reverse order and never replaces the first error; what cannot be undone is noted in its
//! details. Shared objects stay, since another container may be using them already.

use crate::host::Host;
use crate::plan::{Plan, Sharing, Step};
use cni_core::error::Error;
use cni_core::json::Json;
use cni_core::request::{Command, Request};
use cni_core::result::{CniResult, ResultError};

/// Undoes something that is not a [`Step`].
pub type Release = Box<dyn FnOnce() -> Result<(), Error>>;

enum Undo {
    Step(Step),
    Delegate(String),
    Release(Release),
}

/// A host on which every owned change is remembered until [`Journal::commit`].
pub struct Journal<'a> {
    host: &'a mut dyn Host,
    undo: Vec<Undo>,
}

/// A delegated plugin answered ADD with something that is not a result.
#[derive(Debug, thiserror::Error)]
pub enum DelegateAnswerError {
    /// Its output is not JSON.
    #[error("failed to unmarshal raw result of {plugin}")]
    Json {
        /// The delegated plugin.
        plugin: String,
        /// What is wrong with it.
        #[source]
        source: cni_core::json::JsonError,
    },
    /// Its output is not a result.
    #[error("{plugin} returned an invalid result")]
    Result {
        /// The delegated plugin.
        plugin: String,
        /// What is wrong with it.
        #[source]
        source: ResultError,
    },
}

impl cni_core::error::Failure for DelegateAnswerError {
    fn code(&self) -> cni_core::error::Code {
        match self {
            Self::Json { .. } | Self::Result { .. } => cni_core::error::Code::Decoding,
        }
    }
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
            self.undo.extend(undo.map(Undo::Step));
            applied?;
        }
        Ok(())
    }

    /// Delegates ADD to an IPAM plugin, and reads its result.
    ///
    /// # Errors
    /// The delegate's own, or why its output is not a result.
    pub fn delegate_add(&mut self, plugin: &str, request: &Request) -> Result<CniResult, Error> {
        let output = self.host.delegate(plugin, Command::Add)?;
        self.undo.push(Undo::Delegate(plugin.to_owned()));
        let json =
            Json::parse(&output).map_err(|source| DelegateAnswerError::Json { plugin: plugin.to_owned(), source })?;
        let result = CniResult::parse_any(&json, request.version)
            .map_err(|source| DelegateAnswerError::Result { plugin: plugin.to_owned(), source })?;
        Ok(result)
    }

    /// Has this done first if all is taken back now, although what it takes back was made earlier, and is taken back again at
    /// its turn: a link goes before its addresses are given to others.
    pub fn undo_first(&mut self, step: Step) {
        self.undo.push(Undo::Step(step));
    }

    /// Remembers how to undo something that was done outside the journal.
    pub fn on_failure(&mut self, release: Release) {
        self.undo.push(Undo::Release(release));
    }

    /// Keeps everything.
    pub fn commit(self) {}

    /// Takes everything back, and returns the error that was the reason, with what could not be undone.
    pub fn rollback(mut self, mut error: Error) -> Error {
        while let Some(undo) = self.undo.pop() {
            let undone = match undo {
                Undo::Step(step) => self.host.apply(&step).map(|_| ()),
                Undo::Delegate(plugin) => self.host.delegate(&plugin, Command::Del).map(|_| ()),
                Undo::Release(release) => release(),
            };
            if let Err(failed) = undone {
                error = error.with_note(format!("and while undoing: {}", failed.in_full()));
            }
        }
        error
    }
}
