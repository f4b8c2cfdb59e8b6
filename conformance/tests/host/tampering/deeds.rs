//! Whatever a container does in its own namespace, CHECK, `repair`, GC and DEL of it change nothing of other
//! containers, and only its own objects on the host.

use std::fs::{self, File};

use cni_conformance::state::assert_same;
use cni_conformance::table::work_out;
use cni_conformance::{Attachment, CniTool, Container, Invocation, Nomad, Runtime, Sandbox, Skeleton, State, Verb};
use serde_json::{Value, json};

/// What a container may do to its interface. `VICTIM` and `GATEWAY` are addresses, `MAC` and `ALIAS` the victim's, `PEER` and
/// `PORT` the indices of the victim's interface and of its port, `ELSEWHERE` a namespace that is the container's too.
/// What CHECK says of it: the rest says nothing, since it is nobody else's matter.
const PASSES: &str = "";
const FAILS: &str = "CHECK";

const DEEDS: [(&str, &str, &[&str]); 20] = [
    ("nothing", PASSES, &[]),
    ("its interface deleted", FAILS, &["ip link del eth0"]),
    ("renamed", FAILS, &["ip link set eth0 down", "ip link set eth0 name eth9"]),
    (
        "renamed, and an alternative name",
        FAILS,
        &["ip link set eth0 down", "ip link set eth0 name eth9", "ip link property add dev eth9 altname eth0"],
    ),
    ("moved", FAILS, &["ip link set eth0 netns ELSEWHERE"]),
    ("moved, and another in its place", FAILS, &["ip link set eth0 netns ELSEWHERE", "ip link add eth0 type bridge"]),
    ("lo in its place", FAILS, &["ip link del eth0", "ip link set lo name eth0"]),
    ("a bridge in its place", FAILS, &["ip link del eth0", "ip link add eth0 type bridge", "ip link set eth0 up"]),
    (
        "its peer exchanged",
        FAILS,
        &["ip link del eth0", "ip link add eth0 type veth peer name eth8", "ip link set eth0 up"],
    ),
    (
        "its peer exchanged for one elsewhere",
        FAILS,
        &["ip link del eth0", "ip link add eth0 type veth peer name eth8 netns ELSEWHERE", "ip link set eth0 up"],
    ),
    (
        "the indices of the victim's pair",
        FAILS,
        &["ip link del eth0", "ip link add eth0 index PEER type veth peer name eth8 index PORT", "ip link set eth0 up"],
    ),
    (
        "the indices, elsewhere",
        FAILS,
        &[
            "ip link del eth0",
            "ip link add eth0 index PEER type veth peer name eth8 index PORT netns ELSEWHERE",
            "ip link set eth0 up",
        ],
    ),
    ("the victim's address", FAILS, &["ip addr flush dev eth0", "ip addr add VICTIM/20 dev eth0"]),
    ("the gateway's address", PASSES, &["ip addr add GATEWAY/20 dev eth0"]),
    ("the victim's MAC address", FAILS, &["ip link set eth0 address MAC"]),
    ("the victim's alias", PASSES, &["ip link set eth0 alias ALIAS"]),
    ("down", FAILS, &["ip link set eth0 down"]),
    ("queueing", PASSES, &["tc qdisc replace dev eth0 root pfifo limit 1"]),
    ("no route", FAILS, &["ip route flush dev eth0"]),
    ("the host's namespace at its path", FAILS, &["HOST"]),
];

/// How a container ends.
#[derive(Clone, Copy, Debug)]
enum ContainerEnd {
    Del,
    Gc,
}

struct Scene {
    sandbox: Sandbox,
    nomad: Nomad,
    list: Value,
    victim: (Container, Attachment),
    attacker: (Container, Attachment),
    elsewhere: Container,
    /// Somebody is in it.
    _alive: File,
    /// The host and the victim, before the attacker came.
    before: State,
}

impl Scene {
    fn new() -> Self {
        let (sandbox, nomad) = (Sandbox::new(), Nomad::version("1.1.0"));
        nomad.ensure_forwarding_rules(&sandbox);
        let mut list = nomad.conflist();
        // Without loopback, whose interface some containers here rename.
        list["plugins"].as_array_mut().expect("plugins").remove(0);
        list["plugins"][0]["macspoofchk"] = json!(true);
        let elsewhere = sandbox.container("elsewhere");
        let victim = add(&sandbox, &list, "victim");
        let before = State::capture(&sandbox, &[&victim.0]);
        let attacker = add(&sandbox, &list, "attacker");
        let alive = File::open(attacker.0.path()).expect("open the namespace");
        Self { sandbox, nomad, list, victim, attacker, elsewhere, _alive: alive, before }
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    fn state(&self) -> State {
        State::capture(&self.sandbox, &[&self.victim.0])
    }

    fn perform(&self, deed: &str) {
        let (result, port) = (self.victim.1.result.as_ref().expect("attached"), self.port_of_victim());
        let about = |file: &str| self.sandbox.sh(&format!("cat /sys/class/net/{port}/{file}")).trim().to_owned();
        let words = [
            ("VICTIM", "172.26.64.2".to_owned()),
            ("GATEWAY", "172.26.64.1".to_owned()),
            ("MAC", result["interfaces"][2]["mac"].as_str().expect("a MAC address").to_owned()),
            ("ALIAS", about("ifalias")),
            ("PEER", about("iflink")),
            ("PORT", about("ifindex")),
            ("ELSEWHERE", self.elsewhere.path().to_owned()),
        ];
        if deed == "HOST" {
            self.attacker.0.unmount();
            self.sandbox.sh(&format!("mount -n --bind /proc/thread-self/ns/net {}", self.attacker.0.path()));
            return;
        }
        let line = words.iter().fold(deed.to_owned(), |line, (word, meaning)| line.replace(word, meaning));
        self.attacker.0.sh(&line);
    }

    fn port_of_victim(&self) -> String {
        let result = self.victim.1.result.as_ref().expect("attached");
        result["interfaces"][1]["name"].as_str().expect("a name").to_owned()
    }

    /// Each command that is to change nothing changes nothing; returns which of them failed.
    fn look_and_repair(&self) -> Vec<&'static str> {
        let was = self.state();
        let mut failed = Vec::new();
        let mut judge = |command, succeeded: bool| {
            assert_same(&was, &self.state());
            self.runtime().check(&self.victim.1).expect_success();
            failed.extend((!succeeded).then_some(command));
        };
        judge("CHECK", self.runtime().check(&self.attacker.1).succeeded());
        let repaired = Invocation::new(&self.sandbox, "cni-plugins", Verb::Add).arguments(&["repair"]).run();
        judge("repair", repaired.succeeded());
        judge("GC", self.runtime().gc(&[&self.victim.1, &self.attacker.1]).succeeded());
        failed
    }

    /// The runtime that has made the cache is not the one that deletes.
    fn forget_attacker(&self) {
        let name = format!("/var/lib/cni/results/nomad-{}-eth0", self.attacker.1.container_id);
        fs::remove_file(&name).unwrap_or_else(|error| panic!("remove {name}: {error}"));
    }

    /// A path that leads to the host's own namespace is refused, and then none is told.
    fn end(&self, end: ContainerEnd, is_refused: bool) {
        let (runtime, attachment) = (self.runtime(), &self.attacker.1);
        match end {
            ContainerEnd::Gc => drop(runtime.gc(&[&self.victim.1]).expect_success()),
            ContainerEnd::Del if is_refused => {
                drop(runtime.del(attachment).expect_error("portmap", 8, "should not be the same"));
                runtime.del(&attachment.clone().netns("")).expect_success();
            }
            ContainerEnd::Del => drop(runtime.del(attachment).expect_success()),
        }
        self.forget_attacker();
        Skeleton::of(&self.nomad).assert_nothing_else(&self.before, || self.state());
        self.runtime().check(&self.victim.1).expect_success();
    }
}

/// Attaches a container by the real runtime, whose cache `repair` reads.
fn add(sandbox: &Sandbox, list: &Value, name: &str) -> (Container, Attachment) {
    let container = sandbox.container(name);
    let result = CniTool::new(sandbox, list).add(&container).result();
    let cached = fs::read_dir("/var/lib/cni/results").expect("list the cache").map(|entry| entry.expect("an entry"));
    let texts = cached.map(|entry| fs::read_to_string(entry.path()).expect("read the cache"));
    let mut parsed = texts.map(|text| serde_json::from_str::<Value>(&text).expect("JSON"));
    let own = parsed.find(|cache| cache["netns"] == container.path()).expect("the container's");
    let mut attachment = Attachment::new(own["containerId"].as_str().expect("an id"), &container);
    attachment.result = Some(result);
    (container, attachment)
}

#[test]
fn whatever_a_container_does_the_others_have_what_they_had() {
    let mut cells = Vec::new();
    for (name, check, deeds) in DEEDS {
        for end in [ContainerEnd::Del, ContainerEnd::Gc] {
            cells.push(([name.to_owned(), format!("{end:?}")], (deeds, check, end)));
        }
    }
    work_out(["deed", "end"], cells, |(deeds, check, end)| {
        let scene = Scene::new();
        deeds.iter().for_each(|deed| scene.perform(deed));
        let failed = scene.look_and_repair();
        assert_eq!(failed.join(" "), check);
        scene.end(end, deeds.contains(&"HOST"));
        format!("failed: {}", failed.join(" "))
    });
}
