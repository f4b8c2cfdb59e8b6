//! Child processes with a time limit.
//!
//! Every child runs in its own process group. A child that exceeds its limit is killed with its whole group; the test
//! decides whether that is a failure.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use wait4::Wait4;

/// The time limit of an ordinary child. It ends only what hangs: a call has taken 30 s while another suite ran on the same two cores.
pub const DEADLINE: Duration = Duration::from_secs(90);

/// How long the pipes may stay open after the child itself has ended.
const DRAIN: Duration = Duration::from_secs(60);

/// What happens at the end of the time limit.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    /// The child should have ended: kill it and fail the test.
    Fail(Duration),
    /// The test wants the child killed at this moment if it still runs.
    Kill(Duration),
}

/// A child that is killed when this is dropped.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The outcome of a child.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its command line, for messages.
    pub label: String,
    /// Its exit code, or `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// The time from start to end.
    pub elapsed: Duration,
    /// The resources that it used, with all children that it waited for.
    pub usage: Usage,
}

/// The resources that a child used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The processors' time, of the program and of the kernel for it.
    pub cpu: Duration,
    /// The most memory that was resident, in bytes: of the child, or of the largest of its children.
    pub memory: u64,
}

impl Finished {
    /// Returns itself when the child ended with status 0.
    ///
    /// # Panics
    /// Otherwise, with all that the child said.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        assert!(
            self.code == Some(0),
            "{} ended with {:?}\nstdout: {}\nstderr: {}",
            self.label,
            self.code,
            self.stdout,
            self.stderr
        );
        self
    }
}

/// Runs a child to its end.
///
/// # Panics
/// When it cannot be started, or by [`Limit::Fail`].
#[track_caller]
pub fn run(mut command: Command, input: &[u8], limit: Limit) -> Finished {
    let label = label_of(&command);
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("start {label}: {error}"));
    feed(&mut child, input);
    let stdout = collect(child.stdout.take().expect("stdout is piped"));
    let stderr = collect(child.stderr.take().expect("stderr is piped"));
    let (ChildEnd { status, elapsed, usage }, late) = wait(child, started, limit);
    let stdout = drained(&stdout, &label);
    let stderr = drained(&stderr, &label);
    assert!(!late, "{label} still ran after {elapsed:?}\nstdout: {stdout}\nstderr: {stderr}");
    Finished { label, code: status.code(), stdout, stderr, elapsed, usage }
}

fn label_of(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Writes the input in another thread; the child may ignore it.
fn feed(child: &mut Child, input: &[u8]) {
    let mut pipe = child.stdin.take().expect("stdin is piped");
    if input.is_empty() {
        return;
    }
    let input = input.to_vec();
    thread::spawn(move || match pipe.write_all(&input) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
        Err(error) => panic!("write to a child's stdin: {error}"),
    });
}

fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("read a child's output");
        // Nobody waits any more when the test already failed.
        drop(sender.send(String::from_utf8_lossy(&bytes).into_owned()));
    });
    receiver
}

fn drained(pipe: &Receiver<String>, label: &str) -> String {
    pipe.recv_timeout(DRAIN).unwrap_or_else(|_| panic!("{label} left a process behind that holds its output open"))
}

struct ChildEnd {
    status: ExitStatus,
    elapsed: Duration,
    usage: Usage,
}

/// Waits for the child. Returns its end, and whether it had to be killed although the test did not ask for it. It does
/// not poll, so that the measured time is right.
fn wait(mut child: Child, started: Instant, limit: Limit) -> (ChildEnd, bool) {
    let (Limit::Fail(time) | Limit::Kill(time)) = limit;
    let group = Pid::from_raw(i32::try_from(child.id()).expect("a pid fits"));
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || {
        let used = child.wait4().expect("wait for a child");
        let usage = Usage { cpu: used.rusage.utime + used.rusage.stime, memory: used.rusage.maxrss };
        // Nobody waits any more when the test already failed.
        drop(sender.send(ChildEnd { status: used.status, elapsed: started.elapsed(), usage }));
    });
    match ended.recv_timeout(time.saturating_sub(started.elapsed())) {
        Ok(ended) => (ended, false),
        Err(_) => {
            match killpg(group, Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => panic!("kill a child's process group: {errno}"),
            }
            (ended.recv().expect("a killed child ends"), matches!(limit, Limit::Fail(_)))
        }
    }
}
