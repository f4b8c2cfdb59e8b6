//! Namespaces of the calling thread's own, with one container, and a text of everything an ADD may leave.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use cni_core::request::Environment;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

const CONTAINER: &str = "/run/netns/c1";

/// What consul-cni cannot do without; the others ignore it.
const ARGS: &str =
    r#"IgnoreUnknown=1;CONSUL_IPTABLES_CONFIG={"ConsulDNSIP":"10.1.2.1","ProxyUserID":"101","ProxyInboundPort":20000}"#;

/// A host and a container, gone with the thread.
pub struct Sandbox {
    binaries: PathBuf,
}

impl Sandbox {
    /// Moves the calling thread to a new host with one container.
    ///
    /// # Panics
    /// When that cannot be done here: it needs root.
    pub fn new() -> Self {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("new namespaces; this test needs root");
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>).expect("private");
        for folder in ["/run", "/var/lib"] {
            mount(Some("tmpfs"), folder, Some("tmpfs"), MsFlags::empty(), None::<&str>).expect("tmpfs");
        }
        fs::create_dir_all("/run/netns").expect("folder");
        fs::write(CONTAINER, "").expect("file");
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("new namespace");
            let own = Some("/proc/thread-self/ns/net");
            mount(own, CONTAINER, None::<&str>, MsFlags::MS_BIND, None::<&str>).expect("bind mount");
        });
        made.join().expect("container");
        let binaries = PathBuf::from("/run/bin");
        fs::create_dir(&binaries).expect("folder");
        for plugin in ["host-local", "bridge"] {
            symlink(env!("CARGO_BIN_EXE_cni-plugins"), binaries.join(plugin)).expect("a link to the binary");
        }
        Self { binaries }
    }

    /// What the runtime sets.
    pub fn environment(&self, command: &str) -> Environment {
        let path = self.binaries.display().to_string();
        crate::environment(&[
            ("CNI_COMMAND", command),
            ("CNI_CONTAINERID", "id1"),
            ("CNI_NETNS", CONTAINER),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", &path),
            ("CNI_ARGS", ARGS),
        ])
    }

    /// One line for every link, address, route, rule, lease and claim that is a container's own.
    pub fn state(&self) -> Vec<String> {
        let inside = ["nsenter", "--net=/run/netns/c1", "ip"];
        let mut lines = said(&[&inside[..], &["-oneline", "link"]].concat());
        lines.extend(said(&[&inside[..], &["-oneline", "address"]].concat()));
        for family in ["-4", "-6"] {
            lines.extend(said(&[&inside[..], &[family, "rule"]].concat()));
            let routes = said(&[&inside[..], &[family, "route", "show", "table", "all"]].concat());
            lines.extend(routes.into_iter().filter(|line| !line.contains(" table local ")));
        }
        for kind in ["veth", "ifb"] {
            lines.extend(said(&["ip", "-oneline", "link", "show", "type", kind]));
        }
        lines.extend(
            said(&["tc", "qdisc", "show"])
                .into_iter()
                .filter(|line| line.contains(": root ") || line.contains("ingress")),
        );
        for program in ["iptables-save", "ip6tables-save"] {
            lines.extend(said(&[program]).into_iter().filter(|line| is_own(line)));
        }
        let in_container = said(&["nsenter", "--net=/run/netns/c1", "iptables-save"]);
        lines.extend(in_container.into_iter().filter(|line| line.contains("CONSUL_")));
        let leases = Path::new("/var/lib/cni/networks/net1");
        lines.extend(files(leases).filter(|name| name.parse::<std::net::IpAddr>().is_ok()));
        lines.extend(files(Path::new("/run/cni/tuning")));
        let records = "find /run -path */.cni-plugins-rs/* ! -type d ! -name *.lock";
        lines.extend(said(&records.split(' ').collect::<Vec<_>>()));
        lines
    }
}

/// Makes the interface that another plugin has given the container.
pub fn add_interface() {
    let arguments = ["ip", "link", "add", "veth0", "type", "veth", "peer", "name", "eth0", "netns", "c1"];
    said(&arguments);
}

/// The same with addresses of both families, and so with routes.
pub fn add_addressed_interface() {
    add_interface();
    said(&["ip", "link", "set", "veth0", "up"]);
    for line in [
        "ip link set eth0 up",
        "ip address add 10.1.2.5/24 dev eth0",
        "ip address add fd00:1::5/64 dev eth0 nodad",
        "ip route add 10.9.0.0/16 via 10.1.2.9",
    ] {
        said(&[&["nsenter", "--net=/run/netns/c1"][..], &line.split(' ').collect::<Vec<_>>()].concat());
    }
    wait_for_carriers("veth");
}

/// Makes an interface that links of containers work by. It has no carrier, so that nothing is waited for but that.
pub fn add_master() {
    for line in ["ip link add wire0 type bridge", "ip link set wire0 up"] {
        said(&line.split(' ').collect::<Vec<_>>());
    }
    wait_for_carriers("veth");
}

/// The kernel takes a moment to notice that a link which is up has a carrier.
fn wait_for_carriers(kind: &str) {
    let have_carrier =
        || said(&["ip", "-oneline", "link", "show", "up", "type", kind]).iter().all(|line| line.contains("state UP"));
    while !have_carrier() {
        thread::sleep(Duration::from_millis(10));
    }
}

/// Makes an interface of the host, up and a port of a bridge, which a container may get.
pub fn add_device() {
    for line in [
        "ip link add br9 type bridge",
        "ip link add ens1 type veth peer name far",
        "ip link set ens1 alias uplink",
        "ip link set ens1 master br9 up",
        "ip link set far up",
    ] {
        said(&line.split(' ').collect::<Vec<_>>());
    }
    wait_for_carriers("veth");
}

/// Shared rules name neither the container nor its addresses.
fn is_own(line: &str) -> bool {
    let own = ["id1", "10.1.2.", "fd00:1::", ":CNI-DN-", ":CNI-a"];
    own.iter().any(|mark| line.contains(mark))
}

fn said(words: &[&str]) -> Vec<String> {
    let output = Command::new(words[0]).args(&words[1..]).output().expect("the program runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn files(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
}
