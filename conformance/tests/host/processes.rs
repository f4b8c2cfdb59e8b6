//! How many processes a container costs.
//!
//! Nomad's IPv4 list, on a host where another container has made what all share. The plugins that
//! the runtime starts are not counted; what they start is, the IPAM plugin too. Go v1.9.1 starts
//! 51 for ADD, 22 for CHECK and 33 for DEL, and on a busy host each of them costs milliseconds.
//! Where iptables keeps its tables in nf_tables, ours start none: an IPAM plugin that is the same program is called
//! inside the process.

use std::fs;
use std::path::{Path, PathBuf};

use cni_conformance::{
    Attachment, Chain, Container, Flavour, Hairpin, Invocation, Nomad, Outcome, PortMapping, Runtime, Sandbox,
    Spelling, Verb, binaries, nomad, script,
};
use serde_json::{Value, json};

/// At most so many for ADD, CHECK and DEL.
const fn limits(flavour: Flavour) -> [usize; 3] {
    match flavour {
        Flavour::Nft => [0, 0, 0],
        Flavour::Legacy => [4, 3, 4],
    }
}

/// Attaches a container with one of Nomad's ports, and leaves it running.
fn attach(runtime: &Runtime<'_>, container: &Container, host_port: u16) -> (Attachment, Chain) {
    let name = container.name();
    let mut attachment = Attachment::new(name, container)
        .ports(&PortMapping::twins(host_port, 80), Spelling::Go)
        .args(&nomad::args(name, "web", &[]));
    let chain = runtime.add(&mut attachment);
    chain.expect_success();
    (attachment, chain)
}

/// Makes a client with one container, and a second one's ADD, CHECK and DEL, all traced.
fn second_container(list: &Nomad, flavour: Flavour) -> [Chain; 3] {
    let sandbox = Sandbox::with_flavour(flavour);
    list.ensure_forwarding_rules(&sandbox);
    let runtime = Runtime::new(&sandbox, list.conflist());
    attach(&runtime, &sandbox.container("first"), 8080);
    let traced = runtime.clone().traced();
    let (attachment, add) = attach(&traced, &sandbox.container("second"), 8081);
    let check = traced.check(&attachment);
    [add, check, traced.del(&attachment.args(""))]
}

/// The number comes first, so that it shows of plugins that fail as well.
#[track_caller]
fn assert_at_most(limit: usize, what: &str, chain: &Chain) {
    let children = chain.children();
    let first = children.iter().take(2 * limit + 1).cloned().collect::<Vec<_>>().join("\n");
    assert!(children.len() <= limit, "{what}: {} processes, the first of them:\n{first}", children.len());
    chain.expect_success();
}

/// Makes a client of each flavour, and looks at what its second container costs.
#[track_caller]
fn assert_few(list: &Nomad, flavour: Flavour) {
    let chains = second_container(list, flavour);
    for (limit, (what, chain)) in limits(flavour).into_iter().zip(["ADD", "CHECK", "DEL"].into_iter().zip(&chains)) {
        assert_at_most(limit, &format!("{what} on {flavour:?}"), chain);
    }
}

#[test]
fn a_container_costs_no_process_where_iptables_keeps_its_tables_in_nf_tables() {
    assert_few(&Nomad::default(), Flavour::Nft);
}

#[test]
fn a_container_costs_few_processes_where_iptables_is_legacy() {
    assert_few(&Nomad::default(), Flavour::Legacy);
}

#[test]
fn a_second_family_costs_no_process() {
    assert_few(&Nomad::default().dual_stack(), Flavour::Nft);
}

#[test]
fn hairpin_and_a_later_version_cost_no_process() {
    assert_few(&Nomad::version("1.0.0").hairpin(Hairpin::On), Flavour::Nft);
}

/// Port mappings go into one transaction, however many there are. Go starts two processes for
/// every rule.
#[test]
fn twenty_ports_cost_no_more_than_one() {
    let sandbox = Sandbox::new();
    let list = Nomad::default();
    list.ensure_forwarding_rules(&sandbox);
    let runtime = Runtime::new(&sandbox, list.conflist());
    attach(&runtime, &sandbox.container("first"), 8080);
    let container = sandbox.container("second");
    let ports: Vec<_> = (9000..9020).flat_map(|port| PortMapping::twins(port, 80)).collect();
    let mut attachment = Attachment::new("second", &container).ports(&ports, Spelling::Go);
    let traced = runtime.traced();
    let [most_add, most_check, most_del] = limits(Flavour::Nft);
    assert_at_most(most_add, "ADD", &traced.add(&mut attachment));
    assert_at_most(most_check, "CHECK", &traced.check(&attachment));
    assert_at_most(most_del, "DEL", &traced.del(&attachment));
}

#[test]
fn loopback_and_host_local_start_no_process() {
    let [add, check, del] = second_container(&Nomad::default(), Flavour::Nft);
    for chain in [add, check, del] {
        chain.expect_success();
        let own: Vec<_> = chain.step("loopback").children().iter().collect();
        assert!(own.is_empty(), "{own:?}");
    }
    let sandbox = Sandbox::new();
    let container = sandbox.container("alone");
    let mut list = Nomad::default().conflist();
    list["plugins"] = serde_json::json!([{"type": "host-local", "ipam": list["plugins"][1]["ipam"]}]);
    let traced = Runtime::new(&sandbox, list).traced();
    let mut attachment = Attachment::new("alone", &container);
    assert_at_most(0, "ADD", &traced.add(&mut attachment));
    assert_at_most(0, "CHECK", &traced.check(&attachment));
    assert_at_most(0, "DEL", &traced.del(&attachment));
}

/// The plugins in a folder of their own, each a file of its own.
fn copies() -> PathBuf {
    let folder = Path::new("/run/copies");
    fs::create_dir_all(folder).expect("a folder");
    for plugin in ["bridge", "host-local", "static"] {
        script::copy_program(binaries::under_test().join(plugin), folder.join(plugin));
    }
    folder.to_owned()
}

fn json_of(outcome: &Outcome) -> Value {
    if outcome.stdout().is_empty() { Value::Null } else { serde_json::from_str(outcome.stdout()).expect("JSON") }
}

/// What the IPAM plugin has to do with an answer: what is random is left out.
fn of_ipam(outcome: &Outcome) -> Value {
    let said = json_of(outcome);
    if outcome.succeeded() { json!([said["ips"], said["routes"], said["dns"]]) } else { said }
}

/// What is logged of the IPAM plugin.
fn logged(outcome: &Outcome) -> Vec<String> {
    let lines = outcome.stderr().lines().filter(|line| line.contains("host-local") || line.contains("static"));
    lines.map(str::to_owned).collect()
}

/// Whether the IPAM plugin is the same file decides how it is called, and nothing else.
#[test]
fn an_ipam_plugin_inside_the_process_answers_as_one_in_its_own() {
    let [subnet, full] = [json!([[{"subnet": "10.7.0.0/24"}]]), json!([[{"subnet": "10.7.0.0/30"}]])];
    let configurations = [
        json!({"type": "host-local", "ranges": subnet, "routes": [{"dst": "0.0.0.0/0"}]}),
        json!({"type": "host-local", "ranges": full}),
        json!({"type": "host-local", "ranges": [[{"subnet": "10.7.0.0/33"}]]}),
        json!({"type": "host-local", "ranges": subnet, "resolvConf": "/nowhere/resolv.conf"}),
        json!({"type": "host-local"}),
        json!({"type": "static", "addresses": [{"address": "10.7.0.9/24", "gateway": "10.7.0.1"}]}),
        json!({"type": "static", "addresses": [{"address": "10.7.0.9"}]}),
        json!({"type": "static", "addresses": "10.7.0.9/24"}),
    ];
    for ipam in configurations {
        let [inside, apart] = [false, true].map(|is_apart| {
            let sandbox = Sandbox::new();
            let folder = if is_apart { copies() } else { binaries::under_test() };
            let network =
                json!({"cniVersion": "1.1.0", "name": "net1", "type": "bridge", "bridge": "br1", "ipam": ipam});
            let mut said = Vec::new();
            for name in ["first", "second"] {
                let container = sandbox.container(name);
                let mut previous = Value::Null;
                for verb in [Verb::Add, Verb::Check, Verb::Status, Verb::Del, Verb::Del, Verb::Add] {
                    let mut config = network.clone();
                    config["prevResult"] = previous.clone();
                    let call = Invocation::new(&sandbox, "bridge", verb).binaries(&folder).config(&config);
                    let call =
                        call.container_id(name).netns(container.path()).env("CNI_PLUGINS_LOG", "debug").traced(true);
                    let outcome = call.run();
                    if verb == Verb::Add && outcome.succeeded() {
                        previous = json_of(&outcome);
                    }
                    assert!(is_apart || outcome.children().is_empty(), "{:?}", outcome.children());
                    said.push((verb, of_ipam(&outcome), logged(&outcome)));
                }
            }
            said
        });
        assert_eq!(inside, apart, "{ipam:#}");
    }
}
