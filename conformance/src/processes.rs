//! Counts the processes that a plugin starts, and the messages that they send to the kernel.
//!
//! The plugin runs under `strace`, which writes one file for each process; each successful `execve` counts as one
//! program, the plugin's own first. Data with a netlink header counts as one message, or as a batch of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sandbox::OWN;

/// A program that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedProgram {
    /// The path given to `execve`.
    pub program: String,
    /// The whole call as `strace` writes it.
    pub call: String,
}

impl StartedProgram {
    /// Returns the file name of the program.
    pub fn name(&self) -> &str {
        Path::new(&self.program).file_name().and_then(|name| name.to_str()).unwrap_or(&self.program)
    }

    fn parse(line: &str) -> Option<Self> {
        let rest = line.strip_prefix("execve(\"")?;
        let (program, _) = rest.split_once('"')?;
        line.ends_with(" = 0").then(|| Self { program: program.to_owned(), call: line.to_owned() })
    }
}

/// The trace of one run.
#[derive(Debug, Clone)]
pub(crate) struct Trace {
    /// The programs that ran, the first one first.
    pub(crate) processes: Vec<StartedProgram>,
    /// The number of messages that they sent to netlink sockets.
    pub(crate) messages: usize,
}

/// The files of one traced run.
#[derive(Debug)]
pub(crate) struct Tracer {
    folder: PathBuf,
}

impl Tracer {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        assert!(Path::new("/usr/bin/strace").exists(), "/usr/bin/strace is missing: install the package strace");
        let folder = Path::new(OWN).join(format!("trace{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&folder).unwrap_or_else(|error| panic!("create {}: {error}", folder.display()));
        Self { folder }
    }

    /// Returns a command that runs the program under observation.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/usr/bin/strace");
        command.args(["-ff", "-qq", "-s", "1024", "-e", "trace=execve,sendto,sendmsg", "-e", "signal=none", "-o"]);
        command.arg(self.folder.join("p")).arg("--").arg(program);
        command
    }

    /// Returns what was seen.
    pub(crate) fn finish(self) -> Trace {
        let mut files: Vec<(u32, PathBuf)> = fs::read_dir(&self.folder)
            .expect("list the traces")
            .map(|entry| entry.expect("read the list of traces").path())
            .map(|path| (process_id(&path), path))
            .collect();
        files.sort();
        let (mut processes, mut messages) = (Vec::new(), 0);
        for (_, path) in files {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
            processes.extend(text.lines().filter_map(StartedProgram::parse));
            messages += text.lines().filter(|line| line.contains("nlmsg_len=")).count();
        }
        assert!(!processes.is_empty(), "strace saw no process start at all");
        Trace { processes, messages }
    }
}

fn process_id(trace: &Path) -> u32 {
    let number = trace.extension().and_then(|number| number.to_str()).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{} is not a trace", trace.display()))
}
