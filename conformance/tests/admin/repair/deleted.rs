//! A runtime that deletes an attachment while it is repaired.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Attachment, Outcome, Runtime, Sandbox, State, Verb, script};
use nix::sys::stat::{major, minor};
use serde_json::Value;

use crate::admin::repair::{Backend, RepairedContainer, assert_said, repair, repair_with, shell, words};

/// The lock of legacy iptables.
const LOCK: &str = "/run/xtables.lock";

/// Waits until some process waits for a file's lock. The file systems of other machines in memory have the same numbers.
fn await_waiter(file: &File) {
    let reported = file.metadata().expect("look at the lock");
    let file = format!(" {:02x}:{:02x}:{} ", major(reported.dev()), minor(reported.dev()), reported.ino());
    let started = Instant::now();
    let waits = |line: &str| line.contains("->") && line.contains(&file);
    while !fs::read_to_string("/proc/locks").expect("read the locks").lines().any(waits) {
        assert!(started.elapsed() < Duration::from_secs(60), "nobody waits for {LOCK}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// It has read the cache when it waits for the packet filter. What it puts back afterwards would belong to
/// nobody, and stay for ever.
#[test]
fn rules_of_a_container_that_is_deleted_meanwhile_are_removed_again() {
    let sandbox = Backend::Legacy.sandbox();
    let mut list = Backend::Legacy.list();
    list["plugins"][1]["macspoofchk"] = false.into();
    let neighbour = RepairedContainer::add(&sandbox, &list, "first", 8080);
    let alone = rules(&sandbox);
    let known = cache();
    let attached = RepairedContainer::add(&sandbox, &list, "second", 8081);
    let file = cache().into_iter().find(|file| !known.contains(file)).expect("the guest's file");
    assert_ne!(rules(&sandbox), alone);
    for program in ["iptables", "ip6tables"] {
        for table in ["nat", "filter"] {
            sandbox.sh(&format!("{program} -t {table} -F"));
            sandbox.sh(&format!("{program} -t {table} -X"));
        }
    }

    let lock = File::options().create(true).append(true).open(LOCK).expect("open the lock");
    lock.lock().expect("lock");
    let repair = repair_with(&sandbox, &[]);
    let repaired = thread::scope(|scope| {
        let repairing = scope.spawn(|| repair.run());
        await_waiter(&lock);
        // The end of DEL.
        fs::remove_file(&file).expect("remove the guest's file");
        lock.unlock().expect("unlock");
        repairing.join().expect("repair ends")
    });

    assert_said(&repaired, &["repaired", "skipped"]);
    let why = "the runtime has deleted the attachment, or added it again, in the meantime";
    assert!(repaired.stdout().contains(why), "{repaired}");
    assert_eq!(rules(&sandbox), alone);
    neighbour.check();
    assert!(!attached.is_whole());
}

/// The reference's DEL empties a chain before it removes it. When a repair comes in between, the chain is in use again and
/// cannot be removed, and the next DEL does not look for it: the interface is gone.
#[test]
fn an_emptied_chain_is_removed_with_the_restored_rules() {
    let sandbox = Backend::Nft.sandbox();
    let list = Backend::Nft.list();
    let neighbour = RepairedContainer::add(&sandbox, &list, "first", 8080);
    let known = cache();
    let attached = RepairedContainer::add(&sandbox, &list, "second", 8081);
    let file = cache().into_iter().find(|file| !known.contains(file)).expect("the guest's file");
    let (_, attachment) = remembered(&sandbox, &list, &attached, &file);
    let posts = sandbox.sh("ip6tables -t nat -S POSTROUTING");
    let jump = posts.lines().find(|line| line.contains(&attachment.container_id)).expect("the guest is masqueraded");
    let chain = jump.rsplit(' ').next().expect("a chain");
    shell(&sandbox, &format!("ip6tables -t nat {}", jump.replacen("-A", "-D", 1)));
    sandbox.sh(&format!("ip6tables -t nat -F {chain}"));

    // The end of DEL, as soon as the chain has rules again.
    let folder = sandbox.search_path().split(':').next().expect("a search path has folders");
    let program = Path::new(folder).join("ip6tables-restore");
    fs::remove_file(&program).expect("remove the program");
    let restore = "cat > /run/batch; /usr/sbin/xtables-nft-multi ip6tables-restore \"$@\" < /run/batch || exit $?";
    let end = format!("nsenter --net={} ip link del eth0; rm -f {}", attached.container.path(), file.display());
    let forget = format!("if grep -q -e '-A {chain}' /run/batch; then {end}; fi");
    script::install(&program, &format!("{restore}\n{forget}\n"));

    let repaired = repair(&sandbox, &[]);
    assert_eq!(words(&repaired), ["nothing missing", "skipped"], "{repaired}");
    assert!(repaired.stdout().contains("the runtime has deleted the attachment"), "{repaired}");
    assert!(!sandbox.sh("ip6tables -t nat -S").contains(chain), "{}", sandbox.sh("ip6tables -t nat -S"));
    neighbour.check();
}

/// What libcni remembers of a container, and a runtime that calls single plugins of its list.
fn remembered<'s>(
    sandbox: &'s Sandbox,
    list: &Value,
    attached: &RepairedContainer<'_>,
    file: &Path,
) -> (Runtime<'s>, Attachment) {
    let text = fs::read(file).expect("read the cache");
    let cached: Value = serde_json::from_slice(&text).expect("libcni writes JSON");
    let id = cached["containerId"].as_str().expect("a container ID");
    let mut attachment = Attachment::new(id, &attached.container);
    attachment.result = Some(cached["result"].clone());
    (Runtime::new(sandbox, list.clone()), attachment)
}

/// What another's DEL and libcni do last: the interface goes, and then the file.
fn end_of_del(attached: &RepairedContainer<'_>, file: &Path) {
    attached.container.sh("ip link del eth0");
    fs::remove_file(file).expect("the end of libcni's DEL");
}

/// The marks of attachments that are being deleted.
fn marks() -> Vec<PathBuf> {
    let boots = fs::read_dir("/run/cni/.cni-plugins-rs").into_iter().flatten();
    let kinds = boots.map(|entry| entry.expect("read the run directory").path().join("deleting"));
    let marks = kinds.flat_map(|kind| fs::read_dir(kind).into_iter().flatten());
    marks.map(|entry| entry.expect("read the marks").path()).collect()
}

/// Between the DEL of portmap and that of bridge the namespace lives, the interface is there, and rules are missing. No
/// other DEL of portmap would come.
#[test]
fn what_is_being_deleted_is_passed_over_until_it_is_added_again() {
    for backend in Backend::ALL {
        let sandbox = backend.sandbox();
        let list = backend.list();
        let neighbour = RepairedContainer::add(&sandbox, &list, "first", 8080);
        let alone = rules(&sandbox);
        let known = cache();
        let attached = RepairedContainer::add(&sandbox, &list, "second", 8081);
        let file = cache().into_iter().find(|file| !known.contains(file)).expect("the guest's file");
        let (runtime, attachment) = remembered(&sandbox, &list, &attached, &file);
        let del_of = |attachment: &Attachment, plugin: &str| {
            let result = attachment.result.as_ref();
            runtime.invocation(Verb::Del, plugin, attachment, result).run().expect_success();
        };
        let del = |plugin: &str| del_of(&attachment, plugin);
        for plugin in ["portmap", "firewall"] {
            del(plugin);
            let begun = rules(&sandbox);
            for arguments in [&["--dry-run"][..], &[]] {
                let repaired = repair(&sandbox, arguments);
                assert_said(&repaired, &["nothing missing", "skipped"]);
                assert!(repaired.stdout().contains("the runtime is deleting the attachment"), "{repaired}");
            }
            assert_eq!((rules(&sandbox), marks().len()), (begun, 1), "{backend:?} {plugin}");
        }
        del("bridge");
        fs::remove_file(&file).expect("the end of libcni's DEL");
        assert_eq!((rules(&sandbox), marks()), (alone, vec![]), "{backend:?}");

        attached.tool.add(&attached.container).expect_success();
        let (_, again) = remembered(&sandbox, &list, &attached, &file);
        del_of(&again, "portmap");
        assert_eq!(marks().len(), 1, "{backend:?}");
        // Other plugins have deleted it, and added it again: the mark is that of another interface, whatever any clock says.
        let mark = marks().pop().expect("a mark");
        let text = fs::read_to_string(&mark).expect("read the mark");
        let (time, interface) = text.split_once('\n').expect("a time and an interface");
        let (_, namespace) = interface.split_once(' ').expect("an index and a namespace");
        fs::write(&mark, format!("{time}\n4000 {namespace}")).expect("write the mark");
        assert_said(&repair(&sandbox, &[]), &["nothing missing", "repaired"]);
        assert!(attached.is_whole(), "{backend:?}");
        neighbour.check();
    }
}

/// A process with the environment of a DEL.
struct DelProcess(Child);

impl DelProcess {
    /// One that runs the file of a plugin, as far as its name tells.
    fn del(container_id: &str) -> Self {
        fs::create_dir_all("/run/others").expect("create a folder");
        script::copy_program("/usr/bin/sleep", "/run/others/bridge");
        Self::start("/run/others/bridge", container_id, 0)
    }

    fn start(program: &str, container_id: &str, user: u32) -> Self {
        let mut command = Command::new(program);
        command.uid(user).arg0(if program.ends_with("asking") { "bridge" } else { program });
        command.arg("60").env_clear().env("PATH", "/usr/bin:/bin");
        command.envs([("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", container_id), ("CNI_IFNAME", "eth0")]);
        Self(command.spawn().expect("start a program"))
    }
}

impl Drop for DelProcess {
    fn drop(&mut self) {
        self.0.kill().expect("kill a program");
        self.0.wait().expect("wait for a program");
    }
}

fn flush(sandbox: &Sandbox) {
    for program in ["iptables", "ip6tables"] {
        for table in ["nat", "filter"] {
            sandbox.sh(&format!("{program} -t {table} -F"));
        }
    }
}

/// Anybody may give a process of theirs the environment of a DEL, and so may a script of root that is no plugin.
#[test]
fn only_a_plugin_of_root_is_believed_to_delete() {
    let sandbox = Backend::Nft.sandbox();
    let list = Backend::Nft.list();
    let attached = RepairedContainer::add(&sandbox, &list, "only", 8080);
    let [file] = &cache()[..] else { panic!("one attachment has one file") };
    let (_, attachment) = remembered(&sandbox, &list, &attached, file);
    let plugin = DelProcess::del("another");
    flush(&sandbox);
    // As sudo, which asks for the password.
    script::copy_program("/usr/bin/sleep", "/run/others/asking");
    fs::set_permissions("/run/others/asking", fs::Permissions::from_mode(0o4755)).expect("set the mode");
    for (program, user) in [("/run/others/bridge", 65534), ("/usr/bin/sleep", 0), ("/run/others/asking", 0)] {
        let _pretending = DelProcess::start(program, &attachment.container_id, user);
        assert_said(&repair(&sandbox, &[]), &["repaired"]);
        attached.check();
        flush(&sandbox);
    }
    drop(plugin);
}

/// Plugins of others know neither the lock nor the mark.
#[test]
fn what_another_plugin_deletes_at_the_moment_is_passed_over() {
    let sandbox = Backend::Nft.sandbox();
    let list = Backend::Nft.list();
    let attached = RepairedContainer::add(&sandbox, &list, "only", 8080);
    let [file] = &cache()[..] else { panic!("one attachment has one file") };
    let (_, attachment) = remembered(&sandbox, &list, &attached, file);
    flush(&sandbox);
    let flushed = rules(&sandbox);
    {
        let _deleting = DelProcess::del(&attachment.container_id);
        let repaired = repair(&sandbox, &[]);
        assert_said(&repaired, &["skipped"]);
        assert!(repaired.stdout().contains("the runtime is deleting the attachment"), "{repaired}");
        assert_eq!(rules(&sandbox), flushed);
    }
    let _deleting_another = DelProcess::del("another");
    assert_said(&repair(&sandbox, &[]), &["repaired"]);
    attached.check();
}

#[test]
fn ports_that_were_deleted_when_repair_looks_again_are_removed_again() {
    removed_again_by_the_second_look("CNI-HOSTPORT-DNAT", |_, _| "8081".to_owned());
}

#[test]
fn a_masquerade_that_was_deleted_when_repair_looks_again_is_removed_again() {
    removed_again_by_the_second_look("POSTROUTING", |sandbox, id| {
        let jumps = sandbox.sh("iptables -t nat -S POSTROUTING");
        let jump = jumps.lines().find(|line| line.contains(id)).expect("the guest is masqueraded");
        jump.rsplit(' ').next().expect("a chain").to_owned()
    });
}

/// Between two plugins of another's DEL nothing is to be seen of it: just that interface and file are gone a little later. A
/// chain is flushed, and nothing may hold the trace of the container afterwards.
fn removed_again_by_the_second_look(flushed: &str, trace: impl Fn(&Sandbox, &str) -> String) {
    let sandbox = Backend::Nft.sandbox();
    let list = Backend::Nft.list();
    let neighbour = RepairedContainer::add(&sandbox, &list, "first", 8080);
    let alone = rules(&sandbox);
    // On a busy machine, repair may have looked again before this test gets to its turn.
    let undone = (0..10).any(|turn| {
        let (attached, file) = add_and_find(&sandbox, &list, &format!("turn-{turn}"));
        let (_, attachment) = remembered(&sandbox, &list, &attached, &file);
        let trace = trace(&sandbox, &attachment.container_id);
        let repaired = repair_with_a_late_event(&sandbox, flushed, || end_of_del(&attached, &file));
        let is_taken_back = repaired.stdout().contains(": taken back: ");
        if is_taken_back {
            assert_eq!(words(&repaired), ["repaired", "repaired", "taken back"], "{repaired}");
            assert!(rules(&sandbox).iter().all(|rule| !rule.contains(&trace)), "{trace}: {:#?}", rules(&sandbox));
        }
        attached.tool.del(&attached.container).expect_success();
        assert_eq!(rules(&sandbox), alone);
        is_taken_back
    });
    assert!(undone, "repair never looks again");
    neighbour.check();
}

/// By then the name of the namespace leads to another container, whose ADD is at work: its interface has no alias yet.
#[test]
fn an_interface_that_is_being_made_behind_the_same_name_stays_when_repair_looks_again() {
    let sandbox = Backend::Nft.sandbox();
    let list = Backend::Nft.list();
    let _neighbour = RepairedContainer::add(&sandbox, &list, "first", 8080);
    let undone = (0..10).any(|turn| {
        let name = format!("turn-{turn}");
        let (attached, file) = add_and_find(&sandbox, &list, &name);
        let succeed = || {
            end_of_del(&attached, &file);
            sandbox.sh(&format!("ip netns del {name}"));
            sandbox.sh(&format!("ip netns add {name}"));
            sandbox.sh(&format!("ip link add made type veth peer name eth0 netns {name}"));
        };
        let repaired = repair_with_a_late_event(&sandbox, "POSTROUTING", succeed);
        sandbox.sh("ip link show made");
        attached.tool.del(&attached.container).expect_success();
        sandbox.sh("ip link del made");
        repaired.stdout().contains(": taken back: ")
    });
    assert!(undone, "repair never looks again");
}

/// Who has cleared the cache has not deleted the container, which still has its interface.
#[test]
fn a_container_that_lives_keeps_the_restored_rules_when_its_file_is_lost() {
    let sandbox = Backend::Nft.sandbox();
    let list = Backend::Nft.list();
    let _neighbour = RepairedContainer::add(&sandbox, &list, "first", 8080);
    // Plugins of others write no record.
    for is_recorded in [true, false] {
        // What is removed before the end of the first look is seen there already, and nothing is put back.
        let kept = (0..10).any(|turn| {
            let (attached, file) = add_and_find(&sandbox, &list, &format!("{is_recorded}-{turn}"));
            if !is_recorded {
                shell(&sandbox, "rm -r /run/cni/.cni-plugins-rs/*/attachments");
            }
            let whole = rules(&sandbox);
            let forget = || fs::remove_file(&file).expect("remove the guest's file");
            let repaired = repair_with_a_late_event(&sandbox, "CNI-HOSTPORT-DNAT", forget);
            assert!(!repaired.stdout().contains(": taken back: "), "{repaired}");
            let is_put_back = words(&repaired) == ["repaired", "repaired"];
            assert!(!is_put_back || rules(&sandbox) == whole, "{repaired}: {:#?}", rules(&sandbox));
            attached.tool.del(&attached.container).expect_success();
            is_put_back
        });
        assert!(kept, "the file is never removed between the looks");
    }
}

/// Adds a container, and finds its file in the cache.
fn add_and_find<'s>(sandbox: &'s Sandbox, list: &Value, name: &str) -> (RepairedContainer<'s>, PathBuf) {
    let known = cache();
    let attached = RepairedContainer::add(sandbox, list, name, 8081);
    let file = cache().into_iter().find(|file| !known.contains(file)).expect("the guest's file");
    (attached, file)
}

/// Flushes a chain, and repairs; something happens as soon as all rules are back, before repair looks again.
fn repair_with_a_late_event(sandbox: &Sandbox, flushed: &str, event: impl FnOnce()) -> Outcome {
    let whole = rules(sandbox);
    sandbox.sh(&format!("iptables -t nat -F {flushed}"));
    let repair = repair_with(sandbox, &[]);
    let repaired = thread::scope(|scope| {
        let repairing = scope.spawn(|| repair.run());
        let started = Instant::now();
        while rules(sandbox) != whole {
            assert!(started.elapsed() < Duration::from_secs(60), "nothing is repaired");
        }
        event();
        repairing.join().expect("repair ends")
    });
    repaired.expect_success();
    repaired
}

/// One repair after the other, as a unit of systemd that is started too often would do it.
#[test]
fn nothing_stays_of_what_is_deleted_while_repairs_run() {
    for backend in Backend::ALL {
        let sandbox = backend.sandbox();
        let list = backend.list();
        let neighbour = RepairedContainer::add(&sandbox, &list, "first", 8080);
        let alone = rules(&sandbox);
        let attached = |number: u16| RepairedContainer::add(&sandbox, &list, &format!("guest-{number}"), 8081 + number);
        let guests: Vec<RepairedContainer<'_>> = (0..8).map(attached).collect();
        let (ended, begun_again) = (AtomicBool::new(false), AtomicBool::new(false));
        let repair = repair_with(&sandbox, &[]);
        thread::scope(|scope| {
            let repairing = scope.spawn(|| {
                let mut repairs = Vec::new();
                while !ended.load(Ordering::Relaxed) {
                    repairs.push(repair.run());
                    begun_again.store(true, Ordering::Relaxed);
                }
                repairs
            });
            let (last, others) = guests.split_last().expect("guests");
            let delete = |attached: &RepairedContainer<'_>| attached.tool.del(&attached.container);
            let mut deleted: Vec<Outcome> = others.iter().map(delete).collect();
            // A repair of legacy iptables may take longer than all of these.
            let started = Instant::now();
            while !begun_again.load(Ordering::Relaxed) && started.elapsed() < Duration::from_secs(60) {
                thread::yield_now();
            }
            deleted.push(delete(last));
            ended.store(true, Ordering::Relaxed);
            let repairs = repairing.join().expect("repairs end");
            for outcome in deleted.iter().chain(&repairs) {
                outcome.expect_success();
            }
            assert!(repairs.len() > 1, "repairs ran beside the deletes");
        });
        assert_eq!((rules(&sandbox), marks()), (alone, vec![]), "{backend:?}");
        neighbour.check();
    }
}

fn cache() -> Vec<PathBuf> {
    let files = fs::read_dir("/var/lib/cni/results").expect("list the cache");
    files.map(|entry| entry.expect("read the cache").path()).collect()
}

/// The rules of all containers.
pub fn rules(sandbox: &Sandbox) -> Vec<String> {
    let state = State::of_host(sandbox);
    let sections = ["iptables nat", "iptables filter", "ip6tables nat", "ip6tables filter", "nftables"];
    sections.iter().flat_map(|section| state.section(section).to_vec()).collect()
}
