//! IPAM plugins that have no address, are not there, or say nonsense.

use std::fs;
use std::path::Path;
use std::process::Command;

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::{Attachment, Flavour, Nomad, State, Verb, script};
use serde_json::{Value, json};

use crate::rollback::rollback_host::{RollbackHost, networks};

/// Below the folder that snapshots leave out.
const FOLDER: &str = "/run/conformance/ipam";

/// The bridge alone, with another IPAM configuration.
fn list_with_ipam(nomad: &Nomad, ipam: Value) -> Value {
    let mut list = nomad.conflist();
    let mut bridge = list["plugins"][1].take();
    bridge["ipam"] = ipam;
    list["plugins"] = json!([bridge]);
    list
}

#[test]
fn an_add_without_a_free_address_leaves_nothing() {
    let nomad = Nomad::default().dual_stack();
    let ipv4 = json!([[{"subnet": "10.9.0.0/30"}]]);
    let second_of_two = json!([[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd99::/126", "rangeEnd": "fd99::2"}]]);
    for_each([("the only range", ipv4), ("the second range", second_of_two)], |ranges| {
        let ipam = json!({"type": "host-local", "ranges": ranges, "dataDir": "/var/run/cni"});
        let machine = RollbackHost::with_list("bridge", &nomad, list_with_ipam(&nomad, ipam), Flavour::Nft);
        let first = machine.sandbox.container("first");
        let mut attachment = Attachment::new("first", &first);
        machine.runtime().add(&mut attachment).expect_success();
        machine.fails(&machine.add(), &["no IP addresses available"]);
        machine.runtime().del(&attachment).expect_success();
        machine.succeeds_now();
    });
}

#[test]
fn an_add_without_the_ipam_binary_leaves_nothing() {
    for_each(networks(), |nomad| {
        let machine = RollbackHost::new("bridge", &nomad, Flavour::Nft);
        fs::create_dir(FOLDER).expect("create an empty folder");
        machine.fails(&machine.add().path(FOLDER), &["failed to find plugin \"host-local\"", FOLDER]);
        machine.succeeds_now();
    });
}

const NONSENSE: [(&str, &str); 10] = [
    ("no JSON", "echo nonsense"),
    ("nothing", "true"),
    ("an empty object", "echo {}"),
    ("null", "echo null"),
    ("a list", "echo []"),
    ("an unknown version", r#"echo '{"cniVersion":"9.9.9"}'"#),
    ("no address", r#"echo '{"cniVersion":"0.4.0","ips":[{"version":"4","address":"none"}]}'"#),
    ("two results", r#"echo '{"cniVersion":"0.4.0"}{"cniVersion":"0.4.0"}'"#),
    ("a status alone", "exit 3"),
    ("a signal", "kill -9 $$"),
];

const ADDRESS: &str = r#"echo '{"cniVersion":"0.4.0","ips":[{"version":"4","address":"172.26.64.9/20"}]}'"#;

#[test]
fn an_add_with_an_invalid_result_of_ipam_leaves_nothing() {
    for_each(NONSENSE, |answer| {
        let nomad = Nomad::default();
        let list = list_with_ipam(&nomad, json!({"type": "nonsense"}));
        let machine = RollbackHost::with_list("bridge", &nomad, list, Flavour::Nft);
        install_ipam(answer);
        machine.fails(&machine.add().path(FOLDER), &[]);
        assert_eq!(calls(), "ADD\nDEL\n");
        fs::remove_dir_all(FOLDER).expect("remove the plugin");
        install_ipam(ADDRESS);
        machine.add().path(FOLDER).run().result();
    });
}

/// The error of an IPAM plugin comes out as it is.
#[test]
fn an_add_that_ipam_refuses_leaves_nothing_and_tells_its_error() {
    let nomad = Nomad::default();
    let list = list_with_ipam(&nomad, json!({"type": "nonsense"}));
    let machine = RollbackHost::with_list("bridge", &nomad, list, Flavour::Nft);
    install_ipam(r#"echo '{"code":123,"msg":"no more","details":"all gone"}'; exit 1"#);
    let error = machine.fails(&machine.add().path(FOLDER), &["no more"]);
    assert_eq!((error.code, error.details.as_str()), (123, "all gone"));
    assert_eq!(calls(), "ADD\nDEL\n");
}

/// The runtime has lost the namespace and comes with another one. What runs in the first one keeps its address. Nothing on the
/// host shows a link of macvlan or a device of tap there.
#[test]
fn an_ipam_plugin_that_refuses_a_second_add_is_not_called_with_del() {
    let ipam = json!({"type": "nonsense"});
    let macvlan = json!({"type": "macvlan", "master": "up0", "ipam": ipam});
    let kinds = [
        ("bridge", list_with_ipam(&Nomad::default(), ipam.clone())["plugins"][0].take()),
        ("macvlan", macvlan),
        ("tap", json!({"type": "tap", "ipam": ipam})),
    ];
    for_each(kinds.map(|kind| (kind.0, kind)), |(plugin, keys)| {
        let list = json!({"cniVersion": "1.0.0", "name": "net1", "plugins": [keys]});
        let machine = RollbackHost::with_list(plugin, &Nomad::default(), list, Flavour::Nft);
        install_ipam(ADDRESS);
        machine.add().path(FOLDER).run().result();
        fs::remove_dir_all(FOLDER).expect("remove the plugin");
        install_ipam(r#"echo '{"code":123,"msg":"no more"}'; exit 1"#);
        let another = machine.sandbox.container("another");
        let mut task = machine.container.run(|| Command::new("sleep").arg("1000").spawn().expect("start sleep"));
        let before = State::of_host(&machine.sandbox);
        machine.add().path(FOLDER).netns(another.path()).run().expect_error(123, "no more");
        assert_eq!(calls(), "ADD\n");
        assert_same(&before, &State::of_host(&machine.sandbox));
        task.kill().expect("kill sleep");
        task.wait().expect("wait for sleep");
    });
}

/// The commands that the plugin was called with.
fn calls() -> String {
    fs::read_to_string(Path::new(FOLDER).join("calls")).expect("read the calls")
}

/// Notes every call, and answers ADD by a line of shell.
fn install_ipam(answer: &str) {
    fs::create_dir(FOLDER).expect("create a folder for the plugin");
    let lines =
        format!("echo $CNI_COMMAND >> {FOLDER}/calls\ncat > /dev/null\n[ $CNI_COMMAND = ADD ] || exit 0\n{answer}\n");
    script::install(&Path::new(FOLDER).join("nonsense"), &lines);
}

/// One lease file per family, or none.
#[test]
fn host_local_reserves_for_all_families_or_none() {
    let nomad = Nomad::default().dual_stack();
    let ranges = json!([[{"subnet": "10.9.0.0/24"}], [{"subnet": "fd99::/126", "rangeEnd": "fd99::2"}]]);
    let list = json!({
        "cniVersion": "1.0.0", "name": "nomad",
        "plugins": [{"type": "host-local", "ipam": {"type": "host-local", "ranges": ranges, "dataDir": "/var/run/cni"}}],
    });
    let machine = RollbackHost::with_list("host-local", &nomad, list, Flavour::Nft);
    let other = machine.attachment.clone();
    let first = Attachment { container_id: "first".to_owned(), ..other };
    machine.runtime().invocation(Verb::Add, "host-local", &first, None).run().expect_success();
    machine.fails(&machine.add(), &["no IP addresses available"]);
    machine.runtime().invocation(Verb::Del, "host-local", &first, None).run().expect_success();
    machine.succeeds_now();
}
