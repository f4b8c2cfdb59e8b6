//! A host of one flavour of iptables: namespaces of its own, and programs that tell when they are run.
//!
//! Whether rules may go without the programs is told by the name of the file behind their links, so on one
//! kind of host that is the name of a script.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_kernel::netns::NetnsScope;
use cni_linux::iptables::{AutoIptables, RestoreIptables};
use cni_linux::nftables::KeptTables;
use cni_netfilter::iptables::{
    Batch, BatchError, ChainRules, Iptables, IptablesError, IptablesRule, IptablesTable, RulePlaces, SkeletonLock,
};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tempfile::TempDir;

/// Where the rules end up in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// In nf_tables, by the programs alone.
    Nft,
    /// In nf_tables, without the programs where that can be.
    Native,
    /// The same, by a process that keeps whole tables.
    Kept,
    Legacy,
}

/// iptables as a host of a flavour has it.
pub enum FlavourIptables {
    Programs(RestoreIptables),
    Native(Box<AutoIptables>),
}

impl FlavourIptables {
    /// The tables of the network namespace of the calling thread.
    pub fn new(flavour: Flavour, path: OsString) -> Self {
        match flavour {
            Flavour::Nft | Flavour::Legacy => Self::Programs(RestoreIptables::new().with_path(path)),
            Flavour::Native | Flavour::Kept => {
                let mut tables = AutoIptables::new().with_path(path);
                if flavour == Flavour::Kept {
                    tables.keep_tables(KeptTables::default());
                }
                Self::Native(Box::new(tables))
            }
        }
    }

    pub fn with_patience(self, patience: Duration) -> Self {
        match self {
            Self::Programs(tables) => Self::Programs(tables.with_patience(patience)),
            Self::Native(tables) => Self::Native(Box::new(tables.with_patience(patience))),
        }
    }

    pub fn within(self, scope: NetnsScope) -> Self {
        match self {
            Self::Programs(tables) => Self::Programs(tables.within(scope)),
            Self::Native(tables) => Self::Native(Box::new(tables.within(scope))),
        }
    }

    /// Asks the kernel for changes before kept tables are used again.
    pub fn expire(&mut self) {
        if let Self::Native(tables) = self {
            tables.expire();
        }
    }

    fn inner(&mut self) -> &mut dyn Iptables {
        match self {
            Self::Programs(tables) => tables,
            Self::Native(tables) => &mut **tables,
        }
    }
}

impl Iptables for FlavourIptables {
    fn list(&mut self, family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainRules, IptablesError> {
        self.inner().list(family, table, chain)
    }

    fn places(
        &mut self,
        family: Family,
        table: IptablesTable,
        chain: &ChainName,
        rules: &[&IptablesRule],
    ) -> Result<RulePlaces, IptablesError> {
        self.inner().places(family, table, chain, rules)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), BatchError> {
        self.inner().commit(batch)
    }

    fn absence(&mut self, family: Family, table: IptablesTable) -> Option<IptablesError> {
        self.inner().absence(family, table)
    }

    fn lock(&mut self) -> Result<SkeletonLock, IptablesError> {
        self.inner().lock()
    }
}

/// The namespaces of the calling thread, with one flavour of iptables.
pub struct FlavourHost {
    pub flavour: Flavour,
    pub family: Family,
    programs: TempDir,
}

/// Runs a test on a new host of every kind.
pub fn everywhere(test: impl Fn(&FlavourHost) + Sync) {
    on(Flavour::Nft, &test);
    on(Flavour::Native, &test);
    on(Flavour::Kept, &test);
    on(Flavour::Legacy, &test);
}

/// Runs a test on a new host of one flavour, for each family. The namespaces end with their thread.
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
            Flavour::Nft | Flavour::Native | Flavour::Kept => "/usr/sbin/xtables-nft-multi",
            Flavour::Legacy => "/usr/sbin/xtables-legacy-multi",
        }
    }

    fn install(&self, program: &str) {
        let path = self.programs.path().join(program);
        let file = match self.flavour {
            Flavour::Nft | Flavour::Legacy => path.clone(),
            Flavour::Native | Flavour::Kept => {
                let directory = self.programs.path().join(format!("of-{program}"));
                fs::create_dir(&directory).expect("a directory");
                let file = directory.join("xtables-nft-multi");
                symlink(&file, &path).expect("a link");
                file
            }
        };
        let script = format!(
            "#!/bin/sh\necho {program} \"$@\" >> {}\nexec {} {program} \"$@\"\n",
            self.log().display(),
            self.multi()
        );
        fs::write(&file, script).expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("executable");
    }

    /// As many programs as are started where this many are needed at most.
    pub fn programs(&self, number: usize) -> usize {
        match self.flavour {
            Flavour::Nft | Flavour::Legacy => number,
            Flavour::Native | Flavour::Kept => 0,
        }
    }

    fn log(&self) -> PathBuf {
        self.programs.path().join("log")
    }

    /// The programs as a `PATH`.
    pub fn path(&self) -> OsString {
        self.programs.path().as_os_str().to_owned()
    }

    pub fn tables(&self) -> FlavourIptables {
        FlavourIptables::new(self.flavour, self.path())
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
