//! Nomad's own list with a `transparent_proxy`, by the real `cnitool` and as Nomad calls it, and the example of the page.

use std::time::Duration;

use cni_conformance::state::diff;
use cni_conformance::traffic::{Transport, ask_within};
use cni_conformance::{
    Attachment, CniTool, Container, Flavour, Nomad, Outcome, Outside, PortMapping, Runtime, Sandbox, Spelling, State,
    page,
};
use serde_json::{Value, json};

use crate::consul_cni::proxy::{Servers, heard};
use crate::consul_cni::setup::{args, nomads, rules};

/// The list of five, as Nomad writes it.
fn conflist(version: &str) -> Value {
    let mut list = Nomad::version(version).conflist();
    let plugins = list["plugins"].as_array_mut().expect("a configuration list has plugins");
    plugins.push(json!({"type": "consul-cni", "log_level": "debug"}));
    list
}

/// The proxy listens at its own port of the host, as Nomad gives it one.
fn ports(host_port: u16) -> [PortMapping; 1] {
    [PortMapping::new(host_port, host_port, "tcp")]
}

fn argument(port: u16) -> Value {
    cni_conformance::keys::with(&nomads(), &json!({"ProxyInboundPort": port, "ExcludeOutboundPorts": ["8301"]}))
}

fn tool<'s>(sandbox: &'s Sandbox, list: &Value, port: u16) -> CniTool<'s> {
    let capabilities = json!({"portMappings": cni_conformance::ports::render(&ports(port), Spelling::Spec)});
    CniTool::new(sandbox, list).capabilities(capabilities).env("CNI_ARGS", &args(&argument(port)))
}

#[track_caller]
fn assert_silent(outcome: &Outcome) {
    outcome.expect_success();
    assert_eq!((outcome.stdout(), outcome.stderr()), ("", ""), "{outcome}");
}

/// What a client outside of the host and the container itself reach.
fn assert_redirected(sandbox: &Sandbox, outside: &Outside, container: &Container, port: u16) {
    let own = rules(container);
    assert!(own.contains(&format!("-A CONSUL_PROXY_IN_REDIRECT -p tcp -j REDIRECT --to-ports {port}")), "{own:#?}");
    let _servers = Servers::new().tcp(container, 15001).tcp(sandbox.host(), 8301);
    let _proxy = cni_conformance::traffic::Echo::start(container, Transport::Tcp, ([0, 0, 0, 0], port).into());
    let proxy = (Outside::HOST_V4, port).into();
    let answer = ask_within(outside, Transport::Tcp, proxy, Duration::from_secs(20));
    assert!(answer.is_ok(), "from outside to the proxy: {answer:?}");
    assert_eq!(heard(container, 0, "tcp", "203.0.113.9:80"), "127.0.0.1:15001 for 203.0.113.9:80");
    assert_eq!(heard(container, 0, "tcp", "172.26.64.1:8301"), "172.26.64.1:8301");
}

#[test]
fn the_list_is_added_checked_and_deleted_by_cnitool() {
    for (flavour, version) in
        [(Flavour::Nft, "0.4.0"), (Flavour::Legacy, "0.4.0"), (Flavour::Nft, "1.0.0"), (Flavour::Nft, "1.1.0")]
    {
        let sandbox = Sandbox::with_flavour(flavour);
        Nomad::default().ensure_forwarding_rules(&sandbox);
        let list = conflist(version);
        let first = sandbox.container("first");
        tool(&sandbox, &list, 20000).add(&first).expect_success();
        let (container, outside) = (sandbox.container("second"), sandbox.outside());
        let before = State::capture(&sandbox, &[&container]).with_nat_of(&container);
        let tool = tool(&sandbox, &list, 20001);
        let result = tool.add(&container).result();
        assert_eq!(result["cniVersion"], json!(version));
        assert_eq!(result["ips"][0]["address"], json!("172.26.64.3/20"), "{result:#}");
        assert_redirected(&sandbox, &outside, &container, 20001);
        assert_silent(&tool.check(&container));
        for _ in 0..2 {
            assert_silent(&tool.del(&container));
        }
        assert_eq!(rules(&container), [""; 0]);
        let mut left = diff(&before, &State::capture(&sandbox, &[&container]).with_nat_of(&container));
        left.retain(|line| !line.contains("/last_reserved_ip.") && !line.contains("second addresses: lo"));
        assert!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    }
}

/// Nomad checks every group when its agent starts again, and creates the network again if CHECK fails.
#[test]
fn check_of_the_list_fails_when_the_redirection_is_flushed_and_a_repair_puts_it_back() {
    for flavour in Flavour::ALL {
        let sandbox = Sandbox::with_flavour(flavour);
        Nomad::default().ensure_forwarding_rules(&sandbox);
        let tool = tool(&sandbox, &conflist("0.4.0"), 20000);
        let container = sandbox.container("c1");
        tool.add(&container).expect_success();
        let made = rules(&container);
        container.sh("iptables -t nat -F");
        let outcome = tool.check(&container);
        assert_eq!(outcome.code(), Some(1), "{outcome}");
        let said = format!("{}{}", outcome.stdout(), outcome.stderr());
        assert!(said.contains("redirection to its proxy is incomplete"), "{outcome}");
        let repair = cni_conformance::Invocation::new(&sandbox, "cni-plugins", cni_conformance::Verb::Add)
            .arguments(&["repair"]);
        let repaired = repair.run();
        repaired.expect_success();
        assert!(repaired.stdout().contains("CONSUL_PROXY_INBOUND"), "{repaired}");
        assert_eq!(rules(&container), made);
        assert_silent(&tool.check(&container));
    }
}

/// As Nomad itself calls the plugins: Go's spelling of ports, arguments on ADD and CHECK and none on DEL, and three tries.
#[test]
fn a_drain_of_forty_groups_leaves_nothing() {
    let sandbox = Sandbox::new();
    Nomad::default().ensure_forwarding_rules(&sandbox);
    let runtime = Runtime::new(&sandbox, conflist("0.4.0"));
    let attach = |number: u16| {
        let container = sandbox.container(&format!("c{number}"));
        let port = 20000 + number;
        let attachment = Attachment::new(container.name(), &container).ports(&ports(port), Spelling::Go);
        (attachment.args(&args(&argument(port))), container)
    };
    let mut first = attach(0);
    runtime.add(&mut first.0).expect_success();
    let before = State::of_host(&sandbox);
    let mut groups: Vec<_> = (1..=40).map(attach).collect();
    for (attachment, _) in &mut groups {
        runtime.add(attachment).expect_success();
        runtime.check(attachment).expect_success();
    }
    for (attachment, container) in groups {
        runtime.del(&attachment.args("")).expect_success();
        assert_eq!(rules(&container), [""; 0]);
    }
    let mut left = diff(&before, &State::of_host(&sandbox));
    // The first group's rules have handles as well, which its DEL removes.
    left.retain(|line| !line.contains("/last_reserved_ip.") && !line.starts_with("+ handles: "));
    assert!(left.is_empty(), "left behind:\n{}", left.join("\n"));
    runtime.check(&first.0).expect_success();
    runtime.del(&first.0).expect_success();
    sandbox.sh("test ! -e /run/cni/.cni-plugins-rs/handles");
}

#[test]
fn the_example_of_the_page_does_what_it_says() {
    let list = page::example(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/consul-cni/README.md")));
    let sandbox = Sandbox::new();
    let container = sandbox.container("c1");
    let tool = tool(&sandbox, &list, 20000);
    tool.add(&container).expect_success();
    let _servers = Servers::new().tcp(&container, 15001);
    assert_eq!(heard(&container, 0, "tcp", "203.0.113.9:80"), "127.0.0.1:15001 for 203.0.113.9:80");
    assert_silent(&tool.check(&container));
    assert_silent(&tool.del(&container));
    assert_eq!(rules(&container), [""; 0]);
}
