//! How many processes a container costs.
//!
//! Nomad's IPv4 list, on a host where another container has made what all share. The plugins that
//! the runtime starts are not counted; what they start is, the IPAM plugin too. Go v1.9.1 starts
//! 51 for ADD, 22 for CHECK and 33 for DEL, and on a busy host each of them costs milliseconds.
//! Where iptables keeps its tables in nf_tables, ours start none: an IPAM plugin that is the same program is called
//! inside the process.

use std::fs;
use std::path::Path;

use cni_conformance::{
    Attachment, Flavour, Hairpin, Invocation, Nomad, PortMapping, Runtime, Sandbox, Spelling, Verb, binaries, nomad,
    script,
};
use serde_json::{Value, json};

/// Makes a client with one container, and traces a second one's ADD, CHECK and DEL. Port mappings go into one transaction, however many there
/// are. Go starts two processes for every rule.
#[track_caller]
fn assert_few(list: &Nomad, flavour: Flavour, ports: u16, most: usize) {
    let sandbox = Sandbox::with_flavour(flavour);
    list.ensure_forwarding_rules(&sandbox);
    let runtime = Runtime::new(&sandbox, list.conflist());
    let attachment = |name, ports: Vec<PortMapping>| {
        Attachment::new(name, &sandbox.container(name)).ports(&ports, Spelling::Go).args(&nomad::args(name, "web", &[]))
    };
    runtime.add(&mut attachment("first", PortMapping::twins(8080, 80))).expect_success();
    let mut second = attachment("second", (9000..9000 + ports).flat_map(|port| PortMapping::twins(port, 80)).collect());
    let traced = runtime.traced();
    let add = traced.add(&mut second);
    for (what, chain) in [("ADD", add), ("CHECK", traced.check(&second)), ("DEL", traced.del(&second.args("")))] {
        let children = chain.children();
        assert!(children.len() <= most, "{what} on {flavour:?}: {} processes: {children:#?}", children.len());
        chain.expect_success();
    }
}

/// With legacy iptables CHECK lists FORWARD: no condition of a batch says whether a rule before the jump drops all packets.
#[test]
fn a_container_costs_few_processes_and_none_where_iptables_keeps_its_tables_in_nf_tables() {
    assert_few(&Nomad::version("1.0.0").dual_stack().hairpin(Hairpin::On), Flavour::Nft, 20, 0);
    assert_few(&Nomad::default(), Flavour::Legacy, 1, 4);
}

/// What bridge says to each command for two containers, and what it logs of its IPAM plugin: without what is random.
fn said(ipam: &Value, folder: &Path, is_apart: bool) -> Vec<(Value, Vec<String>)> {
    let sandbox = Sandbox::new();
    if is_apart {
        // The plugins in a folder of their own, each a file of its own.
        fs::create_dir_all(folder).expect("a folder");
        for plugin in ["bridge", "host-local", "static"] {
            script::copy_program(binaries::under_test().join(plugin), folder.join(plugin));
        }
    }
    let mut config = json!({"cniVersion": "1.1.0", "name": "net1", "type": "bridge", "bridge": "br1", "ipam": ipam});
    let mut said = Vec::new();
    for name in ["first", "second"] {
        let container = sandbox.container(name);
        config["prevResult"] = Value::Null;
        for verb in [Verb::Add, Verb::Check, Verb::Status, Verb::Del, Verb::Del, Verb::Add] {
            let call = Invocation::new(&sandbox, "bridge", verb).binaries(folder).config(&config).container_id(name);
            let outcome = call.netns(container.path()).env("CNI_PLUGINS_LOG", "debug").traced(true).run();
            let mut answer = serde_json::from_str(outcome.stdout()).unwrap_or_default();
            if verb == Verb::Add && outcome.succeeded() {
                config["prevResult"] = answer;
                answer =
                    json!([config["prevResult"]["ips"], config["prevResult"]["routes"], config["prevResult"]["dns"]]);
            }
            assert!(is_apart || outcome.children().is_empty(), "{:?}", outcome.children());
            let lines = outcome.stderr().lines().filter(|line| line.contains("host-local") || line.contains("static"));
            said.push((answer, lines.map(str::to_owned).collect()));
        }
    }
    said
}

/// Whether the IPAM plugin is the same file decides how it is called, and nothing else.
#[test]
fn an_ipam_plugin_inside_the_process_answers_as_one_in_its_own() {
    let [subnet, full] = [json!([[{"subnet": "10.7.0.0/24"}]]), json!([[{"subnet": "10.7.0.0/30"}]])];
    for ipam in [
        json!({"type": "host-local", "ranges": subnet, "routes": [{"dst": "0.0.0.0/0"}]}),
        json!({"type": "host-local", "ranges": full}),
        json!({"type": "host-local", "ranges": [[{"subnet": "10.7.0.0/33"}]]}),
        json!({"type": "host-local", "ranges": subnet, "resolvConf": "/nowhere/resolv.conf"}),
        json!({"type": "static", "addresses": [{"address": "10.7.0.9/24", "gateway": "10.7.0.1"}]}),
        json!({"type": "static", "addresses": "10.7.0.9/24"}),
    ] {
        let [inside, apart] =
            [said(&ipam, &binaries::under_test(), false), said(&ipam, Path::new("/run/copies"), true)];
        assert_eq!(inside, apart, "{ipam:#}");
    }
}
