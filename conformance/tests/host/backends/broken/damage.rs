//! How each part is broken, and mended again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use cni_conformance::{Attachment, Invocation, Verb, script};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::{BACKWARD, Part};
use crate::backend_host::{BackendHost, LEASES};

/// Below the folder that snapshots leave out.
const FOLDER: &str = "/run/conformance/broken";

/// What the plugins record.
pub const RECORDS: &str = "/run/cni/.cni-plugins-rs";

/// A part that is broken.
#[derive(Default)]
pub struct Damage {
    variable: Option<(&'static str, String)>,
    /// What starts the plugins, or one of them.
    launcher: Vec<String>,
    launched: Option<&'static str>,
    /// Locks are held as long as their files are open.
    _held: Vec<File>,
    mend: Option<fn(&BackendHost)>,
}

impl Damage {
    /// Breaks a part. What a plugin asks of the kernel, and in which order, is learned from the DEL of another container.
    pub fn to(part: Part, machine: &BackendHost, scout: &Attachment) -> Self {
        fs::create_dir(FOLDER).expect("create a folder");
        delete_traced(machine, scout);
        match part {
            Part::IptablesFail => Self::with_failing_iptables(),
            Part::IptablesMissing => Self::with_variable("PATH", FOLDER.to_owned()),
            Part::NftablesRefused => Self { launcher: refusing_netfilter(), ..Self::default() },
            Part::ConntrackRefused => Self::refusing("portmap", "IPCTNL_MSG_CT_"),
            Part::LinkStays => Self::refusing("bridge", "RTM_DELLINK"),
            Part::IpamMissing => Self::with_variable("CNI_PATH", FOLDER.to_owned()),
            Part::IpamFails => Self::with_ipam("echo '{\"code\": 123, \"msg\": \"no lease today\"}'; exit 1"),
            Part::IpamCrashes => Self::with_ipam("kill -SEGV $$"),
            Part::LeasesReadOnly => {
                let unmount = |machine: &BackendHost| drop(machine.sandbox().sh(&format!("umount {LEASES}")));
                Self::mended_by(read_only(machine, LEASES, unmount))
            }
            Part::LeasesLocked => Self::holding(&Path::new(LEASES).join("lock")),
            Part::AttachmentLocked => Self { _held: vec![lock_every_byte()], ..Self::default() },
            Part::IptablesLocked => Self::holding(Path::new("/run/xtables.lock")),
            Part::RunFull => {
                fill(machine);
                Self::mended_by(empty)
            }
            Part::RunReadOnly => {
                let unmount = |machine: &BackendHost| drop(machine.sandbox().sh("umount /run/cni"));
                Self::mended_by(read_only(machine, "/run/cni", unmount))
            }
            Part::RecordsForeign => {
                chown(RECORDS, Some(65534), None).expect("give the records away");
                Self::mended_by(|_| chown(RECORDS, Some(0), None).expect("take the records back"))
            }
            Part::RecordsTorn => {
                tear(Path::new(RECORDS));
                Self::default()
            }
            Part::FirewalldSilent => {
                machine.machine.freeze_firewalld(true);
                Self::mended_by(|machine| machine.machine.freeze_firewalld(false))
            }
            Part::BusSilent => {
                machine.machine.freeze_bus(true);
                Self::mended_by(|machine| machine.machine.freeze_bus(false))
            }
        }
    }

    /// Lets a call meet it.
    pub fn suffered_by(&self, call: Invocation, plugin: &str) -> Invocation {
        let call = match &self.variable {
            Some((name, value)) => call.env(name, value),
            None => call,
        };
        let words: Vec<&str> = self.launcher.iter().map(String::as_str).collect();
        let is_launched = !words.is_empty() && self.launched.is_none_or(|launched| launched == plugin);
        if is_launched { call.launched_by(&words) } else { call }
    }

    /// Repairs the part.
    pub fn mend(self, machine: &BackendHost) {
        if let Some(mend) = self.mend {
            mend(machine);
        }
    }

    fn mended_by(mend: fn(&BackendHost)) -> Self {
        Self { mend: Some(mend), ..Self::default() }
    }

    fn with_variable(name: &'static str, value: String) -> Self {
        Self { variable: Some((name, value)), ..Self::default() }
    }

    fn holding(lock: &Path) -> Self {
        let file = File::options().create(true).truncate(false).write(true).open(lock).expect("open a lock");
        file.try_lock().expect("the lock is free");
        Self { _held: vec![file], ..Self::default() }
    }

    fn with_failing_iptables() -> Self {
        for family in ["iptables", "ip6tables"] {
            for program in ["", "-save", "-restore"].map(|end| format!("{family}{end}")) {
                script::install(&Path::new(FOLDER).join(&program), &format!("echo {program} is broken >&2\nexit 4\n"));
            }
        }
        Self::with_variable("PATH", format!("{FOLDER}:/usr/sbin:/usr/bin:/sbin:/bin"))
    }

    fn with_ipam(lines: &str) -> Self {
        script::install(&Path::new(FOLDER).join("host-local"), lines);
        Self::with_variable("CNI_PATH", FOLDER.to_owned())
    }

    /// Lets one request of a plugin fail: the first of this kind, found by its number among all that it makes.
    fn refusing(plugin: &'static str, kind: &str) -> Self {
        let made = fs::read_to_string(trace(plugin)).expect("read a trace");
        let before = made.lines().filter(|line| line.starts_with("sendto(")).position(|line| line.contains(kind));
        let number = before.unwrap_or_else(|| panic!("no {kind} in {made}")) + 1;
        let inject = format!("inject=sendto:error=EPERM:when={number}");
        let words = strace(&["-o", "/dev/null", "-e", &inject]);
        let launcher = words.into_iter().map(str::to_owned).collect();
        Self { launcher, launched: Some(plugin), ..Self::default() }
    }
}

/// Deletes a container, and writes down what each plugin asks of the kernel.
fn delete_traced(machine: &BackendHost, attachment: &Attachment) {
    for plugin in BACKWARD {
        let call = machine.runtime().invocation(Verb::Del, plugin, attachment, attachment.result.as_ref());
        let words = strace(&["-o", &trace(plugin), "-e", "trace=sendto"]).join(" ");
        call.launched_by(&words.split(' ').collect::<Vec<_>>()).run().expect_success();
    }
}

fn trace(plugin: &str) -> String {
    format!("{FOLDER}/{plugin}.trace")
}

fn strace<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["/usr/bin/strace", "-qq", "-e", "signal=none"], words, &["--"]].concat()
}

/// Starts a program for which the kernel has no sockets of netfilter, nor for whatever it starts.
fn refusing_netfilter() -> Vec<String> {
    let script = PathBuf::from(FOLDER).join("refuse.py");
    fs::write(&script, REFUSE).expect("write a script");
    vec!["/usr/bin/python3".to_owned(), script.to_str().expect("text").to_owned()]
}

/// seccomp(2): `socket(AF_NETLINK, _, NETLINK_NETFILTER)` fails with `EPERM`.
const REFUSE: &str = r#"import ctypes, os, platform, struct, sys
socket = {"x86_64": 41, "aarch64": 198}[platform.machine()]
def op(code, no, k): return struct.pack("HBBI", code, 0, no, k)
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
program = b"".join([
    op(LOAD, 0, 0), op(EQUAL, 5, socket),
    op(LOAD, 0, 16), op(EQUAL, 3, 16),
    op(LOAD, 0, 32), op(EQUAL, 1, 12),
    op(RETURN, 0, 0x00050001), op(RETURN, 0, 0x7FFF0000)])
buffer = ctypes.create_string_buffer(program)
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 8, ctypes.addressof(buffer)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filter, 0, 0):
    sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
os.execv(sys.argv[1], sys.argv[1:])
"#;

/// Takes all locks of attachments and networks, as another process would: this kind belongs to the open file.
fn lock_every_byte() -> File {
    let path = Path::new(RECORDS).join("work.lock");
    let file = File::options().create(true).truncate(false).read(true).write(true).open(path).expect("open the locks");
    let (l_type, l_whence) = (libc::F_WRLCK as libc::c_short, libc::SEEK_SET as libc::c_short);
    let all = libc::flock { l_type, l_whence, l_start: 0, l_len: 0, l_pid: 0 };
    fcntl(&file, FcntlArg::F_OFD_SETLK(&all)).expect("the locks are free");
    file
}

fn read_only(machine: &BackendHost, folder: &str, mend: fn(&BackendHost)) -> fn(&BackendHost) {
    machine.sandbox().sh(&format!("mount --bind {folder} {folder}"));
    machine.sandbox().sh(&format!("mount -o remount,bind,ro {folder}"));
    mend
}

/// Leaves neither a block nor an inode of `/run`.
fn fill(machine: &BackendHost) {
    let used = |what: &str| -> u64 {
        let said = machine.sandbox().sh(&format!("df --output={what} -k /run"));
        said.split_whitespace().last().and_then(|word| word.parse().ok()).expect("a number")
    };
    let (blocks, inodes) = (used("used") + 64, used("iused") + 16);
    machine.sandbox().sh(&format!("mount -o remount,size={blocks}k,nr_inodes={inodes} /run"));
    fs::create_dir("/run/filler").expect("create a folder");
    let mut file = File::create("/run/filler/blocks").expect("create a file");
    let mut written = Ok(());
    while written.is_ok() {
        written = file.write_all(&[0; 4096]);
    }
    let mut made = Ok(());
    for number in 0.. {
        made = File::create(format!("/run/filler/{number}")).map(|_| ());
        if made.is_err() {
            break;
        }
    }
    for done in [written, made] {
        assert_eq!(done.expect_err("no room").kind(), io::ErrorKind::StorageFull);
    }
}

fn empty(machine: &BackendHost) {
    fs::remove_dir_all("/run/filler").expect("make room");
    machine.sandbox().sh("mount -o remount,size=64m,nr_inodes=100000 /run");
}

/// Puts what is no text into every record.
fn tear(folder: &Path) {
    for entry in fs::read_dir(folder).expect("list the records") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            tear(&path);
        } else if path.extension().is_none_or(|end| end != "lock") {
            fs::write(path, [0xff, 0xfe]).expect("written");
        }
    }
}
