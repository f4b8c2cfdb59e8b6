//! The page "Moving from the Go plugins" is right: its commands swap the plugins under running containers, and back.
//!
//! The Go plugins are Debian's. Each block of commands of a section is run unchanged; then what the page promises
//! about it is checked.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use cni_conformance::state::diff;
use cni_conformance::traffic::{Echo, Transport, ask};
use cni_conformance::{CniTool, Container, Nomad, Outside, Sandbox, State, binaries, reference};
use nix::mount::{MsFlags, mount};
use serde_json::json;

const PLUGINS: &str = "/opt/cni/bin";

/// The blocks of commands of a section of the page.
fn commands(section: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../MOVING.md");
    let page = fs::read_to_string(page).expect("read the page");
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap_or_else(|| panic!("no section {section}"));
    let section = rest.split("\n## ").next().unwrap_or(rest);
    section.split("\n```sh\n").skip(1).map(|block| block.split("\n```").next().unwrap_or(block).to_owned()).collect()
}

/// A host with Debian's plugins where the page expects plugins, and a tarball of ours in its root's home.
struct DebianHost {
    sandbox: Sandbox,
    outside: Outside,
}

impl DebianHost {
    fn new() -> Option<Self> {
        let debian = reference::find("moving")?;
        let sandbox = Sandbox::new();
        let outside = sandbox.outside();
        mount(Some("tmpfs"), "/opt", Some("tmpfs"), MsFlags::empty(), Some("mode=0755"))
            .expect("mount a tmpfs on /opt");
        fs::create_dir_all(PLUGINS).expect("create the folder of plugins");
        sandbox.sh(&format!("cp -a {}/. {PLUGINS}", debian.folder.display()));
        let ours = binaries::under_test();
        sandbox.sh(&format!("tar -C {} -czf /run/cni-plugins-rs-linux-amd64-v0.tgz .", ours.display()));
        Nomad::version("1.0.0").ensure_forwarding_rules(&sandbox);
        Some(Self { sandbox, outside })
    }

    /// Runs the commands of a section; each block must succeed. Returns what each said, on both streams.
    #[track_caller]
    fn run(&self, section: &str) -> Vec<String> {
        let blocks = commands(section);
        assert!(!blocks.is_empty(), "no commands in {section}");
        let run = |block: &String| {
            let done = self.sandbox.exec(&["sh", "-euc", &format!("cd /run; {block}")]).expect_success();
            done.stdout + &done.stderr
        };
        blocks.iter().map(run).collect()
    }

    fn attached(&self, name: &str, port: u16) -> MovedContainer<'_> {
        let ports = json!([{"hostPort": port, "containerPort": 80, "protocol": "tcp"}]);
        let list = Nomad::version("1.0.0").conflist();
        let tool = CniTool::new(&self.sandbox, &list)
            .capabilities(json!({"portMappings": ports}))
            .binaries(Path::new(PLUGINS));
        let container = self.sandbox.container(name);
        tool.add(&container).expect_success();
        let server = Echo::start(&container, Transport::Tcp, ([0, 0, 0, 0], 80).into());
        MovedContainer { tool, container, port, outside: &self.outside, _server: server }
    }

    fn state(&self) -> State {
        State::of_host(&self.sandbox)
    }

    /// Requires that nothing is there that was not there before, and the other way round, but for what tells nothing of a
    /// container: the last address that was given, our locks and index beside the leases, records, and the table that
    /// guards the host's loopback, which Go does not have.
    #[track_caller]
    fn assert_nothing_left(&self, before: &State) {
        let guard = self.sandbox.sh("nft list table inet cni_plugins_localnet");
        let guard: Vec<_> = guard.lines().map(|line| format!("+ nftables: {line}")).collect();
        let tells = |line: &String| {
            !["/last_reserved_ip.", "/.cni-plugins-rs"].iter().any(|word| line.contains(word)) && !guard.contains(line)
        };
        let left: Vec<_> = diff(before, &self.state()).into_iter().filter(tells).collect();
        assert!(left.is_empty(), "{left:#?}");
    }
}

struct MovedContainer<'h> {
    tool: CniTool<'h>,
    container: Container,
    port: u16,
    outside: &'h Outside,
    _server: Echo,
}

impl MovedContainer<'_> {
    #[track_caller]
    fn assert_answers(&self) {
        let address = SocketAddr::new(IpAddr::V4(Outside::HOST_V4), self.port);
        ask(self.outside, Transport::Tcp, address).unwrap_or_else(|error| panic!("{address}: {error}"));
    }

    #[track_caller]
    fn delete(self) {
        self.tool.del(&self.container).expect_success();
    }
}

/// What the tool has said of each container, behind its name.
fn found(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.split_once(" eth0: ")).map(|(_, found)| found).collect()
}

fn is_ours(plugin: &str) -> bool {
    let bytes = |folder: &Path| fs::read(folder.join(plugin)).unwrap_or_else(|error| panic!("read {plugin}: {error}"));
    bytes(Path::new(PLUGINS)) == bytes(&binaries::under_test())
}

#[test]
fn the_page_swaps_the_plugins_under_running_containers_and_back() {
    let Some(host) = DebianHost::new() else { return };
    let (stays, before) = (host.attached("stays", 8080), host.state());
    let old = host.attached("old", 8081);

    let said = host.run("Before");
    let guard = "missing: portmap: nft inet cni_plugins_localnet ";
    let said = found(said.last().expect("commands"));
    assert!(said.len() == 2 && said.iter().all(|found| found.starts_with(guard)), "{said:#?}");
    assert!(!is_ours("bridge"), "nothing is swapped yet");
    // The containers share what is missing, so it is put back with the first.
    let said = host.run("The swap");
    let [first, "nothing missing"] = found(&said[0])[..] else { panic!("{said:#?}") };
    assert!(first.starts_with("repaired: portmap: nft inet cni_plugins_localnet "), "{said:#?}");
    assert!(is_ours("bridge") && is_ours("cni-plugins"));
    assert!(Path::new(PLUGINS).join("vrf").exists(), "what is not ours stays");
    [&stays, &old].iter().for_each(|attached| attached.assert_answers());

    let said = host.run("What to look at");
    let said = said.first().expect("commands");
    assert!(said.starts_with("{\"cniVersion\":\"1.1.0\"") && said.contains("CNI bridge plugin v1.9.1+rs."), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("nomad ") && line.ends_with(" whole")).count(), 2, "{said}");
    assert!(said.contains("ok       kernel: Linux "), "{said}");
    old.delete();
    host.assert_nothing_left(&before);
    let new = host.attached("new", 8082);
    [&stays, &new].iter().for_each(|attached| attached.assert_answers());

    host.run("The way back");
    assert!(!is_ours("bridge"), "the Go plugins are back");
    [&stays, &new].iter().for_each(|attached| attached.assert_answers());
    new.delete();
    host.assert_nothing_left(&before);
    stays.assert_answers();
    stays.delete();
}

#[test]
fn every_section_with_commands_is_run() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../MOVING.md")).expect("read the page");
    let run: usize =
        ["Before", "The swap", "What to look at", "The way back"].map(|section| commands(section).len()).iter().sum();
    assert_eq!(page.matches("\n```sh\n").count(), run);
}
