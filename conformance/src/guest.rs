//! Virtual machines: Debian's kernel with busybox, under qemu, which needs no hardware for that.
//!
//! `scripts/test.sh` unpacks the kernel into `target/guest-kernel`; nothing of it is installed.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace::Namespace;

/// The folder with the kernel, if it is not `guest-kernel` beside the test binary or above it.
const FOLDER: &str = "CNI_GUEST_KERNEL";

const BUSYBOX: &str = "/bin/busybox";
const QEMU: &str = "/usr/bin/qemu-system-x86_64";

/// The time limit for a virtual machine to become ready, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// What every kernel is told.
const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 mitigations=off";

/// How often its console is read.
const TICK: Duration = Duration::from_millis(100);

/// The modules of a network card, in the order of their dependencies, below `kernel/`.
const MODULES: [&str; 8] = [
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
];

/// The settings of a virtual machine.
#[derive(Debug, Clone)]
pub struct GuestSettings {
    /// The tap device, in the namespace in which the machine runs.
    pub tap: String,
    pub mac: String,
    /// The address with its prefix length, and the gateway, of each family.
    pub addresses: Vec<(String, IpAddr)>,
    /// Servers on port 7 that it asks.
    pub reach: Vec<IpAddr>,
    /// The text of its page on port 80.
    pub says: String,
}

impl GuestSettings {
    /// The kernel's command line.
    ///
    /// # Panics
    /// When an address has no prefix length.
    pub fn command_line(&self) -> String {
        let addresses = self.addresses.iter().map(|(address, gateway)| {
            let (plain, prefix) = address.split_once('/').expect("an address with a prefix length");
            match gateway {
                IpAddr::V4(gateway) => format!("ip={plain}::{gateway}:{}::eth0:off", netmask(prefix)),
                IpAddr::V6(gateway) => format!("ip6={address},{gateway}"),
            }
        });
        let reach: Vec<String> = self.reach.iter().map(ToString::to_string).collect();
        let mut words = vec![COMMAND_LINE.to_owned()];
        words.extend(addresses);
        words.extend([format!("reach={}", reach.join(",")), format!("says={}", self.says)]);
        words.join(" ")
    }
}

fn netmask(prefix: &str) -> std::net::Ipv4Addr {
    let prefix: u32 = prefix.parse().expect("a prefix length");
    u32::MAX.checked_shl(32 - prefix).unwrap_or_default().into()
}

/// A script for a virtual machine.
#[derive(Debug, Clone)]
pub struct GuestScript<'a> {
    /// More words of the kernel's command line.
    pub words: &'a str,
    /// Modules of the kernel, by name; it loads those that they depend on before them.
    pub modules: &'a [&'a str],
    /// Files of the host, which have the same path in the machine; programs bring their libraries.
    pub files: Vec<PathBuf>,
    pub text: String,
}

/// A running virtual machine; it is killed when this is dropped.
pub struct Guest {
    monitor: Child,
    console: PathBuf,
}

impl Guest {
    /// Boots one in a namespace, in which its tap device is, and waits until it is ready. Returns it with what it has printed.
    ///
    /// # Panics
    /// When the kernel, qemu or busybox is missing, or the machine does not become ready in time.
    pub fn boot(namespace: &Namespace, settings: &GuestSettings) -> (Self, String) {
        let tap = format!("tap,id=net0,ifname={},script=no,downscript=no", settings.tap);
        let card = format!("virtio-net-pci,netdev=net0,mac={},romfile=", settings.mac);
        let arguments = ["-m", "128", "-netdev", &tap, "-device", &card];
        let kernel = folder();
        let archive = initramfs(&MODULES.map(|module| kernel.join(format!("modules/kernel/{module}.ko"))));
        Self::start(namespace, &settings.says, &settings.command_line(), archive, &arguments)
    }

    /// Boots one without a network card, and returns what its script prints.
    ///
    /// # Panics
    /// When the kernel, qemu, busybox or a file is missing, or the script does not end in time.
    pub fn run(namespace: &Namespace, script: &GuestScript<'_>) -> String {
        let kernel = folder();
        let mut archive = initramfs(&with_dependencies(&kernel.join("modules/kernel"), script.modules));
        for file in with_libraries(&script.files) {
            archive.add_file(&file, EXECUTABLE);
        }
        archive.add("script", FILE, script.text.as_bytes());
        let words = format!("{COMMAND_LINE} {}", script.words);
        let (_guest, said) = Self::start(namespace, "script", &words, archive, &["-m", "512"]);
        said
    }

    fn start(namespace: &Namespace, name: &str, words: &str, files: Archive, arguments: &[&str]) -> (Self, String) {
        let scratch = PathBuf::from(format!("/run/conformance/guest-{name}"));
        fs::create_dir_all(&scratch).unwrap_or_else(|error| panic!("create {}: {error}", scratch.display()));
        let (archive, console) = (scratch.join("initramfs"), scratch.join("console"));
        fs::write(&archive, files.end()).unwrap_or_else(|error| panic!("write {}: {error}", archive.display()));
        let mut command = Command::new(QEMU);
        command.args(["-accel", "tcg", "-nodefaults", "-no-reboot", "-nographic"]).args(arguments);
        command.arg("-serial").arg(format!("file:{}", console.display()));
        command.arg("-kernel").arg(folder().join("vmlinuz")).arg("-initrd").arg(&archive);
        command.arg("-append").arg(words);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let monitor = namespace.run(|| command.spawn()).unwrap_or_else(|error| {
            panic!("start {QEMU}: {error}: install the Debian package qemu-system-x86");
        });
        let mut guest = Self { monitor, console };
        let said = guest.wait_until_ready();
        (guest, said)
    }

    fn wait_until_ready(&mut self) -> String {
        let started = Instant::now();
        loop {
            let said = fs::read(&self.console).unwrap_or_default();
            let said = String::from_utf8_lossy(&said).replace('\r', "");
            if said.lines().any(|line| line == "ready") {
                return said;
            }
            let ended = self.monitor.try_wait().expect("wait for qemu");
            assert!(ended.is_none() && started.elapsed() < PATIENCE, "not ready ({ended:?}):\n{said}");
            thread::sleep(TICK);
        }
    }

    /// Kills the virtual machine, without asking it to shut down.
    ///
    /// # Panics If it has ended before.
    pub fn kill(mut self) {
        assert!(self.monitor.try_wait().expect("wait for qemu").is_none(), "the machine still runs");
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Err(error) = self.monitor.kill().and_then(|()| self.monitor.wait()) {
            eprintln!("kill qemu: {error}");
        }
    }
}

/// The folder with `vmlinuz` and `modules/kernel`.
fn folder() -> PathBuf {
    if let Some(folder) = env::var_os(FOLDER) {
        return folder.into();
    }
    let program = env::current_exe().expect("name the test binary");
    let found = program.ancestors().map(|folder| folder.join("guest-kernel")).find(|folder| folder.is_dir());
    found.unwrap_or_else(|| {
        panic!("target/guest-kernel is missing: run scripts/guest-kernel.sh, or name a folder in {FOLDER}")
    })
}

/// The first files of a virtual machine, with modules in the order in which it loads them.
fn initramfs(modules: &[PathBuf]) -> Archive {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "modules", "proc"] {
        archive.add(folder, DIRECTORY, b"");
    }
    archive.add("init", EXECUTABLE, include_bytes!("../guest/init.sh"));
    archive.add("bin/busybox", EXECUTABLE, &read(Path::new(BUSYBOX)));
    let mut order = String::new();
    for module in modules {
        let name = module.file_name().and_then(OsStr::to_str).expect("a file's name");
        archive.add(&format!("modules/{name}"), FILE, &read(module));
        order += &format!("{name}\n");
    }
    archive.add("modules/order", FILE, order.as_bytes());
    archive
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path)
        .unwrap_or_else(|error| panic!("read {}: {error} (Debian: busybox-static, iptables, nftables)", path.display()))
}

/// The files of some modules, each after those that it depends on, which it names itself.
fn with_dependencies(folder: &Path, modules: &[&str]) -> Vec<PathBuf> {
    let files = module_files(folder);
    let mut order = Vec::new();
    for module in modules {
        add_module(module, &files, &mut order);
    }
    order
}

fn add_module(name: &str, files: &BTreeMap<String, PathBuf>, order: &mut Vec<PathBuf>) {
    let file = files.get(name).unwrap_or_else(|| panic!("the kernel has no module {name}"));
    let content = read(file);
    let depends = content.split(|byte| *byte == 0).find_map(|text| text.strip_prefix(b"depends="));
    let depends = String::from_utf8_lossy(depends.unwrap_or_default());
    for needed in depends.split(',').filter(|needed| !needed.is_empty()) {
        add_module(needed, files, order);
    }
    if !order.contains(file) {
        order.push(file.clone());
    }
}

/// The modules below a folder, by the names that others know them by.
fn module_files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("read {}: {error}", folder.display()));
    let mut files = BTreeMap::new();
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            files.append(&mut module_files(&path));
        } else if let Some(name) = path.file_stem().and_then(OsStr::to_str) {
            files.insert(name.replace('-', "_"), path);
        }
    }
    files
}

/// Files, and the libraries of those that are programs, as `ldd` finds them.
fn with_libraries(files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut all: BTreeSet<PathBuf> = files.iter().cloned().collect();
    let found = Command::new("ldd").args(files).output().expect("ldd is installed");
    let words = String::from_utf8_lossy(&found.stdout);
    let words = words.lines().filter(|line| line.contains("(0x")).flat_map(str::split_whitespace);
    all.extend(words.filter(|word| word.starts_with('/')).map(PathBuf::from));
    all
}

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const FILE: u32 = 0o100_644;

/// Files in the format `newc` of cpio: `Documentation/driver-api/early-userspace/buffer-format.rst` of the kernel.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    files: u32,
    folders: BTreeSet<PathBuf>,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.files += 1;
        let size = u32::try_from(content.len()).expect("a small file");
        let length = u32::try_from(name.len() + 1).expect("a short name");
        let fields = [self.files, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, length, 0];
        self.bytes.extend(b"070701");
        fields.iter().for_each(|field| self.bytes.extend(format!("{field:08x}").bytes()));
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    /// Adds a file of the host at the place where it is there.
    fn add_file(&mut self, file: &Path, mode: u32) {
        let place = |path: &Path| path.to_str().expect("a readable name").trim_start_matches('/').to_owned();
        let folders: Vec<&Path> = file.ancestors().skip(1).filter(|folder| folder.parent().is_some()).collect();
        for folder in folders.into_iter().rev() {
            if self.folders.insert(folder.to_owned()) {
                self.add(&place(folder), DIRECTORY, b"");
            }
        }
        self.add(&place(file), mode, &read(file));
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, b"");
        self.bytes
    }
}
