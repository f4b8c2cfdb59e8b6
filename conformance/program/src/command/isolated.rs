//! Runs a process in its own process namespace: when it ends or is killed, all its children end.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// A program that ends with the thread that starts it, and is the first process of its namespace.
pub fn command(program: &Path) -> Command {
    let mut command = Command::new("/usr/bin/setpriv");
    command.args(["--pdeathsig", "KILL", "/usr/bin/unshare", "--pid", "--fork", "--kill-child=KILL"]).arg(program);
    command
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

/// Makes this process, the first of its namespace, see that namespace in `/proc`.
pub fn settle() -> io::Result<()> {
    let none = None::<&str>;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none)?;
    Ok(())
}
