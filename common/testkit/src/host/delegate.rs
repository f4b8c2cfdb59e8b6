//! Delegated plugins, which answer as an IPAM plugin does.

use cni_core::error::{Code, Error};
use cni_core::request::{Command, Request};

use super::FakeHost;

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
        self.ipam.call(plugin, command)
    }
}
