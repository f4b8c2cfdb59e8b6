//! GC removes everything that belongs to no valid attachment of the network, and nothing else.
//!
//! The runtime gives the list of valid attachments: without a list, or with an unreadable one, nothing is removed. The
//! reference v1.9.1 answers GC with success and does nothing.

use std::time::Duration;

use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use cni_conformance::state::assert_same;
use cni_conformance::traffic::{Echo, Transport, ask};
use cni_conformance::{
    Attachment, Container, Flavour, Invocation, Network, Nomad, Outside, PortMapping, Runtime, Sandbox, Skeleton,
    Spelling, State, Verb, flannel, stand_in,
};
use serde_json::{Value, json};

/// What happens to a container whose DEL is lost.
#[derive(Debug, Clone, Copy)]
enum LostDel {
    /// It keeps running, unknown to the runtime.
    Lives,
    /// Its namespace is gone.
    Gone,
    /// A plain file is left where its namespace was mounted.
    PlainFile,
}

fn nomad() -> Nomad {
    Nomad::version("1.1.0").dual_stack()
}

/// Attaches a container with one port for TCP and one for UDP.
fn attach(runtime: &Runtime<'_>, container: &Container, host_port: u16) -> Attachment {
    let ports = PortMapping::twins(host_port, 80);
    let mut attachment = Attachment::new(container.name(), container).ports(&ports, Spelling::Go);
    runtime.add(&mut attachment).expect_success();
    attachment
}

/// The same network under another name, on another bridge, with other addresses.
fn other_network() -> Value {
    let list = nomad().conflist().to_string();
    let list = list.replace("172.26.64.0/20", "172.27.64.0/20").replace("fd00:a110:c8::", "fd00:a110:c9::");
    let mut list: Value = serde_json::from_str(&list).expect("JSON");
    list["name"] = json!("nomad2");
    list["plugins"][1]["bridge"] = json!("other0");
    list
}

fn names(container: &Container) -> Vec<String> {
    Network::observe(container).links.into_iter().map(|link| link.name).collect()
}

#[test]
fn gc_with_two_of_three_removes_exactly_what_the_third_had() {
    let rows = Flavour::ALL
        .into_iter()
        .flat_map(|flavour| [LostDel::Lives, LostDel::Gone, LostDel::PlainFile].map(|lost| (flavour, lost)));
    for_each(rows.map(|row| (format!("{row:?}"), row)), |(flavour, lost)| {
        let sandbox = Sandbox::with_flavour(flavour);
        nomad().ensure_forwarding_rules(&sandbox);
        let runtime = Runtime::new(&sandbox, nomad().conflist());
        let [first, second, third] = ["first", "second", "third"].map(|name| sandbox.container(name));
        let valid = [attach(&runtime, &first, 8080), attach(&runtime, &second, 8081)];
        let before = State::of_host(&sandbox);
        attach(&runtime, &third, 8082);
        match lost {
            LostDel::Lives => {}
            LostDel::Gone => third.remove(),
            LostDel::PlainFile => third.unmount(),
        }
        runtime.gc(&valid.each_ref()).expect_success();
        Skeleton::of(&nomad()).assert_nothing_else(&before, || State::of_host(&sandbox));
        for attachment in &valid {
            runtime.check(attachment).expect_success();
        }
        if matches!(lost, LostDel::Lives) {
            assert_eq!(names(&third), ["lo"], "its link is gone");
        }
        runtime.gc(&valid.each_ref()).expect_success();
        Skeleton::of(&nomad()).assert_nothing_else(&before, || State::of_host(&sandbox));
    });
}

#[test]
fn gc_with_an_empty_list_removes_what_every_attachment_had() {
    for flavour in Flavour::ALL {
        let sandbox = Sandbox::with_flavour(flavour);
        nomad().ensure_forwarding_rules(&sandbox);
        let before = State::of_host(&sandbox);
        let runtime = Runtime::new(&sandbox, nomad().conflist());
        for (name, port) in [("first", 8080), ("second", 8081)] {
            attach(&runtime, &sandbox.container(name), port);
        }
        runtime.gc(&[]).expect_success();
        Skeleton::of(&nomad()).assert_nothing_else(&before, || State::of_host(&sandbox));
        runtime.gc(&[]).expect_success();
    }
}

#[test]
fn gc_on_a_host_that_has_nothing_does_nothing() {
    let sandbox = Sandbox::new();
    let before = State::of_host(&sandbox);
    Runtime::new(&sandbox, nomad().conflist()).gc(&[]).expect_success();
    assert_same(&before, &State::of_host(&sandbox));
}

/// A container is valid or not by its name and that of its interface together.
#[test]
fn gc_keeps_another_network_and_containers_of_the_same_name_there() {
    let sandbox = Sandbox::new();
    let outside = sandbox.outside();
    nomad().ensure_forwarding_rules(&sandbox);
    let (runtime, other) = (Runtime::new(&sandbox, nomad().conflist()), Runtime::new(&sandbox, other_network()));
    let stays = sandbox.container("same");
    let kept = attach(&other, &stays, 9090);
    let _service = Echo::everywhere(&stays, 80);
    let before = State::of_host(&sandbox);
    let mut twin = Attachment::new("same", &sandbox.container("twin"));
    runtime.add(&mut twin).expect_success();
    attach(&runtime, &sandbox.container("lost"), 8080);
    runtime.gc(&[]).expect_success();
    Skeleton::of(&nomad()).assert_nothing_else(&before, || State::of_host(&sandbox));
    other.check(&kept).expect_success();
    for transport in Transport::ALL {
        ask(&outside, transport, (Outside::HOST_V4, 9090).into()).expect("an answer");
    }
    other.gc(&[&kept]).expect_success();
    other.check(&kept).expect_success();
    other.gc(&[]).expect_success();
    let state = State::of_host(&sandbox);
    let of_container = |line: &&String| ["nomad2\\\"", "172.27.64.2/", "c9::2"].iter().any(|word| line.contains(word));
    let lines = state.without("files").lines();
    assert_eq!(lines.iter().find(of_container), None, "{lines:#?}");
}

/// Calls GC of every plugin of the list with these keys more, as a runtime of its own would.
fn each_plugin(sandbox: &Sandbox, keys: &Value, mut judge: impl FnMut(cni_conformance::Outcome)) {
    let list = nomad().conflist();
    let chained = list["plugins"].as_array().expect("plugins");
    let ipam = json!({"type": "host-local", "ipam": list["plugins"][1]["ipam"]});
    for plugin in chained.iter().chain([&ipam]) {
        let config = with(plugin, &json!({"cniVersion": list["cniVersion"], "name": list["name"]}));
        let kind = plugin["type"].as_str().expect("a type");
        judge(Invocation::new(sandbox, kind, Verb::Gc).config(&with(&config, keys)).run());
    }
}

/// `cnitool gc` of libcni 1.3.0 sends neither key: nothing is known to be invalid.
#[test]
fn gc_without_a_list_succeeds_and_removes_nothing() {
    let sandbox = Sandbox::new();
    let runtime = Runtime::new(&sandbox, nomad().conflist());
    let attachment = attach(&runtime, &sandbox.container("kept"), 8080);
    let before = State::of_host(&sandbox);
    each_plugin(&sandbox, &json!({}), |outcome| {
        outcome.expect_success();
    });
    assert_same(&before, &State::of_host(&sandbox));
    runtime.check(&attachment).expect_success();
}

/// An empty list of Go is `null`: libcni's GCNetworkList sends it, and cri-o for a network without pods.
#[test]
fn null_is_an_empty_list() {
    for keys in [json!({"cni.dev/valid-attachments": null}), json!({"cni.dev/attachments": null})] {
        let sandbox = Sandbox::new();
        let runtime = Runtime::new(&sandbox, nomad().conflist());
        let container = sandbox.container("lost");
        let attachment = attach(&runtime, &container, 8080);
        each_plugin(&sandbox, &keys, |outcome| {
            outcome.expect_success();
        });
        assert_eq!(names(&container), ["lo"], "{keys}");
        assert!(!runtime.check(&attachment).succeeded(), "{keys}");
    }
}

/// What is not in the list loses what it has, so a list that is not understood as a whole is refused.
#[test]
fn gc_without_a_list_that_can_be_understood_removes_nothing_and_says_why() {
    let sandbox = Sandbox::new();
    let runtime = Runtime::new(&sandbox, nomad().conflist());
    let attachment = attach(&runtime, &sandbox.container("kept"), 8080);
    let before = State::of_host(&sandbox);
    let entry = json!({"containerID": "kept", "ifname": "eth0"});
    for (keys, code, text) in [
        (json!({"cni.dev/valid-attachments": {}}), 6, "cni.dev/valid-attachments is not a list of attachments"),
        (json!({"cni.dev/attachments": ["kept"]}), 6, "cni.dev/attachments is not a list of attachments"),
        (
            json!({"cni.dev/valid-attachments": [entry, {"containerID": "a/b", "ifname": "eth0"}]}),
            7,
            "cni.dev/valid-attachments[1]",
        ),
        (json!({"cni.dev/valid-attachments": [{"containerID": "a/b", "ifname": "eth0"}]}), 7, "containerID \"a/b\""),
        (json!({"cni.dev/valid-attachments": [{"containerID": "kept"}]}), 7, "ifname \"\""),
    ] {
        each_plugin(&sandbox, &keys, |outcome| {
            outcome.expect_error(code, text);
        });
        assert_same(&before, &State::of_host(&sandbox));
    }
    runtime.check(&attachment).expect_success();
}

/// libcni sends both keys; runtimes of their own send one of them.
#[test]
fn either_spelling_of_the_list_is_read_and_the_specs_comes_first() {
    for (keys, stays) in [
        (json!({"cni.dev/valid-attachments": [{"containerID": "c", "ifname": "eth0"}]}), true),
        (json!({"cni.dev/attachments": [{"containerID": "c", "ifname": "eth0"}]}), true),
        (
            json!({"cni.dev/valid-attachments": [{"containerID": "c", "ifname": "eth0"}], "cni.dev/attachments": []}),
            true,
        ),
        (
            json!({"cni.dev/valid-attachments": [], "cni.dev/attachments": [{"containerID": "c", "ifname": "eth0"}]}),
            false,
        ),
        (json!({"cni.dev/valid-attachments": [{"containerID": "c", "ifname": "eth1"}]}), false),
        (json!({"cni.dev/attachments": []}), false),
    ] {
        let sandbox = Sandbox::new();
        let runtime = Runtime::new(&sandbox, nomad().conflist());
        let container = sandbox.container("c");
        let attachment = attach(&runtime, &container, 8080);
        each_plugin(&sandbox, &keys, |outcome| {
            outcome.expect_success();
        });
        assert_eq!(names(&container).contains(&"eth0".to_owned()), stays, "{keys}");
        assert_eq!(runtime.check(&attachment).succeeded(), stays, "{keys}");
    }
}

/// The address of a lost container can be assigned again.
#[test]
fn after_gc_the_address_is_free() {
    let sandbox = Sandbox::new();
    let mut list = nomad().conflist();
    list["plugins"][1]["ipam"]["ranges"] = json!([[{"subnet": "172.26.64.0/30"}]]);
    let runtime = Runtime::new(&sandbox, list);
    attach(&runtime, &sandbox.container("lost"), 8080);
    let mut next = Attachment::new("next", &sandbox.container("next"));
    runtime.add(&mut next).expect_error("bridge", 102, "no IP addresses available");
    runtime.gc(&[]).expect_success();
    runtime.add(&mut next).expect_success();
}

/// Without programs of iptables no rule of theirs can be there, and the rest is collected.
#[test]
fn gc_collects_links_and_leases_where_iptables_is_not_installed() {
    let sandbox = Sandbox::new();
    let mut list = nomad().conflist();
    list["plugins"] = json!([list["plugins"][1]]);
    let runtime = Runtime::new(&sandbox, list.clone());
    let container = sandbox.container("lost");
    let mut lost = Attachment::new("lost", &container);
    runtime.add(&mut lost).expect_success();
    let keys = json!({"cniVersion": "1.1.0", "name": "nomad", "cni.dev/valid-attachments": []});
    let config = with(&list["plugins"][0], &keys);
    let gc = Invocation::new(&sandbox, "bridge", Verb::Gc).env("PATH", "/nowhere").config(&config);
    gc.deadline(Duration::from_secs(30)).run().expect_success();
    assert_eq!(names(&container), ["lo"]);
    let leases =
        std::fs::read_dir("/run/cni/nomad").expect("list the leases").map(|file| file.expect("a file").file_name());
    let addresses = leases.filter(|name| name.to_str().is_some_and(|name| name.parse::<std::net::IpAddr>().is_ok()));
    assert_eq!(addresses.count(), 0);
}

/// Many IPAM plugins of others are older than the command. They have nothing to collect.
#[test]
fn gc_succeeds_where_a_delegate_does_not_know_the_command() {
    for (said, is_done) in [
        (r#"{"code": 4, "msg": "unknown CNI_COMMAND: GC"}"#, true),
        ("unknown CNI_COMMAND: GC", true),
        ("Unknown cni command: GC", true),
        (r#"{"code": 11, "msg": "the store does not answer"}"#, false),
    ] {
        let sandbox = Sandbox::new();
        flannel::write_lease(&flannel::lease("10.88.0.0/16", "10.88.0.1/24", 1450));
        let folder = stand_in::install("others", &format!("echo '{said}'; exit 1"));
        for (plugin, key) in [("bridge", "ipam"), ("tap", "ipam"), ("flannel", "delegate")] {
            let keys = json!({"cniVersion": "1.1.0", "name": "n1", "type": plugin, "cni.dev/valid-attachments": []});
            let config = with(&keys, &json!({key: {"type": "others"}}));
            let outcome = Invocation::new(&sandbox, plugin, Verb::Gc).binaries(&folder).config(&config).run();
            assert_eq!(outcome.code() == Some(0), is_done, "{said}: {outcome}");
        }
    }
}
