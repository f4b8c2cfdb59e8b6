//! A private machine for one test.
//!
//! [`Sandbox::new`] gives the calling thread a network and a mount namespace, with empty file systems where plugins
//! keep state; `Drop` restores the thread. Children and threads that the test starts inherit both, so tests run in
//! parallel under plain `cargo test` and leave the machine unchanged. It needs root, also that of a user namespace ([`become_root`]), and
//! fails with that message otherwise.

use std::env;
use std::fs::{self, File};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use serde::{Deserialize, Serialize};

use crate::binaries::HIDDEN;
use crate::child::Finished;
use crate::container::Container;
use crate::namespace::Namespace;
use crate::outside::Outside;
use crate::wait::wait_until;

/// The harness's own folder inside a sandbox.
pub(crate) const OWN: &str = "/run/conformance";

const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Which implementation answers to `iptables` in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    /// `xtables-nft-multi`.
    Nft,
    /// `xtables-legacy-multi`.
    Legacy,
}

impl Flavour {
    /// Both of them, for tests that must hold for each.
    pub const ALL: [Self; 2] = [Self::Nft, Self::Legacy];

    fn program(self) -> &'static str {
        match self {
            Self::Nft => "/usr/sbin/xtables-nft-multi",
            Self::Legacy => "/usr/sbin/xtables-legacy-multi",
        }
    }
}

/// A private machine, which belongs to the thread that made it.
#[derive(Debug)]
pub struct Sandbox {
    flavour: Flavour,
    search: String,
    host: Namespace,
    before: ThreadState,
    thread_bound: PhantomData<*const ()>,
}

/// The thread's former state, for `Drop`.
#[derive(Debug)]
struct ThreadState {
    network: File,
    mounts: File,
    folder: PathBuf,
}

/// Whether [`become_root`] has made a user namespace.
static IS_GUEST: AtomicBool = AtomicBool::new(false);

/// Whether this process is the root of a user namespace alone, which may not do everything.
pub fn is_guest() -> bool {
    IS_GUEST.load(Ordering::Relaxed)
}

/// Makes a user who is not root the root of a user namespace of this process, in which private hosts can be made. A process with one thread
/// alone can do it.
///
/// # Errors
/// If the kernel does not let users make namespaces.
pub fn become_root() -> io::Result<()> {
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    if user.is_root() {
        return Ok(());
    }
    // Nobody comes back to a namespace that others own.
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))?;
    IS_GUEST.store(true, Ordering::Relaxed);
    Ok(())
}

impl Sandbox {
    /// Makes a sandbox with the nft flavour of iptables.
    pub fn new() -> Self {
        Self::with_flavour(Flavour::Nft)
    }

    /// Makes a sandbox with the given flavour of iptables.
    ///
    /// # Panics
    /// When the process is not root or the kernel refuses; a test must not pass unrun.
    pub fn with_flavour(flavour: Flavour) -> Self {
        assert!(nix::unistd::geteuid().is_root(), "the conformance tests need root: run them with sudo");
        let before = ThreadState::remember();
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
            .unwrap_or_else(|error| panic!("unshare network and mount namespaces: {error}"));
        mount_private_files();
        let tools = install_iptables(flavour);
        let search = format!("{}:{SYSTEM_PATH}", tools.display());
        let host = Namespace::of_this_thread("host", &search);
        host.sh("ip link set lo up");
        let sandbox = Self { flavour, search, host, before, thread_bound: PhantomData };
        // A write of some of them keeps a processor busy until the kernel has a lock that all namespaces share.
        for (key, value) in START.into_iter().filter(|(key, value)| sandbox.sysctl(key) != *value) {
            sandbox.set_sysctl(key, value);
        }
        sandbox
    }

    /// Returns the flavour of iptables in use.
    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Returns the `PATH` for children.
    pub fn search_path(&self) -> &str {
        &self.search
    }

    /// Returns the namespace that plugins see as the host's.
    pub fn host(&self) -> &Namespace {
        &self.host
    }

    /// Makes a container; `name` becomes `/run/netns/<name>`.
    pub fn container(&self, name: &str) -> Container {
        Container::create(name, &self.search)
    }

    /// Connects the host to an outside machine, once per sandbox.
    pub fn outside(&self) -> Outside {
        Outside::create(&self.host, &self.search)
    }

    /// Runs a program on the host and returns its outcome, with any exit status.
    pub fn exec(&self, argv: &[&str]) -> Finished {
        self.host.exec(argv)
    }

    /// Runs a command line of words without quotes on the host; it must succeed.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn sh(&self, line: &str) -> String {
        self.host.sh(line)
    }

    /// Ends a container to which a link of the host leads, without a DEL, and waits until its namespace has ended: the sockets in it keep it
    /// alive for a moment. Then the host has no number for it any more. Other namespaces may get numbers meanwhile.
    pub fn end(&self, container: &Container) {
        let (of_name, list) = (format!("(iproute2 netns name: {})", container.name()), || self.sh("ip netns list-id"));
        let number = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
        let own = list().lines().find(|line| line.contains(&of_name)).and_then(number).expect("a link leads to it");
        container.remove();
        let is_left = |line: &str| number(line).as_ref() == Some(&own) && !line.contains(" name: ");
        wait_until("the namespace has ended", || !list().lines().any(is_left));
    }

    /// Reads a kernel setting of the host by its path under `/proc/sys`.
    ///
    /// # Panics If it does not exist.
    pub fn sysctl(&self, key: &str) -> String {
        let path = Path::new("/proc/sys").join(key);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
        text.trim_end().to_owned()
    }

    /// Writes a kernel setting of the host by its path under `/proc/sys`.
    ///
    /// # Panics
    /// When the kernel refuses.
    pub fn set_sysctl(&self, key: &str, value: &str) {
        let path = Path::new("/proc/sys").join(key);
        fs::write(&path, value).unwrap_or_else(|error| panic!("write {value} to {}: {error}", path.display()));
    }
}

impl Default for Sandbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Err(error) = self.before.restore() {
            let text = format!("leave the sandbox: {error}");
            if thread::panicking() {
                eprintln!("{text}");
            } else {
                panic!("{text}");
            }
        }
    }
}

impl ThreadState {
    fn remember() -> Self {
        let open = |path: &str| File::open(path).unwrap_or_else(|error| panic!("open {path}: {error}"));
        Self {
            network: open("/proc/thread-self/ns/net"),
            mounts: open("/proc/thread-self/ns/mnt"),
            folder: env::current_dir().expect("read the current folder"),
        }
    }

    fn restore(&self) -> nix::Result<()> {
        // Threads that are about to end still share their folder with this one, which setns refuses.
        unshare(CloneFlags::CLONE_FS)?;
        setns(&self.mounts, CloneFlags::CLONE_NEWNS)?;
        setns(&self.network, CloneFlags::CLONE_NEWNET)?;
        nix::unistd::chdir(&self.folder)
    }
}

/// Settings that a new namespace may inherit from the machine, brought to the kernel's defaults
/// or to what distributions set.
const START: [(&str, &str); 7] = [
    ("net/ipv4/ip_forward", "0"),
    ("net/ipv4/conf/all/route_localnet", "0"),
    ("net/ipv4/conf/default/route_localnet", "0"),
    ("net/ipv4/conf/all/rp_filter", "2"),
    ("net/ipv4/conf/default/rp_filter", "2"),
    ("net/ipv6/conf/all/forwarding", "0"),
    ("net/ipv6/conf/default/forwarding", "0"),
];

/// Folders with configurations of the machine's runtimes, which plugins and `cni-plugins doctor` read.
const CONFIGURATIONS: [&str; 7] =
    ["/etc/cni", "/etc/containerd", "/etc/containers", "/etc/crio", "/etc/nerdctl", "/etc/nomad", "/etc/nomad.d"];

/// Unmounts what the machine has mounted below the hidden folders, such as names of namespaces: a mount on top of them does not
/// take them off the list of mounts.
fn unmount_below_hidden() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("list mounts");
    let points = mounts.lines().rev().filter_map(|line| line.split(' ').nth(4));
    for point in points.filter(|point| HIDDEN.iter().any(|folder| Path::new(point).starts_with(folder))) {
        match umount2(point, MntFlags::MNT_DETACH) {
            // It was below another one.
            Ok(()) | Err(Errno::EINVAL | Errno::ENOENT) => {}
            Err(errno) => panic!("unmount {point}: {errno}"),
        }
    }
}

fn mount_private_files() {
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("make all mounts private");
    unmount_below_hidden();
    let configurations = CONFIGURATIONS.into_iter().filter(|folder| Path::new(folder).is_dir());
    for folder in HIDDEN.into_iter().chain(configurations) {
        mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))
            .unwrap_or_else(|error| panic!("mount a tmpfs on {folder}: {error}"));
    }
    // Sysfs shows the links of the namespace that mounted it.
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), none).expect("mount sysfs");
    for folder in ["/run/netns", "/run/cni", "/run/lock", "/var/lib/cni", OWN] {
        fs::create_dir_all(folder).unwrap_or_else(|error| panic!("create {folder}: {error}"));
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
            .unwrap_or_else(|error| panic!("set the mode of {folder}: {error}"));
    }
    let var_run = fs::canonicalize("/var/run").expect("resolve /var/run");
    assert!(var_run == Path::new("/run"), "/var/run is {}, not /run", var_run.display());
}

fn install_iptables(flavour: Flavour) -> PathBuf {
    let program = flavour.program();
    assert!(Path::new(program).exists(), "{program} is missing: install the package iptables");
    let tools = Path::new(OWN).join("bin");
    fs::create_dir(&tools).expect("create the folder of tools");
    for family in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            symlink(program, tools.join(format!("{family}{suffix}"))).expect("link an iptables tool");
        }
    }
    tools
}
