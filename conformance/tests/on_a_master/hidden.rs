//! Where DEL finds an interface that a container has moved on: in every namespace of the machine that this process can reach,
//! whatever keeps it. What it cannot reach it says.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::{self, Command};
use std::thread;

use cni_conformance::cases::for_each;
use cni_conformance::child::Running;
use cni_conformance::uml::on_a_kernel_with;
use cni_conformance::wait::wait_until;
use cni_conformance::{Attachment, CniTool, Feature, Invocation, Namespace, Verb, binaries, reference};
use serde_json::json;

use super::{MasterHost, has_eth0, shell, with_script};

/// Moves `eth0` into a new namespace, which is mounted at `$place`.
const MOVE: &str = "mkdir -p /run/k; mount -t tmpfs t /run/k; touch \"$place\"; unshare --net=\"$place\" true
ip link set eth0 netns \"$place\"; nsenter --net=\"$place\" ip address add 10.7.0.2/24 dev eth0
nsenter --net=\"$place\" ip link set eth0 up\n";

const PLACE: &str = "place=/run/k/x\n";

/// A process that only a thread of its own is in the namespace of.
const THREAD: &str = "exec python3 -c '
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
def work():
    netns = os.open(\"/run/k/x\", os.O_RDONLY)
    assert libc.setns(netns, 0x40000000) == 0
    os.close(netns)
    assert libc.umount2(b\"/run/k/x\", 2) == 0
    open(\"/run/ready\", \"w\")
    time.sleep(1000)
threading.Thread(target=work).start()
time.sleep(1000)'";

/// Ends its first thread, and lives on by another.
const END_FIRST_THREAD: &str = "
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
open(\"/run/ready\", \"w\")
ctypes.CDLL(None).pthread_exit(None)";

const SLEEP: &str = "touch /run/ready; exec sleep 1000";

const CHROOT: &str = "mkdir /run/k/e; mount --bind / /run/k/e; touch /run/ready; exec chroot /run/k/e sleep 1000";

/// What keeps the namespace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamespaceHolder {
    Thread,
    Mount,
    /// A mount, in a mount namespace that only a descriptor of another process keeps.
    Descriptor,
}

/// The process that hides the interface.
struct HidingProcess(Running);

impl HidingProcess {
    /// Starts it in the container, with a mount namespace of its own, and waits until it has hidden the interface.
    fn start(container: &Namespace, script: &str) -> Self {
        let own = "--propagation=private";
        let mut command = Command::new("unshare");
        command.args(["--mount", own, "sh", "-ec", script]);
        let hider = container.run(|| Self(Running(command.spawn().expect("start a process"))));
        wait_until("the interface is hidden", || fs::exists("/run/ready").is_ok_and(|is_there| is_there));
        fs::remove_file("/run/ready").expect("remove a file");
        hider
    }

    /// Waits until its first thread has ended, by which `/proc/<pid>` shows its namespaces.
    fn wait_for_the_end_of_its_first_thread(&self) {
        wait_until("the first thread ends", || fs::read_link(self.path("ns/net")).is_err());
    }

    fn path(&self, below: &str) -> String {
        format!("/proc/{}/{below}", self.0.0.id())
    }

    /// The path of its other thread, whose number may be lower.
    fn other_thread(&self) -> String {
        let first = self.0.0.id().to_string();
        let threads = fs::read_dir(self.path("task")).expect("list its threads");
        let mut threads = threads.map(|thread| thread.expect("a thread").file_name().into_string().expect("a number"));
        let other = threads.find(|thread| *thread != first).expect("another thread");
        self.path(&format!("task/{other}"))
    }
}

#[test]
fn del_finds_an_interface_wherever_a_container_hides_it() {
    let first_thread_ends =
        format!("exec nsenter --net=/run/k/x sh -ec 'umount /run/k/x; exec python3 -c \"$0\"' '{END_FIRST_THREAD}'");
    let cases = [
        ("in the namespace of a thread", (PLACE, THREAD, NamespaceHolder::Thread)),
        ("in that of a process whose first thread has ended", (PLACE, &*first_thread_ends, NamespaceHolder::Thread)),
        ("in one that is mounted where all processes are in a chroot", (PLACE, CHROOT, NamespaceHolder::Mount)),
        ("in one with a name that is not UTF-8", ("place=$(printf '/run/k/\\377')\n", SLEEP, NamespaceHolder::Mount)),
        (
            "with a line of the log",
            ("place=$(printf '/run/k/x\\nmacvlan warn: forged')\n", SLEEP, NamespaceHolder::Mount),
        ),
        ("in one that is mounted where no process is", (PLACE, SLEEP, NamespaceHolder::Descriptor)),
    ];
    on_a_kernel_with(Feature::MacvlanLinks, || {
        for_each(cases, |(place, script, kept)| {
            let machine = MasterHost::new();
            let list = machine.network(&json!({}));
            let (container, attachment) = machine.attach(&list, "c1");
            let mut hider = HidingProcess::start(&container, &format!("{place}{MOVE}{script}"));
            if script == first_thread_ends {
                hider.wait_for_the_end_of_its_first_thread();
            }
            let mounts = File::open(hider.path("ns/mnt"));
            let (network, way) = match kept {
                NamespaceHolder::Thread => (format!("{}/ns/net", hider.other_thread()), String::new()),
                NamespaceHolder::Mount | NamespaceHolder::Descriptor => ("$place".to_owned(), {
                    let file = mounts.as_ref().expect("its mount namespace").as_raw_fd();
                    format!("nsenter --mount=/proc/{}/fd/{file} ", process::id())
                }),
            };
            if kept == NamespaceHolder::Descriptor {
                hider.0.0.kill().expect("end the process");
                hider.0.0.wait().expect("the process ends");
            }
            let inside = format!("{place}{way}nsenter --net=\"{network}\" ip -o link show type macvlan");
            let links = || shell(machine.sandbox.host(), &inside);
            assert!(links().contains("eth0"), "it is hidden there");
            if kept != NamespaceHolder::Descriptor {
                drop(mounts);
            }
            let deleted = machine.runtime(&list).del(&attachment);
            deleted.expect_success();
            let said = deleted.step("macvlan").stderr();
            let count = |begin: &str| said.lines().filter(|line| line.starts_with(begin)).count();
            assert_eq!(count("macvlan warn: the container has moved its interface on: "), 1, "{said}");
            // Other tests hide namespaces as well.
            assert_eq!(count("") - count("macvlan warn: not every network namespace"), 1, "{said}");
            assert_eq!(machine.leases(), [""; 0]);
        });
    });
}

/// No path leads to it.
#[test]
fn del_says_that_it_cannot_see_a_namespace_that_is_covered_by_a_mount() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        let machine = MasterHost::new();
        let list = machine.network(&json!({}));
        let (container, attachment) = machine.attach(&list, "c1");
        let script = format!("{PLACE}{MOVE}mount -t tmpfs t /run/k; {SLEEP}");
        let _hider = HidingProcess::start(&container, &script);
        let deleted = machine.runtime(&list).del(&attachment);
        deleted.expect_success();
        let said = deleted.step("macvlan").stderr();
        assert!(said.contains("warn: not every network namespace of the machine can be searched: net:["), "{said}");
    });
}

/// As containers of the reference are, whose namespaces have no number on the host: by this they would be found as well.
#[test]
fn gc_of_the_tool_keeps_a_container_that_lives_by_a_thread_alone() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        let Some(reference) = reference::find("gc of what lives by a thread alone") else { return };
        let machine = MasterHost::new();
        let mut list = machine.network(&json!({}));
        list["cniVersion"] = json!("1.0.0");
        list["plugins"][0]["cniVersion"] = json!("1.0.0");
        let container = machine.sandbox.container("c1");
        CniTool::new(&machine.sandbox, &list).binaries(&reference.folder).add(&container).expect_success();
        let hider = HidingProcess::start(&container, &format!("exec python3 -c '{END_FIRST_THREAD}'"));
        hider.wait_for_the_end_of_its_first_thread();
        container.remove();
        let tool = Invocation::new(&machine.sandbox, "cni-plugins", Verb::Add).without_env("CNI_COMMAND");
        let done = tool.arguments(&["gc", "--remove"]).run();
        assert_eq!(done.stdout(), "nothing is left over\n", "{done}");
        assert_eq!(machine.leases(), ["10.7.0.2"]);
    });
}

/// H3: by its record. As from a container with the host's network, and where only a mount in another mount namespace keeps it.
#[test]
fn gc_of_the_tool_keeps_a_container_that_it_cannot_see() {
    let mounted = format!(
        "{PLACE}mkdir -p /run/k; mount -t tmpfs t /run/k; touch $place; mount --bind /proc/self/ns/net $place
exec unshare --net sh -c '{SLEEP}'"
    );
    on_a_kernel_with(Feature::MacvlanLinks, || {
        for (script, way) in [(SLEEP, "unshare --pid --fork --mount-proc "), (&mounted, "")] {
            let machine = MasterHost::new();
            let list = machine.network(&json!({}));
            let container = machine.sandbox.container("c1");
            CniTool::new(&machine.sandbox, &list).add(&container).expect_success();
            let _hider = HidingProcess::start(&container, script);
            container.remove();
            let program = binaries::under_test().join("cni-plugins");
            let said = machine.sandbox.sh(&format!("{way}{} gc --remove", program.display()));
            assert_eq!(said.trim_end(), "nothing is left over", "{way}");
            assert_eq!(machine.leases(), ["10.7.0.2"]);
        }
    });
}

/// Both have one MAC address by the configuration. The neighbour's ADD waits for its IPAM plugin, and has the interface.
#[test]
fn del_leaves_the_interface_of_a_container_that_is_being_added() {
    on_a_kernel_with(Feature::MacvlanLinks, || {
        let machine = MasterHost::new();
        let may_go_on = Path::new("/run/conformance/plugins/go");
        let wait = format!(
            "until [ $CNI_COMMAND.$CNI_CONTAINERID != ADD.c2 -o -e {} ]; do sleep 0.05; done",
            may_go_on.display()
        );
        let answer = r#"{"cniVersion":"1.0.0","ips":[{"address":"10.7.0.2/24"}]}"#;
        let path = with_script(&format!("{wait}\n[ $CNI_COMMAND != ADD ] || echo '{answer}'"));
        let list = machine.network(&json!({"ipam": {"type": "script"}, "mac": "02:00:00:00:00:77"}));
        let container = machine.sandbox.container("c1");
        let neighbour = machine.sandbox.container("c2");
        let runtime = machine.runtime(&list).env("CNI_PATH", &path);
        let mut attachment = Attachment::new("c1", &container);
        runtime.add(&mut attachment).expect_success();
        shell(&container, "ip link del eth0");
        thread::scope(|scope| {
            let adding = scope.spawn(|| runtime.add(&mut Attachment::new("c2", &neighbour)));
            wait_until("the neighbour's interface", || has_eth0(&neighbour));
            runtime.del(&attachment).expect_success();
            assert!(has_eth0(&neighbour));
            fs::write(may_go_on, "").expect("let the IPAM plugin answer");
            adding.join().expect("no panic").expect_success();
        });
        assert!(has_eth0(&neighbour));
    });
}
