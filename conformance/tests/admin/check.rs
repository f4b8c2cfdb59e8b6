//! `cni-plugins check` and `schema`: the lists of runtimes are right, each broken list has its finding, and a validator of
//! another project finds with the schema what `check` finds.

#[path = "../../../plugins/check/tests/broken.rs"]
mod broken;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use broken::{BROKEN, Broken, whole};
use cni_conformance::Sandbox;
use nix::mount::{MsFlags, mount};
use serde_json::{Value, json};

use crate::admin::{FOUND, document, tool};

/// The lists of runtimes and of the reference's pages.
fn right() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/check/tests/lists")
}

fn write(sandbox: &Sandbox, name: &str, text: &str) -> String {
    let file = Path::new("/run/lists").join(name);
    fs::create_dir_all(file.parent().expect("a folder")).expect("create a folder");
    fs::write(&file, text)
        .unwrap_or_else(|error| panic!("write {} in {:?}: {error}", file.display(), sandbox.host().path()));
    file.display().to_string()
}

#[test]
fn the_lists_of_runtimes_have_no_finding() {
    let sandbox = Sandbox::new();
    for entry in fs::read_dir(right()).expect("list the lists") {
        let file = entry.expect("an entry").path();
        let done = tool(&sandbox, &["check", file.to_str().expect("text")]);
        assert_eq!((done.code(), done.stdout()), (Some(0), "findings: 0, files: 1\n"), "{done}");
    }
}

#[test]
fn each_broken_list_has_its_finding_and_status_three() {
    let sandbox = Sandbox::new();
    for (number, Broken { list, finding, .. }) in BROKEN.iter().enumerate() {
        let file = write(&sandbox, &format!("{number}.conflist"), &whole(list));
        let (found, code) = document(&sandbox, &["check", &file]);
        assert_eq!(code, Some(FOUND), "{list}");
        let entry = |one: &Value| {
            let [plugin, key, wrong, instead] =
                ["plugin", "key", "wrong", "instead"].map(|field| one[field].as_str().expect("a text"));
            let key = if key.is_empty() { String::new() } else { format!(", {key}") };
            assert_eq!(one["file"], json!(file));
            format!("{plugin}{key}: {wrong}; {instead}")
        };
        let entries: Vec<String> = found["findings"].as_array().expect("a list").iter().map(entry).collect();
        assert_eq!(entries, [*finding], "{list}");
    }
}

#[test]
fn a_folder_is_read_as_runtimes_read_it() {
    let sandbox = Sandbox::new();
    let network = |name: &str, key: &str| {
        format!(
            r#"{{"cniVersion": "1.0.0", "name": "{name}", "plugins": [{{"type": "bridge", {key}
                "ipam": {{"type": "host-local", "ranges": [[{{"subnet": "10.1.2.0/24"}}]]}}}}]}}"#
        )
    };
    write(&sandbox, "10-a.conflist", &network("a", r#""ipMask": true,"#));
    write(&sandbox, "20-b.conflist", &network("b", ""));
    write(&sandbox, "notes.txt", "no JSON");
    let done = tool(&sandbox, &["check", "/run/lists"]);
    assert_eq!(done.code(), Some(FOUND), "{done}");
    assert_eq!(
        done.stdout(),
        "/run/lists/10-a.conflist: plugins[0] bridge, ipMask: the key `ipMask` is unknown, and is ignored\n    write `ipMasq`\n\
         /run/lists/20-b.conflist: network \"b\", ipam.ranges[0][0]: 10.1.2.0/24 and 10.1.2.0/24 of network \"a\" have addresses \
         in common\n    give each network its own subnet\nfindings: 2, files: 2\n"
    );
}

#[test]
fn what_a_plugin_refuses_by_itself_is_found() {
    let sandbox = Sandbox::new();
    let signed = "conditions of nftables do not start with - or !";
    let plain = "conditions of iptables start with - or !";
    for (keys, named, instead) in [
        (r#""backend": "nftables", "conditionsV4": ["-d", "10.0.0.0/8"]"#, "conditionsV4", signed),
        (r#""backend": "nftables", "conditionsV6": ["!", "-d", "fc00::/7"]"#, "conditionsV6", signed),
        (r#""backend": "nftables", "externalSetMarkChain": "KUBE-MARK-MASQ""#, "externalSetMarkChain", signed),
        (r#""backend": "iptables", "conditionsV4": ["ip", "daddr", "10.0.0.0/8"]"#, "conditionsV4", plain),
        (
            r#""conditionsV4": ["-d", "10.0.0.0/8"], "conditionsV6": ["ip6", "daddr", "fc00::/7"]"#,
            "conditionsV6",
            plain,
        ),
        (r#""conditionsV4": ["ip", "daddr", "10.0.0.0/8"], "externalSetMarkChain": "X""#, "conditionsV4", plain),
    ] {
        let list = format!(
            r#"[{{"type": "ptp", "ipam": {{"type": "dhcp"}}}}, {{"type": "portmap", "capabilities": {{"portMappings": true}}, {keys}}}]"#
        );
        let (found, code) = document(&sandbox, &["check", &write(&sandbox, "portmap.conflist", &whole(&list))]);
        let [finding] = &found["findings"].as_array().expect("a list")[..] else { panic!("{keys}: {found:#}") };
        let text = |field: &str| finding[field].as_str().expect("a text");
        assert!(text("wrong").contains(named) && text("instead").starts_with(instead), "{keys}: {found:#}");
        assert_eq!((code, text("plugin")), (Some(FOUND), "plugins[1] portmap"), "{found:#}");
    }
    let conf =
        r#"{"name": "n", "cniVersion": "0.4.0", "type": "firewall", "backend": "none", "ingressPolicy": "isolated"}"#;
    let done = tool(&sandbox, &["check", &write(&sandbox, "firewall.conf", conf)]);
    assert!(done.stdout().contains("plugin firewall: ingressPolicy \"isolated\" needs rules"), "{done}");
    let conf = r#"{"name": "n", "cniVersion": "0.4.0", "type": "sbr", "gateways": ["10.1.2.1", "10.1.2.2"]}"#;
    let done = tool(&sandbox, &["check", &write(&sandbox, "sbr.conf", conf)]);
    assert!(done.stdout().contains("gateways"), "{done}");
    let mixed = r#"{"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}, {"subnet": "fd00::/64"}]]}"#;
    for (ipam, wrong) in [
        (mixed, "invalid range set 0: mixed address families"),
        (r#"{"type": "dhcp", "request": [{"option": "none"}]}"#, "Can not parse option \"none\""),
    ] {
        let conf = format!(r#"{{"name": "n", "cniVersion": "0.4.0", "type": "bridge", "ipam": {ipam}}}"#);
        let done = tool(&sandbox, &["check", &write(&sandbox, "ipam.conf", &conf)]);
        assert!(done.stdout().contains(&format!("plugin bridge: {wrong}")), "{done}");
    }
}

#[test]
fn a_network_in_two_files_of_one_folder_is_found() {
    let sandbox = Sandbox::new();
    let list = r#"{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "loopback"}]}"#;
    for file in ["10-a.conflist", "20-a.conf", "other/10-a.conflist"] {
        write(&sandbox, file, list);
    }
    let done = tool(&sandbox, &["check", "/run/lists", "/run/lists/other"]);
    assert_eq!(
        (done.code(), done.stdout()),
        (
            Some(FOUND),
            "/run/lists/20-a.conf: list, name: the network \"a\" is also in /run/lists/10-a.conflist\n    give each file its own name of \
             a network: runtimes use the first file alone\nfindings: 1, files: 3\n"
        )
    );
}

#[test]
fn a_list_of_nomad_without_loopback_is_found() {
    let sandbox = Sandbox::new();
    mount(Some("tmpfs"), "/opt", Some("tmpfs"), MsFlags::empty(), Some("mode=0755")).expect("mount a tmpfs on /opt");
    let list = |plugins: &str| {
        format!(r#"{{"cniVersion": "1.0.0", "name": "a", "plugins": [{plugins}{{"type": "bridge"}}]}}"#)
    };
    fs::create_dir_all("/opt/cni/config").expect("create a folder");
    fs::write("/opt/cni/config/a.conflist", list("")).expect("write a list");
    let own = write(&sandbox, "a.conflist", &list(""));
    let says = "list, plugins: no plugin sets up `lo`, and Nomad does not either, so a container does not reach its own addresses\n    \
                begin `plugins` with {\"type\": \"loopback\"}";
    for words in [&["check", "/opt/cni/config"][..], &["check", "--runtime", "nomad", &own]] {
        let done = tool(&sandbox, words);
        assert!(done.code() == Some(FOUND) && done.stdout().contains(says), "{done}");
    }
    let good = write(&sandbox, "b.conflist", &list(r#"{"type": "loopback"}, "#));
    for words in [&["check", &own][..], &["check", "--runtime", "nomad", &good]] {
        tool(&sandbox, words).expect_success();
    }
    assert_eq!(tool(&sandbox, &["check", "--runtime", "other", &own]).code(), Some(2));
}

#[test]
fn what_cannot_be_read_is_a_failure_and_a_file_does_not_control_the_terminal() {
    let sandbox = Sandbox::new();
    let missing = tool(&sandbox, &["check", "/run/none", "/dev/zero"]);
    assert_eq!(missing.code(), Some(1), "{missing}");
    assert!(missing.stderr().contains("/run/none") && missing.stderr().contains("not a regular file"), "{missing}");
    let file = write(&sandbox, "odd.conflist", "{\"name\": \"a\\u001b[2J\", \"plugins\": [{\"type\": \"loopback\"}]}");
    let done = tool(&sandbox, &["check", &file]);
    assert_eq!(done.code(), Some(FOUND), "{done}");
    assert!(!done.stdout().contains('\u{1b}'), "{done}");
    assert_eq!(tool(&sandbox, &["check"]).code(), Some(2));
}

/// Validates documents from a file with Debian's python3-jsonschema, and prints for each whether it is valid.
const VALIDATE: &str = "
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
Draft202012Validator.check_schema(schema)
validator = Draft202012Validator(schema)
print(json.dumps([validator.is_valid(json.loads(text)) for text in json.load(open(sys.argv[2]))]))
";

#[test]
fn a_validator_of_another_project_agrees_with_check() {
    let sandbox = Sandbox::new();
    let schema = tool(&sandbox, &["schema"]);
    schema.expect_success();
    let schema = write(&sandbox, "schema.json", schema.stdout());
    let files = fs::read_dir(right()).expect("list the lists");
    let right: Vec<String> =
        files.map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("read a list")).collect();
    let wrong: Vec<String> = BROKEN.iter().filter(|one| one.in_schema).map(|one| whole(one.list)).collect();
    let texts: Vec<&String> = right.iter().chain(&wrong).collect();
    let documents = write(&sandbox, "documents.json", &json!(texts).to_string());
    let done = Command::new("python3").args(["-c", VALIDATE, &schema, &documents]).output().expect("start python3");
    assert!(done.status.success(), "python3-jsonschema: {}", String::from_utf8_lossy(&done.stderr));
    let valid: Vec<bool> = serde_json::from_slice(&done.stdout).expect("a list of booleans");
    let different: Vec<&&String> = texts
        .iter()
        .zip(&valid)
        .enumerate()
        .filter_map(|(at, (text, valid))| (*valid != (at < right.len())).then_some(text))
        .collect();
    assert!(different.is_empty(), "the schema and check differ on {different:#?}");
    assert!(right.len() >= 12 && wrong.len() >= 40, "{} right, {} wrong", right.len(), wrong.len());
}
