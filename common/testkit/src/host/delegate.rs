//! Delegated plugins, which answer as an IPAM plugin does.

use std::collections::BTreeSet;

use cni_core::error::{Code, Error, Failure};
use cni_core::request::{Command, Request};

use super::FakeHost;

/// The answers of the IPAM plugin.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeIpam {
    answer: String,
    /// The answers that ADD has given and DEL has not taken back.
    pub(super) leases: BTreeSet<String>,
    /// The command that fails, and the code of its error.
    failing: Option<(Command, u32)>,
    calls: Vec<String>,
    /// The calls with a configuration of their own.
    inputs: Vec<String>,
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

impl FakeHost {
    /// Lets every IPAM plugin answer ADD with this result, as JSON, and release its addresses on DEL.
    #[must_use]
    pub fn with_ipam(mut self, answer: &str) -> Self {
        self.set_ipam(answer);
        self
    }

    /// Lets every IPAM plugin answer ADD with this result from now on: the calls that come are another
    /// container's.
    pub fn set_ipam(&mut self, answer: &str) {
        answer.clone_into(&mut self.ipam.answer);
    }

    /// Lets the IPAM plugin fail at a command, or at none.
    pub fn fail_delegate(&mut self, command: Option<Command>) {
        self.ipam.failing = command.map(|command| (command, 100));
    }

    /// Lets the IPAM plugin fail at a command with an error of this code.
    pub fn fail_delegate_with(&mut self, command: Command, code: Code) {
        self.ipam.failing = Some((command, code.number()));
    }

    /// The calls of plugins with a configuration of their own, as `plugin COMMAND configuration`.
    pub fn inputs(&self) -> &[String] {
        &self.ipam.inputs
    }

    /// The calls of delegates, as `plugin COMMAND`.
    pub fn delegated(&self) -> &[String] {
        &self.ipam.calls
    }

    /// A plugin that is called with its own configuration answers as an IPAM plugin does.
    pub(super) fn call_delegate(
        &mut self,
        plugin: &str,
        command: Command,
        other: Option<&Request>,
    ) -> Result<Vec<u8>, Error> {
        let input = other.map(|request| String::from_utf8_lossy(request.stdin()).into_owned());
        self.ipam.inputs.extend(input.map(|input| format!("{plugin} {} {input}", command.as_str())));
        self.ipam.calls.push(format!("{plugin} {}", command.as_str()));
        if command == Command::Add {
            self.count(format!("delegate ADD to {plugin}"))?;
        }
        if let Some((_, code)) = self.ipam.failing.filter(|(failing, _)| *failing == command) {
            return Err(DelegateFailed { plugin: plugin.to_owned(), code }.into());
        }
        match command {
            Command::Add => {
                self.ipam.leases.insert(self.ipam.answer.clone());
                Ok(self.ipam.answer.clone().into_bytes())
            }
            Command::Del => {
                self.ipam.leases.remove(&self.ipam.answer);
                Ok(Vec::new())
            }
            Command::Check | Command::Status | Command::Gc => Ok(Vec::new()),
        }
    }
}
