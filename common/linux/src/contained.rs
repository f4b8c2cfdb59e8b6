//! Calls a plugin of this binary inside the process.

use std::io;

use cni_core::error::Error;
use cni_core::request::{Environment, Request};
use cni_plugin::host::Host;
use cni_plugin::run::{Plugin, Process, run};

use crate::delegate::{ContainedPlugins, DelegateAnswer};
use crate::host::LinuxHost;
use crate::logger;

/// Replaces the process of a delegate.
struct ContainedProcess<'a> {
    contained: ContainedPlugins,
    stdin: &'a [u8],
    stdout: Vec<u8>,
    stderr: String,
}

impl Process for ContainedProcess<'_> {
    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.stdin.to_vec())
    }

    fn write_stdout(&mut self, text: &str) -> io::Result<()> {
        self.stdout.extend(text.as_bytes());
        Ok(())
    }

    fn write_stderr(&mut self, text: &str) {
        self.stderr.push_str(text);
    }

    fn host(&mut self, request: &Request) -> Result<Box<dyn Host>, Error> {
        Ok(Box::new(LinuxHost::new(request).with_contained(self.contained)))
    }
}

/// The parameters of a call inside the process.
#[derive(Clone, Copy, Debug)]
pub struct ContainedCall {
    /// The version of this release.
    pub version: &'static str,
    /// Calls the delegates of the plugin.
    pub contained: ContainedPlugins,
}

/// Calls a plugin of this release, and returns what its process would have printed.
pub fn call(plugin: &dyn Plugin, call: ContainedCall, environment: Environment, stdin: &[u8]) -> DelegateAnswer {
    let ContainedCall { version, contained } = call;
    let mut process = ContainedProcess { contained, stdin, stdout: Vec::new(), stderr: String::new() };
    let (status, said) = logger::of_delegate(plugin.kind(), || run(plugin, version, environment, &mut process));
    DelegateAnswer { is_success: status == 0, stdout: process.stdout, stderr: said + &process.stderr }
}
