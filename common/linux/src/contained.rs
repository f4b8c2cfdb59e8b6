//! A plugin that the program contains, called inside the process.

use std::io;

use cni_core::error::Error;
use cni_core::request::{Environment, Request};
use cni_plugin::host::Host;
use cni_plugin::run::{Plugin, Process, run};

use crate::delegate::{Contained, DelegateAnswer};
use crate::host::LinuxHost;
use crate::logger;

/// What stands for the process of a delegate.
struct InPlace<'a> {
    contained: Contained,
    stdin: &'a [u8],
    stdout: Vec<u8>,
    stderr: String,
}

impl Process for InPlace<'_> {
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
        Ok(Box::new(LinuxHost::new(request)?.with_contained(self.contained)))
    }
}

/// What a call inside the process depends on.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The version of this release.
    pub version: &'static str,
    /// Calls the delegates of the plugin.
    pub contained: Contained,
}

/// Calls a plugin of this release, and returns what its process would have printed.
pub fn call(plugin: &dyn Plugin, call: Call, environment: Environment, stdin: &[u8]) -> DelegateAnswer {
    let Call { version, contained } = call;
    let mut process = InPlace { contained, stdin, stdout: Vec::new(), stderr: String::new() };
    let (status, said) = logger::of_delegate(plugin.kind(), || run(plugin, version, environment, &mut process));
    DelegateAnswer { is_success: status == 0, stdout: process.stdout, stderr: said + &process.stderr }
}
