//! A daemon in memory, scripted with a plugin's own messages.

use std::collections::BTreeMap;
use std::io;

use cni_model::daemon::{DaemonCall, DaemonError};

/// Answers a question, and changes what the daemon holds: texts by texts.
pub type Answering = fn(&mut BTreeMap<String, String>, &str) -> String;

/// A daemon, which runs once its answers are set.
#[derive(Debug, Default)]
pub struct FakeDaemon {
    /// How it answers.
    pub answering: Option<Answering>,
    /// Its state.
    pub held: BTreeMap<String, String>,
    /// The questions that it received.
    pub asked: Vec<String>,
}

impl FakeDaemon {
    pub(crate) fn answer(&mut self, call: &DaemonCall) -> Result<Vec<u8>, DaemonError> {
        let Some(answering) = self.answering else {
            let source = io::Error::from(io::ErrorKind::ConnectionRefused);
            return Err(DaemonError::Absent { socket: call.socket.clone(), source });
        };
        self.asked.push(call.question.clone());
        Ok(answering(&mut self.held, &call.question).into_bytes())
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.held.iter().map(|(key, value)| format!("{key} {value}")).collect()
    }
}
