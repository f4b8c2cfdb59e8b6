//! The programs that plugins run: missing, failing, or waiting for a lock.
//!
//! On the legacy flavour, where they cannot be avoided.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process;
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::wait::wait_until;
use cni_conformance::{Flavour, Nomad, Verb, script};

use crate::rollback::rollback_host::{RollbackHost, networks};

/// The plugins that write rules.
const WRITERS: [&str; 3] = ["bridge", "firewall", "portmap"];

/// Below the folder that snapshots leave out.
const FOLDER: &str = "/run/conformance/programs";

const LEGACY: &str = "/usr/sbin/xtables-legacy-multi";

/// The code for a passing condition.
const TRY_AGAIN: u64 = 11;

fn writers_and_networks() -> impl Iterator<Item = (String, (&'static str, Nomad))> {
    let pairs = WRITERS.into_iter().flat_map(|plugin| networks().map(|(families, nomad)| (plugin, families, nomad)));
    pairs.map(|(plugin, families, nomad)| (format!("{plugin} {families}"), (plugin, nomad)))
}

/// Go's firewall needs ip6tables even here.
#[test]
fn ipv4_alone_needs_no_ip6tables() {
    for_each(WRITERS.map(|plugin| (plugin, plugin)), |plugin| {
        let machine = RollbackHost::new(plugin, &Nomad::default(), Flavour::Legacy);
        install_iptables_alone();
        let result = machine.add().env("PATH", FOLDER).run().result();
        machine.check(&result).env("PATH", FOLDER).run().expect_success();
    });
}

#[test]
fn an_add_without_ip6tables_leaves_nothing() {
    for_each(WRITERS.map(|plugin| (plugin, plugin)), |plugin| {
        let machine = RollbackHost::on_iptables(plugin, &Nomad::default().dual_stack(), Flavour::Legacy);
        install_iptables_alone();
        machine.fails(&machine.add().env("PATH", FOLDER), &["ip6tables"]);
        machine.succeeds_now();
    });
}

#[test]
fn an_add_without_any_iptables_leaves_nothing() {
    for_each(writers_and_networks(), |(plugin, nomad)| {
        let machine = RollbackHost::on_iptables(plugin, &nomad, Flavour::Legacy);
        fs::create_dir(FOLDER).expect("create an empty folder");
        machine.fails(&machine.add().env("PATH", FOLDER), &["iptables"]);
        machine.succeeds_now();
    });
}

/// With the statuses that iptables has for a bad rule and for a lack of resources.
#[test]
fn an_add_whose_iptables_restore_fails_leaves_nothing() {
    for_each(writers_and_networks(), |(plugin, nomad)| {
        for status in [1, 4] {
            let machine = RollbackHost::new(plugin, &nomad, Flavour::Legacy);
            let path = install_failing_restore(&machine, "-ge 1", status);
            machine.fails(&machine.add().env("PATH", &path), &["broken on purpose"]);
            machine.succeeds_now();
        }
    });
}

/// The first call fails, then the second, and so on to the last.
#[test]
fn an_add_leaves_nothing_whichever_call_of_iptables_restore_fails() {
    for_each(writers_and_networks(), |(plugin, nomad)| {
        for number in 1..20 {
            let machine = RollbackHost::new(plugin, &nomad, Flavour::Legacy);
            let path = install_failing_restore(&machine, &format!("-eq {number}"), 4);
            let before = machine.state();
            let outcome = machine.add().env("PATH", &path).run();
            let calls = fs::read_to_string(format!("{FOLDER}/calls")).expect("read the number of calls");
            let calls: u32 = calls.trim().parse().expect("a number of calls");
            if outcome.succeeded() {
                machine.check(&outcome.result()).run().expect_success();
            } else {
                outcome.error();
                machine.left_nothing_since(&before);
                machine.succeeds_now();
            }
            if calls < number {
                return;
            }
        }
        panic!("{plugin} calls iptables-restore too often");
    });
}

/// Go waits for ever. The error names the lock, and who holds it: this test.
#[test]
fn an_add_that_waits_for_the_lock_of_iptables_gives_up_and_leaves_nothing() {
    for_each(WRITERS.map(|plugin| (plugin, plugin)), |plugin| {
        let machine = RollbackHost::new(plugin, &Nomad::default().dual_stack(), Flavour::Legacy);
        let before = machine.state();
        let lock = File::create("/run/xtables.lock").expect("open the lock of iptables");
        lock.lock().expect("take the lock of iptables");
        let outcome = machine.add().deadline(Duration::from_secs(25)).run();
        lock.unlock().expect("give the lock back");
        let holder = format!("/run/xtables.lock is held by process {} (", process::id());
        outcome.expect_error(TRY_AGAIN, &holder);
        machine.left_nothing_since(&before);
        machine.succeeds_now();
    });
}

/// Go's goes on to wait, and changes the rules when it gets the lock.
#[test]
fn iptables_does_not_outlive_a_plugin_that_is_killed_while_it_waits_for_the_lock() {
    for_each(WRITERS.map(|plugin| (plugin, plugin)), |plugin| {
        let machine = RollbackHost::new(plugin, &Nomad::default().dual_stack(), Flavour::Legacy);
        fs::create_dir(FOLDER).expect("create a folder of programs");
        // The program says its number, which stays the same, and does not give up by itself.
        for program in ["iptables-restore", "ip6tables-restore", "iptables", "ip6tables"] {
            let lines = format!("echo $$ >{FOLDER}/started\nexec {LEGACY} {program} \"$@\" -w 600\n");
            script::install(&Path::new(FOLDER).join(program), &lines);
        }
        let lock = File::create("/run/xtables.lock").expect("open the lock of iptables");
        lock.lock().expect("take the lock of iptables");
        let path = format!("{FOLDER}:{}", machine.sandbox.search_path());
        // The plugin's parent kills it once the program waits, as the kernel shows.
        let waits = format!("grep -Eqs -- \"-> FLOCK .* $(cat {FOLDER}/started) \" /proc/locks");
        let kill =
            format!("exec 3<&0; \"$0\" <&3 & until [ -s {FOLDER}/started ] && {waits}; do :; done; kill -9 $!; wait");
        machine.add().env("PATH", &path).launched_by(&["/bin/bash", "-c", &kill]).run();
        let number = fs::read_to_string(format!("{FOLDER}/started")).expect("read the number of the program");
        let process = Path::new("/proc").join(number.trim()).join("exe");
        wait_until("the program has ended", || fs::read_link(&process).is_err());
        lock.unlock().expect("give the lock back");
        let runtime = machine.runtime();
        runtime.invocation(Verb::Del, plugin, &machine.attachment, None).run().expect_success();
        machine.succeeds_now();
    });
}

fn install_iptables_alone() {
    fs::create_dir(FOLDER).expect("create a folder of programs");
    for suffix in ["", "-save", "-restore"] {
        symlink(LEGACY, format!("{FOLDER}/iptables{suffix}")).expect("link a program");
    }
}

/// Puts programs first in the search path that count their calls, fail when the count is as
/// `condition` says, and otherwise do what they should. Returns the search path.
fn install_failing_restore(machine: &RollbackHost, condition: &str, status: u8) -> String {
    fs::create_dir(FOLDER).expect("create a folder of programs");
    fs::write(format!("{FOLDER}/calls"), "0").expect("write the number of calls");
    for program in ["iptables-restore", "ip6tables-restore"] {
        let lines = format!(
            "count=$(($(cat {FOLDER}/calls) + 1))\n\
             echo $count > {FOLDER}/calls\n\
             if [ $count {condition} ]; then\n\
             cat > /dev/null\n\
             echo '{program}: broken on purpose' >&2\n\
             exit {status}\n\
             fi\n\
             exec {LEGACY} {program} \"$@\"\n"
        );
        script::install(&Path::new(FOLDER).join(program), &lines);
    }
    format!("{FOLDER}:{}", machine.sandbox.search_path())
}
