//! The programs that plugins run: missing, failing, or waiting for a lock. An ADD that fails leaves nothing, says why, and can be repeated.
//!
//! On the legacy flavour, where they cannot be avoided.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process;
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::state::{await_none, differences};
use cni_conformance::wait::wait_until;
use cni_conformance::{
    Attachment, Container, Flavour, Invocation, Nomad, PortMapping, Runtime, Sandbox, Spelling, State, Verb, script,
};
use serde_json::{Value, json};

/// The plugins that write rules, with their names for messages.
const WRITERS: [(&str, &str); 4] =
    [("bridge", "bridge"), ("ptp", "ptp"), ("firewall", "firewall"), ("portmap", "portmap")];

/// Below the folder that snapshots leave out.
const FOLDER: &str = "/run/conformance/programs";

const LEGACY: &str = "/usr/sbin/xtables-legacy-multi";

/// The code for a passing condition.
const TRY_AGAIN: u64 = 11;

/// The moment before one plugin's ADD, when all plugins before it in Nomad's list have done theirs.
struct ProgramHost {
    sandbox: Sandbox,
    container: Container,
    attachment: Attachment,
    list: Value,
    plugin: &'static str,
    previous: Option<Value>,
}

impl ProgramHost {
    /// With iptables asked for by name wherever it is the choice of the plugin, so that its absence is a failure.
    fn new(plugin: &'static str, nomad: &Nomad) -> Self {
        let mut list = nomad.conflist();
        (list["plugins"][1]["ipMasqBackend"], list["plugins"][3]["backend"]) = (json!("iptables"), json!("iptables"));
        let interface = if plugin == "ptp" { plugin } else { "bridge" };
        list["plugins"][1]["type"] = json!(interface);
        let sandbox = Sandbox::with_flavour(Flavour::Legacy);
        nomad.ensure_forwarding_rules(&sandbox);
        let container = sandbox.container("stage");
        let attachment = Attachment::new("stage", &container).ports(&PortMapping::twins(8080, 80), Spelling::Go);
        let mut host = Self { sandbox, container, attachment, list, plugin, previous: None };
        for earlier in ["loopback", interface, "firewall"].into_iter().take_while(|earlier| *earlier != plugin) {
            host.previous = Some(host.call(Verb::Add, earlier, host.previous.as_ref()).run().result());
        }
        host
    }

    fn call(&self, verb: Verb, plugin: &str, previous: Option<&Value>) -> Invocation {
        Runtime::new(&self.sandbox, self.list.clone()).invocation(verb, plugin, &self.attachment, previous)
    }

    fn add(&self) -> Invocation {
        self.call(Verb::Add, self.plugin, self.previous.as_ref())
    }

    fn state(&self) -> Vec<String> {
        State::capture(&self.sandbox, &[&self.container]).lasting()
    }

    /// Runs an ADD that must fail with this text, and leave nothing.
    #[track_caller]
    fn fails(&self, add: &Invocation, code: Option<u64>, text: &str) {
        let before = self.state();
        let outcome = add.run();
        let error = outcome.error();
        assert!(code.is_none_or(|code| code == error.code), "{outcome}");
        assert!(error.msg.contains(text) || error.details.contains(text), "must say {text:?}: {outcome}");
        self.left_nothing_since(&before);
        self.succeeds_now();
    }

    /// Requires that nothing has changed that is of the container.
    #[track_caller]
    fn left_nothing_since(&self, before: &[String]) {
        let own = ["stage", "veth", "172.26.64.2", "fd00:a110:c8::2"];
        let is_own = |line: &String| own.iter().any(|part| line.contains(part));
        await_none(|| differences(before, &self.state()).into_iter().filter(is_own).collect());
    }

    /// Runs the plugin's ADD again, and CHECK after it, which must both succeed.
    #[track_caller]
    fn succeeds_now(&self) {
        let result = self.add().run().result();
        self.call(Verb::Check, self.plugin, Some(&result)).run().expect_success();
    }
}

fn dual_stack() -> Nomad {
    Nomad::default().dual_stack()
}

/// Go's firewall needs ip6tables even for IPv4 alone.
#[test]
fn an_add_fails_for_want_of_the_programs_that_it_needs_and_of_no_others() {
    for_each(WRITERS, |plugin| {
        let host = ProgramHost::new(plugin, &Nomad::default());
        install_iptables_alone();
        let result = host.add().env("PATH", FOLDER).run().result();
        host.call(Verb::Check, plugin, Some(&result)).env("PATH", FOLDER).run().expect_success();
        let host = ProgramHost::new(plugin, &dual_stack());
        install_iptables_alone();
        host.fails(&host.add().env("PATH", FOLDER), None, "ip6tables");
        let host = ProgramHost::new(plugin, &dual_stack());
        host.fails(&host.add().env("PATH", "/nowhere"), None, "iptables");
    });
}

/// Go waits for ever. The error names the lock, and who holds it: this test.
#[test]
fn an_add_that_waits_for_the_lock_of_iptables_gives_up_and_leaves_nothing() {
    for_each(WRITERS, |plugin| {
        let host = ProgramHost::new(plugin, &dual_stack());
        let before = host.state();
        let lock = File::create("/run/xtables.lock").expect("open the lock of iptables");
        lock.lock().expect("take the lock of iptables");
        let outcome = host.add().deadline(Duration::from_secs(25)).run();
        lock.unlock().expect("give the lock back");
        outcome.expect_error(TRY_AGAIN, &format!("/run/xtables.lock is held by process {} (", process::id()));
        host.left_nothing_since(&before);
        host.succeeds_now();
    });
}

/// Go's goes on to wait, and changes the rules when it gets the lock.
#[test]
fn iptables_does_not_outlive_a_plugin_that_is_killed_while_it_waits_for_the_lock() {
    for_each(WRITERS, |plugin| {
        let host = ProgramHost::new(plugin, &dual_stack());
        fs::create_dir(FOLDER).expect("create a folder of programs");
        // The program says its number, which stays the same, and does not give up by itself.
        for program in ["iptables-restore", "ip6tables-restore", "iptables", "ip6tables"] {
            let lines = format!("echo $$ >{FOLDER}/started\nexec {LEGACY} {program} \"$@\" -w 600\n");
            script::install(&Path::new(FOLDER).join(program), &lines);
        }
        let lock = File::create("/run/xtables.lock").expect("open the lock of iptables");
        lock.lock().expect("take the lock of iptables");
        let path = format!("{FOLDER}:{}", host.sandbox.search_path());
        // The plugin's parent kills it once the program waits, as the kernel shows.
        let waits = format!("grep -Eqs -- \"-> FLOCK .* $(cat {FOLDER}/started) \" /proc/locks");
        let kill =
            format!("exec 3<&0; \"$0\" <&3 & until [ -s {FOLDER}/started ] && {waits}; do :; done; kill -9 $!; wait");
        host.add().env("PATH", &path).launched_by(&["/bin/bash", "-c", &kill]).run();
        let number = fs::read_to_string(format!("{FOLDER}/started")).expect("read the number of the program");
        let process = Path::new("/proc").join(number.trim()).join("exe");
        wait_until("the program has ended", || fs::read_link(&process).is_err());
        lock.unlock().expect("give the lock back");
        host.call(Verb::Del, plugin, None).run().expect_success();
        host.succeeds_now();
    });
}

fn install_iptables_alone() {
    fs::create_dir(FOLDER).expect("create a folder of programs");
    for suffix in ["", "-save", "-restore"] {
        symlink(LEGACY, format!("{FOLDER}/iptables{suffix}")).expect("link a program");
    }
}
