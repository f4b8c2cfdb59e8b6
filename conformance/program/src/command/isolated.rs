//! Runs a process in its own process namespace: when it ends or is killed, all its children end.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The outcome of a process.
#[derive(Debug)]
pub struct ProcessOutput {
    /// Its exit status; `None` if it was killed at the end of its time limit.
    pub status: Option<ExitStatus>,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Its running time.
    pub elapsed: Duration,
}

/// Runs a program as the first process of a new process namespace, and ends all of them when the time is up.
pub fn run(command: Command, limit: Duration) -> io::Result<ProcessOutput> {
    let started = Instant::now();
    let (mut child, ended) = start(command)?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    // The thread that has started it waits for it.
    ended.go.send(child).map_err(io::Error::other)?;
    let status = match ended.status.recv_timeout(limit) {
        Ok(status) => Some(status?),
        Err(_) => {
            kill(pid, Signal::SIGKILL)?;
            // It is dead, and so is all that it has started.
            drop(ended.status.recv());
            None
        }
    };
    let text = |pipe: Receiver<String>| pipe.recv().unwrap_or_default();
    Ok(ProcessOutput { status, stdout: text(stdout), stderr: text(stderr), elapsed: started.elapsed() })
}

/// The channels of the thread that waits for a process: one passes the process, the other its end.
struct ProcessWaiter {
    go: mpsc::Sender<Child>,
    status: Receiver<io::Result<ExitStatus>>,
}

/// Starts it from a thread of its own, since a thread can make but one process namespace. The thread stays until the end: a
/// process that asks to be killed with its parent means the thread.
fn start(mut command: Command) -> io::Result<(Child, ProcessWaiter)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (started, child) = mpsc::channel();
    let (go, waited_for) = mpsc::channel::<Child>();
    let (tell, status) = mpsc::channel();
    thread::spawn(move || {
        let spawned = unshare(CloneFlags::CLONE_NEWPID).map_err(io::Error::from).and_then(|()| command.spawn());
        // The receiver waits until the answer has come.
        drop(started.send(spawned));
        if let Ok(mut child) = waited_for.recv() {
            drop(tell.send(child.wait()));
        }
    });
    let child = child.recv().map_err(io::Error::other)??;
    Ok((child, ProcessWaiter { go, status }))
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe
            && let Err(error) = pipe.read_to_end(&mut bytes)
        {
            bytes.extend(format!("\n(reading this failed: {error})").bytes());
        }
        drop(sender.send(String::from_utf8_lossy(&bytes).into_owned()));
    });
    receiver
}

/// Where private hosts mount a folder of plugins that they hide otherwise.
pub const SHOWN: &str = "/mnt/cni-conformance";

/// Shows a folder, to this process and its children, where private hosts do not hide it.
pub fn show(folder: &Path) -> io::Result<()> {
    let none = None::<&str>;
    mount(Some("tmpfs"), "/mnt", Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))?;
    fs::create_dir(SHOWN)?;
    mount(Some(folder), SHOWN, none, MsFlags::MS_BIND, none)?;
    Ok(())
}

/// Makes this process, the first of its namespace, see that namespace in `/proc`, and end with the one that has started it.
pub fn settle() -> io::Result<()> {
    let none = None::<&str>;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none)?;
    Ok(())
}
