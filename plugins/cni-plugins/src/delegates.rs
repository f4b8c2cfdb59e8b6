//! Delegates that this binary contains, called inside the process.

use std::io;

use cni_core::error::Error;
use cni_core::request::{Environment, Request};
use cni_linux::delegate::DelegateAnswer;
use cni_linux::host::LinuxHost;
use cni_plugin::host::Host;
use cni_plugin::run::{Process, run};
use cni_plugin::share::Share;

use crate::logger;
use crate::plugins::{OUR_VERSION, PLUGINS};

/// What stands for the process of a delegate.
struct InPlace<'a> {
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
        Ok(Box::new(LinuxHost::new(request)?))
    }
}

/// Calls a plugin of this binary. One that has a share of attachments takes locks, which belong to the whole process,
/// so it gets a process of its own; IPAM plugins have none.
pub fn call(plugin: &str, environment: Environment, stdin: &[u8]) -> Option<DelegateAnswer> {
    let plugin = PLUGINS.into_iter().find(|one| one.kind() == plugin && one.share() == Share::Nothing)?;
    let mut process = InPlace { stdin, stdout: Vec::new(), stderr: String::new() };
    let (status, said) = logger::of_delegate(plugin.kind(), || run(plugin, OUR_VERSION, environment, &mut process));
    Some(DelegateAnswer { is_success: status == 0, stdout: process.stdout, stderr: said + &process.stderr })
}
