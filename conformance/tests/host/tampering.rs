//! Whatever a container does in its own namespace, CHECK, `repair`, GC and DEL of it change nothing of other
//! containers, and remove only its own objects on the host, all of them.

use std::fs::{self, File};
use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::state::{await_none, differences};
use cni_conformance::table::work_out;
use cni_conformance::traffic::ping;
use cni_conformance::{Attachment, CniTool, Container, Invocation, Nomad, Runtime, Sandbox, State, Verb};
use serde_json::{Value, json};

/// What a container may do to its interface. `VICTIM` and `GATEWAY` are addresses, `MAC` and `ALIAS` the victim's, `PEER` and
/// `PORT` the indices of the victim's interface and of its port, `ELSEWHERE` a namespace that is the container's too.
/// What CHECK says of it: the rest says nothing, since it is nobody else's matter.
const PASSES: &str = "";
const FAILS: &str = "CHECK";

const DEEDS: [(&str, &str, &[&str]); 23] = [
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
    ("an address of another family", FAILS, &["ip addr flush dev eth0", "ip addr add fd00:99::1/64 dev eth0 nodad"]),
    ("its address on lo too", PASSES, &["ip link set lo up", "ip addr add OWN/32 dev lo"]),
    (
        "its address on another link too",
        PASSES,
        &["ip link add eth9 type bridge", "ip link set eth9 up", "ip addr add OWN/32 dev eth9"],
    ),
    ("the gateway's address", PASSES, &["ip addr add GATEWAY/20 dev eth0"]),
    ("the victim's MAC address", FAILS, &["ip link set eth0 address MAC"]),
    ("the victim's alias", PASSES, &["ip link set eth0 alias ALIAS"]),
    ("down", FAILS, &["ip link set eth0 down"]),
    ("queueing", PASSES, &["tc qdisc replace dev eth0 root pfifo limit 1"]),
    ("no route", FAILS, &["ip route flush dev eth0"]),
    ("the host's namespace at its path", FAILS, &["HOST"]),
];

/// How a container ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContainerEnd {
    Del,
    DelWithoutResult,
    Gc,
}

struct Scene {
    sandbox: Sandbox,
    list: Value,
    victim: (Container, Attachment),
    attacker: (Container, Attachment),
    elsewhere: Container,
    /// Somebody is in it.
    _alive: File,
    /// The host and the victim, before the attacker came.
    before: Vec<String>,
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
        let before = State::capture(&sandbox, &[&victim.0]).lasting();
        let attacker = add(&sandbox, &list, "attacker");
        let alive = File::open(attacker.0.path()).expect("open the namespace");
        Self { sandbox, list, victim, attacker, elsewhere, _alive: alive, before }
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    fn state(&self) -> Vec<String> {
        State::capture(&self.sandbox, &[&self.victim.0]).lasting()
    }

    /// Requires that the host and the victim are as they were.
    #[track_caller]
    fn is_as(&self, before: &[String]) {
        await_none(|| differences(before, &self.state()));
    }

    fn perform(&self, deed: &str) {
        let (result, port) = (self.victim.1.result.as_ref().expect("attached"), port(&self.victim.1));
        let about = |file: &str| self.sandbox.sh(&format!("cat /sys/class/net/{port}/{file}")).trim().to_owned();
        let words = [
            ("VICTIM", "172.26.64.2".to_owned()),
            ("OWN", "172.26.64.3".to_owned()),
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

    /// Each command that is to change nothing changes nothing; returns which of them failed.
    fn look_and_repair(&self) -> Vec<&'static str> {
        let was = self.state();
        let mut failed = Vec::new();
        let mut judge = |command, succeeded: bool| {
            self.is_as(&was);
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
        let (runtime, mut attachment) = (self.runtime(), self.attacker.1.clone());
        if end == ContainerEnd::DelWithoutResult {
            attachment = attachment.without_result();
        }
        match end {
            ContainerEnd::Gc => drop(runtime.gc(&[&self.victim.1]).expect_success()),
            ContainerEnd::Del | ContainerEnd::DelWithoutResult if is_refused => {
                drop(runtime.del(&attachment).expect_error("portmap", 8, "should not be the same"));
                runtime.del(&attachment.netns("")).expect_success();
            }
            ContainerEnd::Del | ContainerEnd::DelWithoutResult => {
                for _ in 0..2 {
                    runtime.del(&attachment).expect_success();
                }
            }
        }
        self.forget_attacker();
        self.is_as(&self.before);
        self.runtime().check(&self.victim.1).expect_success();
    }
}

/// The host's end of a container's interface.
fn port(attachment: &Attachment) -> &str {
    attachment.result.as_ref().expect("attached")["interfaces"][1]["name"].as_str().expect("a name")
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
        for end in [ContainerEnd::Del, ContainerEnd::DelWithoutResult, ContainerEnd::Gc] {
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

/// The path of a process whose number has been given to another container's. The reference sets no alias.
#[test]
fn del_with_another_containers_namespace_leaves_that_one_alone() {
    for_each(
        [(true, true), (true, false), (false, true), (false, false)].map(|row| (format!("{row:?}"), row)),
        |labelled| {
            let scene = Scene::new();
            let (victim, attachment) = (&scene.victim, &scene.attacker.1);
            for (one, _) in
                [(attachment, labelled.0), (&victim.1, labelled.1)].into_iter().filter(|(_, labelled)| !labelled)
            {
                scene.sandbox.host().must(&["ip", "link", "set", port(one), "alias", ""]);
            }
            let elsewhere = attachment.clone().netns(victim.0.path());
            for _ in ["once", "again"] {
                let deleted = scene.runtime().del(&elsewhere);
                scene.runtime().check(&victim.1).expect_success();
                deleted.expect_success();
            }
            // What has no label is deleted with the namespace.
            if labelled == (true, true) {
                scene.forget_attacker();
                scene.is_as(&scene.before);
            }
        },
    );
}

/// The container chooses the indices of its links, and so what the one that it shows seems to lead to.
#[test]
fn a_container_does_not_get_its_spoof_check_onto_another_containers_port() {
    for_each([("as they are", false), ("flushed", true)], |flushed| {
        let scene = Scene::new();
        let mac = scene.attacker.1.result.as_ref().map(|result| result["interfaces"][2]["mac"].to_string());
        let mac = mac.expect("attached").replace('"', "");
        let fake = format!("ip link add eth0 index PEER address {mac} type veth peer name p index PORT");
        ["ip link del eth0", &fake, "ip link set eth0 up"].iter().for_each(|deed| scene.perform(deed));
        if flushed {
            scene.sandbox.sh("nft flush ruleset");
        }
        let said = Invocation::new(&scene.sandbox, "cni-plugins", Verb::Add).arguments(&["repair"]).run();
        let words =
            "eth0: failed: CNI veth created for bridge nomad was not found: the peer of eth0 is not a port of nomad";
        assert!(said.stdout().contains(words), "{said}");
        let rules = scene.sandbox.sh("nft list table bridge nat");
        let of_victim = rules.lines().filter(|line| line.contains(port(&scene.victim.1))).count();
        assert_eq!(of_victim, 1, "the victim's own: {rules}");
        assert!(ping(&scene.victim.0, "172.26.64.1".parse().expect("an address"), Duration::from_secs(20)), "{rules}");
        assert!(!scene.runtime().check(&scene.attacker.1).succeeded());
        scene.runtime().check(&scene.victim.1).expect_success();
    });
}
