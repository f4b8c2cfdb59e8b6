//! A host of one flavour of iptables: namespaces of its own, and programs that tell when they are run.
//!
//! Whether rules may go without the programs is told by the name of the file behind their links, so on one
//! kind of host that is the name of a script.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use cni_core::family::Family;
use cni_linux::iptables::{AutoIptables, RestoreIptables};
use cni_netfilter::iptables::Iptables;
use tempfile::TempDir;

/// Where the rules end up in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// In nf_tables, by the programs alone.
    Nft,
    /// In nf_tables, without the programs where that can be.
    Native,
    /// The same, by processes that keep whole tables.
    Kept,
    Legacy,
}

/// The namespaces of the calling thread, with one flavour of iptables.
pub struct FlavourHost {
    pub flavour: Flavour,
    pub family: Family,
    programs: TempDir,
}

/// Runs a test on a new host of every kind.
pub fn everywhere(test: impl Fn(&FlavourHost) + Sync) {
    [Flavour::Nft, Flavour::Native, Flavour::Kept, Flavour::Legacy].iter().for_each(|flavour| on(*flavour, &test));
}

/// Runs a test on a new host of one flavour, for each family.
pub fn on(flavour: Flavour, test: impl Fn(&FlavourHost) + Sync) {
    for family in Family::ALL {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name(format!("{flavour:?}-{family}"));
            let running = thread.spawn_scoped(scope, || test(&FlavourHost::enter(flavour, family)));
            running.expect("a thread").join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    }
}

impl FlavourHost {
    fn enter(flavour: Flavour, family: Family) -> Self {
        crate::alone();
        let host = Self { flavour, family, programs: TempDir::new().expect("a directory") };
        for family in Family::ALL {
            host.install(family.iptables());
            host.install(&format!("{}-restore", family.iptables()));
        }
        host
    }

    fn multi(&self) -> &'static str {
        if self.flavour == Flavour::Legacy { "/usr/sbin/xtables-legacy-multi" } else { "/usr/sbin/xtables-nft-multi" }
    }

    fn install(&self, program: &str) {
        let path = self.programs.path().join(program);
        let mut file = path.clone();
        if matches!(self.flavour, Flavour::Native | Flavour::Kept) {
            let directory = self.programs.path().join(format!("of-{program}"));
            fs::create_dir(&directory).expect("a directory");
            file = directory.join("xtables-nft-multi");
            symlink(&file, &path).expect("a link");
        }
        let (log, multi) = (self.log(), self.multi());
        let noted = format!("echo {program} \"$@\" >> {}", log.display());
        fs::write(&file, format!("#!/bin/sh\n{noted}\nexec {multi} {program} \"$@\"\n")).expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("executable");
    }

    /// As many programs as are started where this many are needed at most.
    pub fn programs(&self, number: usize) -> usize {
        if matches!(self.flavour, Flavour::Native | Flavour::Kept) { 0 } else { number }
    }

    fn log(&self) -> PathBuf {
        self.programs.path().join("log")
    }

    /// iptables as a new process has it.
    pub fn tables(&self) -> Box<dyn Iptables> {
        self.tables_of(self.flavour)
    }

    pub fn tables_of(&self, flavour: Flavour) -> Box<dyn Iptables> {
        let (path, patience) = (self.programs.path().as_os_str().to_owned(), Duration::from_secs(30));
        if matches!(flavour, Flavour::Nft | Flavour::Legacy) {
            return Box::new(RestoreIptables::new().with_path(path).with_patience(patience));
        }
        let mut tables = AutoIptables::new().with_path(path).with_patience(patience);
        if flavour == Flavour::Kept {
            tables.keep_tables();
        }
        Box::new(tables)
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
