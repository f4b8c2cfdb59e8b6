//! The IPAM plugin of the host in memory.

use std::collections::BTreeSet;

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Command;

/// The answers of the IPAM plugin.
#[derive(Clone, Debug, Default)]
pub struct FakeIpam {
    pub answer: String,
    /// The answers that ADD has given and DEL has not taken back.
    pub leases: BTreeSet<String>,
    /// The command that fails, and the code of its error.
    pub failing: Option<(Command, u32)>,
    pub calls: Vec<String>,
    /// The calls with a configuration of their own.
    pub inputs: Vec<String>,
}

/// A delegated plugin that says it has failed.
#[derive(Debug, thiserror::Error)]
#[error("{plugin} has failed")]
struct DelegateFailed {
    plugin: String,
    code: u32,
}

impl Failure for DelegateFailed {
    fn code(&self) -> Code {
        Code::Delegated(self.code)
    }
}

impl FakeIpam {
    /// Answers a command, or fails.
    pub fn call(&mut self, plugin: &str, command: Command) -> Result<Vec<u8>, Error> {
        if let Some((_, code)) = self.failing.filter(|(failing, _)| *failing == command) {
            return Err(DelegateFailed { plugin: plugin.to_owned(), code }.into());
        }
        match command {
            Command::Add => {
                self.leases.insert(self.answer.clone());
                Ok(self.answer.clone().into_bytes())
            }
            Command::Del => {
                self.leases.remove(&self.answer);
                Ok(Vec::new())
            }
            Command::Check | Command::Status | Command::Gc => Ok(Vec::new()),
        }
    }
}
