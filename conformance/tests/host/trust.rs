//! Only root can read the plugins' files below `/run`, whatever started the plugins, and root in a container cannot reach
//! it. Containers also work on a host where nothing can be kept there.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cni_conformance::{Attachment, Nomad, PortMapping, Runtime, Sandbox, Spelling, Verb};
use serde_json::Value;

const STATE: &str = "/run/cni/.cni-plugins-rs";

/// Nomad's list, with its leases outside of `/run`.
fn list() -> Value {
    let mut list = Nomad::version("1.0.0").dual_stack().conflist();
    list["plugins"][1]["ipam"]["dataDir"] = "/var/lib/cni/networks".into();
    list
}

struct TrustHost {
    sandbox: Sandbox,
    attachment: Attachment,
}

impl TrustHost {
    fn new() -> Self {
        let sandbox = Sandbox::new();
        Nomad::default().ensure_forwarding_rules(&sandbox);
        let container = sandbox.container("c1");
        let attachment = Attachment::new("c1", &container).ports(&PortMapping::twins(8080, 80), Spelling::Go);
        Self { sandbox, attachment }
    }

    /// Calls the plugins in their order, or the other way round for DEL, each through another program.
    fn call(&mut self, verb: Verb, through: &[&str]) {
        let list = list();
        let plugins = list["plugins"].as_array().expect("a list");
        let mut kinds: Vec<&str> = plugins.iter().map(|plugin| plugin["type"].as_str().expect("a type")).collect();
        if verb == Verb::Del {
            kinds.reverse();
        }
        for kind in kinds {
            let runtime = Runtime::new(&self.sandbox, list.clone());
            let call = runtime.invocation(verb, kind, &self.attachment, self.attachment.result.as_ref());
            let outcome = if through.is_empty() { call.run() } else { call.launched_by(through).run() };
            outcome.expect_success();
            if verb == Verb::Add {
                self.attachment.result = Some(outcome.result());
            }
        }
    }

    /// Calls the plugins in the order of DEL, which may fail, and looks at each.
    fn call_all(&self, look: impl Fn(String, Duration)) {
        for kind in ["portmap", "firewall", "bridge", "loopback"] {
            for verb in [Verb::Check, Verb::Del, Verb::Add] {
                let runtime = Runtime::new(&self.sandbox, list());
                let call = runtime.invocation(verb, kind, &self.attachment, self.attachment.result.as_ref());
                look(format!("{kind} {verb}"), call.run().elapsed());
            }
        }
    }

    /// Requires that the container has left neither link nor rule.
    #[track_caller]
    fn assert_bare(&self) {
        let rules = ["iptables-save", "ip6tables-save"].map(|program| self.sandbox.sh(program)).concat();
        assert!(!rules.contains("id: "), "{rules}");
        assert_eq!(self.sandbox.sh("ip -brief link show type veth"), "");
    }
}

/// Everything below a folder, and the folder.
fn everything(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    if folder.is_dir() && !folder.is_symlink() {
        for entry in fs::read_dir(folder).expect("listed") {
            found.extend(everything(&entry.expect("read").path()));
        }
    }
    found
}

fn files() -> Vec<PathBuf> {
    everything(Path::new(STATE)).into_iter().filter(|path| path.is_file()).collect()
}

#[track_caller]
fn assert_private() {
    let found = everything(Path::new(STATE));
    assert!(found.len() > 3, "{found:?}");
    for path in found {
        let metadata = fs::symlink_metadata(&path).expect("there");
        let want = if metadata.is_dir() { 0o40700 } else { 0o100600 };
        assert_eq!((metadata.mode(), metadata.uid()), (want, 0), "{}", path.display());
    }
}

/// Daemons of the classic kind run with umask 0.
#[test]
fn state_is_roots_alone_whatever_the_umask() {
    let mut machine = TrustHost::new();
    let careless = ["sh", "-c", "umask 0; exec \"$@\"", "sh"];
    machine.call(Verb::Add, &careless);
    assert_private();
    machine.call(Verb::Check, &careless);
    machine.call(Verb::Del, &careless);
    machine.assert_bare();
    let left = files();
    assert!(left.iter().all(|path| path.extension().is_some_and(|word| word == "lock")), "{left:?}");
}

/// A pipe in the place of a file keeps nobody waiting: each call has its deadline.
#[test]
fn no_pipe_is_waited_for() {
    let mut machine = TrustHost::new();
    machine.call(Verb::Add, &[]);
    let leases = ["last_reserved_ip.0", "172.26.64.2", ".cni-plugins-rs/stamp"];
    let leases = leases.map(|name| Path::new("/var/lib/cni/networks/nomad").join(name));
    for file in files().into_iter().chain(leases) {
        fs::remove_file(&file).expect("removed");
        machine.sandbox.sh(&format!("mkfifo {}", file.display()));
    }
    machine.call_all(|what, took| assert!(took < Duration::from_secs(20), "{what}: {took:?}"));
}

/// A user who could write there earlier may have left links to root's files.
#[test]
fn no_link_is_followed() {
    let mut machine = TrustHost::new();
    machine.call(Verb::Add, &[]);
    let victim = "/run/victim";
    fs::write(victim, "root's own").expect("written");
    for file in files() {
        fs::remove_file(&file).expect("removed");
        symlink(victim, file).expect("linked");
    }
    machine.call_all(|what, _| assert_eq!(fs::read_to_string(victim).expect("there"), "root's own", "{what}"));
}

#[test]
fn a_host_whose_run_directory_is_read_only_has_containers() {
    let mut machine = TrustHost::new();
    machine.sandbox.sh("mount -o remount,ro /run");
    for verb in [Verb::Add, Verb::Check, Verb::Del] {
        machine.call(verb, &[]);
    }
    machine.assert_bare();
    machine.sandbox.sh("mount -o remount,rw /run");
}
