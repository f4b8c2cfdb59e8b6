//! `gc --remove` takes nothing from a container that lives, whatever else happens on the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use cni_conformance::child::Running;
use cni_conformance::wait::wait_until;
use cni_conformance::{CniTool, Container, Network, Nomad, Outcome, Sandbox, binaries, script};
use serde_json::{Value, json};

use crate::admin::{FOUND, PublishedContainer, age_records, cache, forgotten, host, lose, process_in, tool};

pub const OTHERS: &str = "/run/others";

/// Nomad's network with a plugin of others behind it, whose DEL writes `/run/called` and then waits for `/run/go`.
pub struct SlowNetwork {
    pub list: Value,
    pub folder: PathBuf,
}

impl SlowNetwork {
    pub fn new(sandbox: &Sandbox) -> Self {
        let folder = PathBuf::from("/run/all");
        fs::create_dir(&folder).expect("create a folder");
        fs::create_dir(OTHERS).expect("create a folder");
        sandbox.sh(&format!("cp -a {}/. {}", binaries::under_test().display(), folder.display()));
        let plugin = "cat >/dev/null; test \"$CNI_COMMAND\" != ADD || echo '{\"cniVersion\": \"1.0.0\"}'\n\
                      test \"$CNI_COMMAND\" != DEL || { touch /run/called; \
                      while ! test -e /run/go; do sleep 0.01; done; }\n";
        for folder in [&folder, Path::new(OTHERS)] {
            script::install(&folder.join("other"), plugin);
        }
        let mut list = Nomad::version("1.0.0").conflist();
        list["plugins"] = json!([list["plugins"][1], {"type": "other"}]);
        Self { list, folder }
    }

    pub fn tool<'s>(&self, sandbox: &'s Sandbox) -> CniTool<'s> {
        CniTool::new(sandbox, &self.list).binaries(&self.folder)
    }
}

pub fn remove(sandbox: &Sandbox) -> Outcome {
    tool(sandbox, &["gc", "--remove", "--plugin-dir", OTHERS])
}

pub fn interfaces(container: &Container) -> Vec<String> {
    Network::observe(container).links.into_iter().map(|link| link.name).collect()
}

/// Does something while gc waits for the plugin of others, which ends then, or when that has let it end.
pub fn during_removal<T>(work: impl FnOnce() -> T) -> T {
    let mut command = Command::new(binaries::under_test().join("cni-plugins"));
    command.args(["gc", "--remove", "--plugin-dir", OTHERS]).stdout(Stdio::null());
    let mut gc = Running(command.spawn().expect("start gc"));
    wait_until("gc calls the plugin", || Path::new("/run/called").exists());
    let done = work();
    fs::write("/run/go", "").expect("let the plugin end");
    wait_until("gc ends", || gc.0.try_wait().expect("wait for gc").is_some());
    done
}

/// H1: gc is busy with another one when the runtime adds the container again.
#[test]
fn a_container_that_is_added_while_gc_works_on_others_stays() {
    let sandbox = host();
    let slow = SlowNetwork::new(&sandbox);
    slow.tool(&sandbox).add(&sandbox.container("busy")).expect_success();
    lose(&sandbox, "busy");
    forgotten(&sandbox, "again", 8080);
    let again = during_removal(|| PublishedContainer::add(&sandbox, "again", 8080));
    again.tool.check(&again.container).expect_success();
    assert_eq!(interfaces(&again.container), ["lo", "eth0"]);
    assert_eq!(cache().len(), 1, "the busy one's entry is removed, and the new one's stays");
}

/// H1: the container is added again while gc is at its own DELs. ADD waits, and is not undone.
#[test]
fn a_container_that_is_added_while_gc_deletes_it_stays() {
    let sandbox = host();
    let slow = SlowNetwork::new(&sandbox);
    slow.tool(&sandbox).add(&sandbox.container("again")).expect_success();
    lose(&sandbox, "again");
    let again = sandbox.container("again");
    let add = slow.tool(&sandbox).prepare("add", again.path());
    thread::scope(|scope| {
        let adding = during_removal(|| {
            let adding = scope.spawn(|| add.run());
            wait_until("ADD waits for gc, or has ended", || adding.is_finished() || is_adding());
            adding
        });
        adding.join().expect("ADD ends").expect_success();
    });
    assert_eq!(interfaces(&again), ["lo", "eth0"]);
    assert_eq!(cache().len(), 1, "the entry is the new one's");
}

/// A runtime writes its file after ADD. If it does so after gc has listed the cache, gc leaves the container to the next call:
/// whether a container of the cache is dead cannot be told once its record is gone.
#[test]
fn a_dead_container_that_comes_into_the_cache_while_gc_works_is_left_to_the_next() {
    let sandbox = host();
    let slow = SlowNetwork::new(&sandbox);
    slow.tool(&sandbox).add(&sandbox.container("busy")).expect_success();
    lose(&sandbox, "busy");
    let busy = cache();
    let late = PublishedContainer::add(&sandbox, "late", 8080);
    let file = cache().into_iter().find(|file| !busy.contains(file)).expect("its entry");
    let entry = fs::read(&file).expect("read the entry");
    fs::remove_file(&file).expect("remove the entry");
    lose(&sandbox, late.container.name());
    sandbox.sh("find /run/cni/nomad -type f -exec touch --date yesterday {} +");
    during_removal(|| fs::write(&file, entry).expect("write the entry, as the runtime does after ADD"));
    assert_eq!(cache(), [file], "the busy one's entry is removed");
    let next = remove(&sandbox);
    next.expect_success();
    assert!(next.stdout().contains(": removed (its namespace is gone"), "{next}");
    assert_eq!(cache(), [""; 0].map(PathBuf::from), "nothing is left");
}

/// Nothing is shown within the first second, and nothing where standard error is no terminal.
#[test]
fn a_removal_that_lasts_shows_on_a_terminal_how_far_it_has_come() {
    let sandbox = host();
    let slow = SlowNetwork::new(&sandbox);
    for name in ["one", "other"] {
        slow.tool(&sandbox).add(&sandbox.container(name)).expect_success();
        lose(&sandbox, name);
    }
    let program = binaries::under_test().join("cni-plugins");
    let line = format!("{} gc --remove --plugin-dir {OTHERS}", program.display());
    // The terminal is that of script(1).
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let removal = command.spawn().expect("start script");
    wait_until("gc calls the plugin", || Path::new("/run/called").exists());
    thread::sleep(Duration::from_secs(1));
    fs::write("/run/go", "").expect("let the plugin end");
    let output = removal.wait_with_output().expect("gc ends");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.starts_with("\r\u{1b}[K1 of 2\r\u{1b}[Knomad "), "{said:?}");
}

/// Whether the ADD of bridge is under way: it waits for the lock.
fn is_adding() -> bool {
    let processes = fs::read_dir("/proc").expect("list the processes").flatten();
    let mut names = processes.filter_map(|process| fs::read_to_string(process.path().join("cmdline")).ok());
    names.any(|line| line.starts_with("/run/all/bridge"))
}

fn network(name: &str, subnet: &str) -> Value {
    let ipam = json!({"type": "host-local", "subnet": subnet, "dataDir": format!("/run/leases-{name}")});
    json!({"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "bridge", "bridge": name, "ipam": ipam}]})
}

/// H2: equal addresses in two networks say nothing of who lives.
#[test]
fn an_address_that_another_has_as_well_decides_nothing() {
    let sandbox = host();
    let [one, other] = ["one", "other"].map(|name| CniTool::new(&sandbox, &network(name, "10.77.0.0/24")));
    let lost = sandbox.container("lost");
    one.add(&lost).expect_success();
    let inhabitant = process_in(&lost);
    let neighbour = sandbox.container("neighbour");
    other.add(&neighbour).expect_success();
    sandbox.sh("ip netns del lost");
    assert_eq!(remove(&sandbox).stdout(), "nothing is left over\n");
    let inside = sandbox.exec(&["nsenter", "-t", &inhabitant.0.id().to_string(), "-n", "ip", "-brief", "link"]);
    assert!(inside.stdout.contains("eth0"), "{}", inside.stdout);
    drop(inhabitant);
    wait_until("the namespace ends", || sandbox.sh("ip -brief link show type veth").lines().count() == 1);
    let removed = remove(&sandbox);
    assert!(removed.stdout().contains("one cnitool-") && removed.stdout().contains(": removed ("), "{removed}");
    other.check(&neighbour).expect_success();
}

/// H2: an interface in two caches is in one namespace. The lost one has lost its entry, and others have added it again after a killed ADD.
#[test]
fn an_address_that_another_has_in_two_caches_decides_nothing() {
    let sandbox = host();
    // No other test has it, so that the survey finds no other namespace with it.
    let [one, other] = ["one", "other"].map(|name| CniTool::new(&sandbox, &network(name, "10.78.0.0/24")));
    one.add(&sandbox.container("lost")).expect_success();
    lose(&sandbox, "lost");
    fs::remove_file(&cache()[0]).expect("remove the entry");
    age_records(&sandbox, true);
    sandbox.container("lost").sh("ip addr add 10.78.0.2/24 dev lo");
    one.add(&sandbox.container("known")).expect_success();
    other.add(&sandbox.container("neighbour")).expect_success();
    sandbox.sh("mkdir /var/lib/cni/multus");
    sandbox.sh("cp -a /var/lib/cni/results /var/lib/cni/multus");
    sandbox.sh("find /run/leases-one -type f -exec touch -d yesterday {} +");
    let (said, unclear) = (remove(&sandbox), " eth0: unclear: a network namespace has 10.78.0.2, and may be its own (");
    assert!(said.stdout().contains(unclear), "{said}");
}

/// H3: in another network namespace the containers look as if they had ended.
#[test]
fn what_looks_at_containers_refuses_in_another_network_namespace() {
    let sandbox = host();
    let attached = PublishedContainer::add(&sandbox, "first", 8080);
    let program = binaries::under_test().join("cni-plugins");
    for words in ["gc --remove", "gc", "repair", "list", "metrics", "doctor web"] {
        let refused = sandbox.exec(&["sh", "-c", &format!("unshare -n {} {words}", program.display())]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{words}: {}", refused.stderr);
        let sentence = "the containers of this machine belong to another network namespace; run this command in it";
        assert!(refused.stderr.contains(sentence), "{words}: {}", refused.stderr);
    }
    attached.tool.check(&attached.container).expect_success();
}

/// H3: a toolbox container has namespaces of its own, and the host's cache; our records are not to be seen.
#[test]
fn what_cannot_be_seen_from_another_pid_namespace_is_unclear_and_stays() {
    let sandbox = host();
    let attached = PublishedContainer::add(&sandbox, "first", 8080);
    let program = binaries::under_test().join("cni-plugins");
    let line = format!(
        "unshare -n -m -p --fork --mount-proc sh -c \"mount -t tmpfs tmpfs /run && {} gc --remove\"",
        program.display()
    );
    let judged = sandbox.exec(&["sh", "-c", &line]);
    assert_eq!(judged.code, Some(FOUND), "{}{}", judged.stdout, judged.stderr);
    let reason = "unclear: not every network namespace of the machine can be seen: \
                  this process is in a PID namespace that does not show all processes";
    assert!(judged.stdout.contains(reason), "{}", judged.stdout);
    attached.tool.check(&attached.container).expect_success();
    assert_eq!(cache().len(), 1);
}

/// H4: what cannot be read without a privilege is not treated as missing. With a record no privilege over processes is needed.
#[test]
fn without_the_right_over_processes_the_living_stay_and_the_dead_go() {
    let sandbox = host();
    let attached = PublishedContainer::add(&sandbox, "first", 8080);
    let inhabitant = process_in(&attached.container);
    sandbox.sh("ip netns del first");
    PublishedContainer::add(&sandbox, "second", 8081);
    lose(&sandbox, "second");
    let program = binaries::under_test().join("cni-plugins");
    let gc = format!("setpriv --bounding-set=-sys_ptrace {} gc --remove", program.display());
    let removed = sandbox.exec(&["sh", "-c", &gc]).expect_success();
    assert!(removed.stdout.ends_with("eth0: removed (its namespace is gone; 172.26.64.3)\n"), "{}", removed.stdout);
    assert_eq!(cache().len(), 1, "the living one's");
    // As if other plugins had made it.
    sandbox.sh("rm -r /run/cni/.cni-plugins-rs");
    let judged = sandbox.exec(&["sh", "-c", &gc]);
    assert!(!judged.stdout.contains("removed"), "{}{}", judged.stdout, judged.stderr);
    assert_eq!(cache().len(), 1);
    drop(inhabitant);
}

/// M2: anybody can make a network namespace that changes while it is read, and that has any address.
#[test]
fn a_namespace_that_changes_without_end_keeps_nothing_that_is_dead() {
    let sandbox = host();
    let neighbour = PublishedContainer::add(&sandbox, "stays", 8080);
    PublishedContainer::add(&sandbox, "goes", 8081);
    let hostile = "ip link set lo up; ip addr add 172.26.64.3/32 dev lo; touch /run/hostile; \
                   while :; do ip addr add 10.9.9.9/32 dev lo; ip addr del 10.9.9.9/32 dev lo; done";
    let mut command = Command::new("unshare");
    let _hostile = Running(command.args(["-n", "sh", "-c", hostile]).spawn().expect("start a process"));
    wait_until("the hostile namespace", || Path::new("/run/hostile").exists());
    lose(&sandbox, "goes");
    let removed = remove(&sandbox);
    removed.expect_success();
    assert!(removed.stdout().ends_with("eth0: removed (its namespace is gone; 172.26.64.3)\n"), "{removed}");
    neighbour.tool.check(&neighbour.container).expect_success();
}

/// S7: the list has no plugin of ours that could say what is missing.
#[test]
fn a_container_of_others_that_has_lost_its_namespace_is_not_whole() {
    let sandbox = host();
    fs::create_dir(OTHERS).expect("create a folder");
    let result = json!({"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "mac": "02:00:00:00:00:07",
        "sandbox": "/run/netns/first"}], "ips": [{"address": "10.88.0.7/24", "interface": 0}]});
    let plugin = format!("cat >/dev/null; test \"$CNI_COMMAND\" != ADD || echo '{result}'\n");
    script::install(&Path::new(OTHERS).join("other"), &plugin);
    let list = json!({"cniVersion": "1.0.0", "name": "others", "plugins": [{"type": "other"}]});
    let container = sandbox.container("first");
    container.sh("ip link add eth0 address 02:00:00:00:00:07 type bridge");
    CniTool::new(&sandbox, &list).binaries(Path::new(OTHERS)).add(&container).expect_success();
    let state = || crate::admin::document(&sandbox, &["list"]).0["attachments"][0]["state"].clone();
    assert_eq!(state(), "unknown");
    sandbox.sh("ip netns del first");
    // Where processes cannot be seen, such as in a container, it is unclear.
    wait_until("it is gone", || state() != "unknown");
    assert!([json!("gone"), json!("unclear")].contains(&state()), "{}", state());
}
