//! Virtual machines: Debian's kernel with busybox, under qemu, which needs no hardware for that.
//!
//! `scripts/test.sh` unpacks the kernel into `target/guest-kernel`; nothing of it is installed.

use std::env;
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
        let mut words = vec!["console=ttyS0 quiet panic=-1 mitigations=off".to_owned()];
        words.extend(addresses);
        words.extend([format!("reach={}", reach.join(",")), format!("says={}", self.says)]);
        words.join(" ")
    }
}

fn netmask(prefix: &str) -> std::net::Ipv4Addr {
    let prefix: u32 = prefix.parse().expect("a prefix length");
    u32::MAX.checked_shl(32 - prefix).unwrap_or_default().into()
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
        let scratch = PathBuf::from(format!("/run/conformance/guest-{}", settings.says));
        fs::create_dir_all(&scratch).unwrap_or_else(|error| panic!("create {}: {error}", scratch.display()));
        let (archive, console) = (scratch.join("initramfs"), scratch.join("console"));
        let kernel = folder();
        fs::write(&archive, initramfs(&kernel)).unwrap_or_else(|error| panic!("write {}: {error}", archive.display()));
        let mut command = Command::new(QEMU);
        command.args(["-accel", "tcg", "-m", "128", "-nodefaults", "-no-reboot", "-nographic"]);
        command.arg("-serial").arg(format!("file:{}", console.display()));
        command.arg("-kernel").arg(kernel.join("vmlinuz")).arg("-initrd").arg(&archive);
        command.arg("-append").arg(settings.command_line());
        command.arg("-netdev").arg(format!("tap,id=net0,ifname={},script=no,downscript=no", settings.tap));
        command.arg("-device").arg(format!("virtio-net-pci,netdev=net0,mac={},romfile=", settings.mac));
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

/// The first files of a virtual machine, in the format `newc` of cpio: `Documentation/driver-api/early-userspace/buffer-format.rst`
/// of the kernel.
fn initramfs(kernel: &Path) -> Vec<u8> {
    let read = |path: &Path| {
        fs::read(path).unwrap_or_else(|error| panic!("read {}: {error} (Debian: busybox-static)", path.display()))
    };
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "modules", "proc"] {
        archive.add(folder, DIRECTORY, b"");
    }
    archive.add("init", EXECUTABLE, include_bytes!("../guest/init.sh"));
    archive.add("bin/busybox", EXECUTABLE, &read(Path::new(BUSYBOX)));
    let mut order = String::new();
    for module in MODULES {
        let name = format!("{}.ko", module.rsplit('/').next().unwrap_or(module));
        archive.add(&format!("modules/{name}"), FILE, &read(&kernel.join(format!("modules/kernel/{module}.ko"))));
        order += &format!("{name}\n");
    }
    archive.add("modules/order", FILE, order.as_bytes());
    archive.end()
}

const DIRECTORY: u32 = 0o040_755;
const EXECUTABLE: u32 = 0o100_755;
const FILE: u32 = 0o100_644;

#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    files: u32,
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

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.add("TRAILER!!!", 0, b"");
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_the_addresses_of_both_families() {
        let settings = GuestSettings {
            tap: "tap0".to_owned(),
            mac: "02:00:00:00:00:01".to_owned(),
            addresses: vec![
                ("10.0.0.2/20".to_owned(), [10, 0, 0, 1].into()),
                ("fd00::2/64".to_owned(), "fd00::1".parse().expect("an address")),
            ],
            reach: vec![[192, 0, 2, 2].into()],
            says: "vm1".to_owned(),
        };
        let want = "ip=10.0.0.2::10.0.0.1:255.255.240.0::eth0:off ip6=fd00::2/64,fd00::1 reach=192.0.2.2 says=vm1";
        assert!(settings.command_line().ends_with(want), "{}", settings.command_line());
        assert_eq!([netmask("32"), netmask("0")].map(|mask| mask.to_string()), ["255.255.255.255", "0.0.0.0"]);
    }

    #[test]
    fn an_archive_is_aligned_and_ends_with_its_trailer() {
        let mut archive = Archive::default();
        archive.add("a", FILE, b"12345");
        let bytes = archive.end();
        assert!(bytes.starts_with(b"07070100000001000081a4"));
        assert_eq!((bytes.len() % 4, bytes.windows(11).filter(|part| part == b"TRAILER!!!\0").count()), (0, 1));
    }
}
