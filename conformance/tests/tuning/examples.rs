//! The lists that podman and nerdctl write themselves, word for word, and the example of the plugin's page.

use std::net::IpAddr;
use std::time::Duration;

use cni_conformance::state::diff;
use cni_conformance::traffic::ping;
use cni_conformance::{Attachment, Network, PortMapping, Runtime, Sandbox, Spelling, State, page};
use serde_json::{Value, json};

use crate::tuning::setup::file;

const PODMAN: &str = r#"{"cniVersion":"0.4.0","name":"podman","plugins":[{"type":"bridge","bridge":"cni-podman0","isGateway":true,"ipMasq":true,"hairpinMode":true,"ipam":{"type":"host-local","routes":[{"dst":"0.0.0.0/0"}],"ranges":[[{"subnet":"10.88.0.0/16","gateway":"10.88.0.1"}]]}},{"type":"portmap","capabilities":{"portMappings":true}},{"type":"firewall"},{"type":"tuning"}]}"#;

const NERDCTL: &str = r#"{"cniVersion":"1.0.0","name":"bridge","nerdctlID":"17f29b073143d8cd97b5bbe492bdeffec1c5fee55cc1fe2112c8b9335f8b6121","nerdctlLabels":{"nerdctl/default-network":"true"},"plugins":[{"type":"bridge","bridge":"nerdctl0","isGateway":true,"ipMasq":true,"hairpinMode":true,"ipam":{"ranges":[[{"gateway":"10.4.0.1","subnet":"10.4.0.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}],"type":"host-local"}},{"type":"portmap","capabilities":{"portMappings":true}},{"type":"firewall","ingressPolicy":"same-bridge"},{"type":"tuning"}]}"#;

const MAC: &str = "92:d0:c6:0a:29:33";

/// A runtime's list, what it sends in `CNI_ARGS`, and the gateway of its network.
struct RuntimeList {
    list: Value,
    args: String,
    gateway: IpAddr,
}

fn podman(more: &str) -> RuntimeList {
    let args = format!("IgnoreUnknown=1;K8S_POD_NAME=web{more}");
    RuntimeList { list: serde_json::from_str(PODMAN).expect("JSON"), args, gateway: [10, 88, 0, 1].into() }
}

fn nerdctl(more: &str) -> RuntimeList {
    let args = format!("IgnoreUnknown=1;NERDCTL_CNI_DHCP_HOSTNAME=web{more}");
    RuntimeList { list: serde_json::from_str(NERDCTL).expect("JSON"), args, gateway: [10, 4, 0, 1].into() }
}

/// ADD, CHECK and DEL of one container; DEL gets this namespace.
fn lives(written: &RuntimeList, mac: Option<&str>, del: impl Fn(&str) -> String) {
    let sandbox = Sandbox::new();
    // What all containers of the network share is there before.
    let neighbour = sandbox.container("neighbour");
    let runtime = Runtime::new(&sandbox, written.list.clone());
    let ports = [PortMapping::new(9090, 80, "tcp")];
    let mut other = Attachment::new("neighbour", &neighbour).ports(&ports, Spelling::Go);
    other.args = "IgnoreUnknown=1;MAC=92:d0:c6:0a:29:34".to_owned();
    runtime.add(&mut other).expect_success();
    let before = State::of_host(&sandbox);
    let container = sandbox.container("c1");
    let ports = [PortMapping::new(8080, 80, "tcp")];
    let mut attachment = Attachment::new("c1", &container).ports(&ports, Spelling::Go).args(&written.args);
    let result = runtime.add(&mut attachment).result();
    let found = Network::observe(&container).link("eth0").expect("eth0").mac.clone();
    assert_eq!(found, mac.unwrap_or(&found));
    let sandboxed = |interface: &&Value| interface["sandbox"].as_str().is_some_and(|path| !path.is_empty());
    let reported: Vec<&Value> = result["interfaces"].as_array().expect("interfaces").iter().filter(sandboxed).collect();
    assert_eq!((reported.len(), &reported[0]["mac"]), (1, &json!(found)), "what podman reads: {result}");
    assert!(ping(&container, written.gateway, Duration::from_secs(20)), "{} answers", written.gateway);
    runtime.check(&attachment).expect_success();
    attachment.netns = del(container.path());
    runtime.del(&attachment).expect_success();
    let mut changes = diff(&before, &State::of_host(&sandbox));
    changes.retain(|line| !line.contains("/last_reserved_ip.0 "));
    assert!(changes.is_empty(), "{}", changes.join("\n"));
    assert_eq!(file("/run/cni/tuning/c1_eth0.json"), None);
}

#[test]
fn podmans_default_list_works_with_and_without_a_mac() {
    lives(&podman(""), None, str::to_owned);
    lives(&podman(&format!(";MAC={MAC}")), Some(MAC), str::to_owned);
    lives(&podman(&format!(";MAC={MAC};IP=10.88.0.77")), Some(MAC), |_| String::new());
}

/// nerdctl calls DEL without a namespace.
#[test]
fn nerdctls_default_list_works_with_and_without_a_mac() {
    lives(&nerdctl(""), None, |_| String::new());
    lives(&nerdctl(&format!(";MAC={MAC};IP=10.4.0.77")), Some(MAC), |_| String::new());
    lives(&nerdctl(&format!(";MAC={MAC}")), Some(MAC), str::to_owned);
}

/// nerdctl calls DEL before the first ADD, too.
#[test]
fn a_del_before_the_first_add_finds_nothing_and_succeeds() {
    for written in [podman(""), nerdctl("")] {
        let sandbox = Sandbox::new();
        let container = sandbox.container("c1");
        let attachment = Attachment::new("c1", &container).args(&written.args).netns("");
        Runtime::new(&sandbox, written.list).del(&attachment).expect_success();
    }
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let list = page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/tuning/README.md")));
    let sandbox = Sandbox::new();
    let runtime = Runtime::new(&sandbox, list);
    let container = sandbox.container("c1");
    let mut attachment = Attachment::new("c1", &container);
    attachment.capabilities.insert("mac".to_owned(), json!(MAC));
    runtime.add(&mut attachment).expect_success();
    runtime.check(&attachment).expect_success();
    let link = container.sh("ip link show dev eth0");
    assert!(link.contains("mtu 1400") && link.contains("qlen 500") && link.contains(MAC), "{link}");
    runtime.del(&attachment).expect_success();
    assert!(!container.sh("ip -brief link").contains("eth0"));
}
