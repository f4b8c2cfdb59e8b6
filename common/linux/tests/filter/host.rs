//! A host of one flavour of iptables: namespaces of its own, and programs that tell when they are run.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use cni_core::family::Family;
use cni_linux::filter::RestoreTables;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

/// Where the rules end up in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    Nft,
    Legacy,
}

/// The namespaces of the calling thread, with one flavour of iptables.
pub struct Host {
    pub flavour: Flavour,
    pub family: Family,
    programs: TempDir,
}

/// Runs a test on a new host of every kind.
pub fn everywhere(test: impl Fn(&Host) + Sync) {
    on(Flavour::Nft, &test);
    on(Flavour::Legacy, &test);
}

/// Runs a test on a new host of one flavour, for each family. The namespaces end with their thread.
pub fn on(flavour: Flavour, test: impl Fn(&Host) + Sync) {
    for family in Family::ALL {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name(format!("{flavour:?}-{family}"));
            let running = thread.spawn_scoped(scope, || test(&Host::enter(flavour, family)));
            running.expect("a thread").join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }
}

impl Host {
    fn enter(flavour: Flavour, family: Family) -> Self {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("new namespaces; this test needs root");
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private mounts");
        mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), none).expect("an empty /run");
        let host = Self { flavour, family, programs: TempDir::new().expect("a directory") };
        for family in Family::ALL {
            for program in [family.iptables().to_owned(), format!("{}-restore", family.iptables())] {
                host.install(&program);
            }
        }
        host
    }

    fn multi(&self) -> &'static str {
        match self.flavour {
            Flavour::Nft => "/usr/sbin/xtables-nft-multi",
            Flavour::Legacy => "/usr/sbin/xtables-legacy-multi",
        }
    }

    fn install(&self, program: &str) {
        let script = format!(
            "#!/bin/sh\necho {program} \"$@\" >> {}\nexec {} {program} \"$@\"\n",
            self.log().display(),
            self.multi()
        );
        let path = self.programs.path().join(program);
        fs::write(&path, script).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("executable");
    }

    fn log(&self) -> PathBuf {
        self.programs.path().join("log")
    }

    /// The programs as a `PATH`.
    pub fn path(&self) -> OsString {
        self.programs.path().as_os_str().to_owned()
    }

    pub fn tables(&self) -> RestoreTables {
        RestoreTables::new().with_path(self.path())
    }

    /// The programs that were run since the last question.
    pub fn started(&self) -> Vec<String> {
        let lines = fs::read_to_string(self.log()).unwrap_or_default();
        fs::write(self.log(), "").expect("emptied");
        lines.lines().map(str::to_owned).collect()
    }

    /// Runs the host's iptables as an administrator would.
    pub fn iptables(&self, arguments: &str) -> String {
        let output = self.try_iptables(arguments);
        assert!(output.status.success(), "{arguments}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs the host's iptables as someone would who expects that it may fail.
    pub fn try_iptables(&self, arguments: &str) -> Output {
        let mut command = Command::new(self.multi());
        command.arg(self.family.iptables()).args(["-w", "20"]).args(arguments.split(' '));
        command.output().expect("iptables of both flavours is installed")
    }

    /// A table as `iptables -S` prints it, without policies.
    pub fn dump(&self, table: &str) -> Vec<String> {
        let text = self.iptables(&format!("-t {table} -S"));
        text.lines().filter(|line| !line.starts_with("-P")).map(str::to_owned).collect()
    }
}

/// Runs a program that must succeed, and returns what it prints.
pub fn run(command: &str) -> String {
    let mut words = command.split(' ');
    let output = Command::new(words.next().expect("a program")).args(words).output().expect("it is installed");
    assert!(output.status.success(), "{command}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}
