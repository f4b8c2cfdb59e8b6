//! One binary, many names: the name under which it is started, or that of a link on the way to it, selects the plugin.
//!
//! Under its own name it is the administrator's tool. Whatever fails inside a plugin, even by a panic, the runtime
//! gets a CNI error object.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use cni_admin::tool;
use cni_builtin::OUR_VERSION;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::json::MOST_BYTES;
use cni_core::request::{Environment, Request, version_of};
use cni_core::version::Version;
use cni_files::{find_program, links};
use cni_kernel::tun;
use cni_linux::host::LinuxHost;
use cni_linux::output::{answer_aborts, install_logger, survive_file_limit, write_answer};
use cni_linux::process::keep_ended_children;
use cni_plugin::host::Host;
use cni_plugin::run::{Process, error_text, run};

mod allocator;

#[global_allocator]
static ALLOCATOR: allocator::SharedMemory = allocator::SharedMemory::new();

fn main() -> ExitCode {
    if let Err(error) = keep_ended_children() {
        ThisProcess.write_stderr(&format!("programs may be taken for lost: SIGCHLD: {error}\n"));
    }
    let mut arguments = std::env::args_os();
    let started_as = arguments.next().unwrap_or_default();
    let Some(plugin) = cni_builtin::plugin_of_file(names(&started_as)) else {
        // Runtimes pass no arguments.
        let is_call =
            arguments.len() == 0 && std::env::var_os("CNI_COMMAND").is_some_and(|command| !command.is_empty());
        return if is_call { refuse(&started_as) } else { tool::run(arguments) };
    };
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(status) = run_role(plugin.kind(), &words) {
        return status;
    }
    report_panics();
    report_limits();
    install_logger(plugin.kind());
    ExitCode::from(run(plugin, OUR_VERSION, Environment::new(std::env::vars_os()), &mut ThisProcess))
}

/// The names of a program that was started: that of its path, those of the links that the path leads through, and that of the file.
fn names(started_as: &OsStr) -> impl Iterator<Item = String> + Clone {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_path = started_as.as_bytes().contains(&b'/');
    let found = started_as.to_str().filter(|_| !is_path).and_then(|name| find_program(name, &path));
    let links = links(found.unwrap_or_else(|| started_as.into()));
    let file = std::iter::once_with(|| fs::read_link("/proc/self/exe").unwrap_or_default());
    links.chain(file).filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
}

/// Runs another program that a plugin's name stands for with an argument, such as `dhcp daemon`; `None` if the words ask for none. Runtimes
/// pass no arguments.
fn run_role(name: &str, words: &[String]) -> Option<ExitCode> {
    let (first, rest) = words.split_first()?;
    match (name, first.as_str()) {
        ("dhcp", "daemon") => Some(cni_dhcp_daemon::run(rest)),
        tun::LABELLED => Some(ExitCode::from(tun::claim_standard_input(rest))),
        _ => None,
    }
}

/// Answers a runtime that has started the program under a name that selects no plugin.
fn refuse(name: &OsStr) -> ExitCode {
    let version = ThisProcess.read_stdin().map_or(Version::LATEST, |config| version_of(&config));
    let error = fail!(
        InvalidEnvironment,
        "no plugin is called {name:?}",
        details: "call the file as the plugin, PLUGIN-anything or anything-PLUGIN, or make it a link to such a file"
    );
    if let Err(failed) = ThisProcess.write_stdout(&error_text(&error, version)) {
        ThisProcess.write_stderr(&format!("{failed}\n"));
    }
    ExitCode::FAILURE
}

/// The hook runs before the process aborts, and ends it with the status of an error.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let error = fail!(Internal, "the plugin has a bug and stopped; please report it", details: "{panic}");
        let text = error_text(&error, Version::LATEST);
        if let Err(failed) = ThisProcess.write_stdout(&text) {
            ThisProcess.write_stderr(&format!("{failed}: {text}\n"));
        }
        std::process::exit(1);
    }));
}

/// A limit that ends the process otherwise is reported like any failure.
fn report_limits() {
    if let Err(error) = answer_aborts().and_then(|()| survive_file_limit()) {
        ThisProcess.write_stderr(&format!("limits of the process are not reported: {error}\n"));
    }
}

/// The process that runs this program.
struct ThisProcess;

impl Process for ThisProcess {
    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        // One byte more tells that there is too much.
        io::stdin().lock().take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write_stdout(&mut self, text: &str) -> io::Result<()> {
        write_answer(text)
    }

    /// A failure to write to standard error cannot be reported anywhere.
    fn write_stderr(&mut self, text: &str) {
        let _lost = io::stderr().lock().write_all(text.as_bytes());
    }

    fn host(&mut self, request: &Request) -> Result<Box<dyn Host>, Error> {
        Ok(Box::new(LinuxHost::new(request).with_contained(cni_builtin::call_delegate)))
    }
}
