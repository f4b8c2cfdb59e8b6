//! `cni-plugins check` and `schema`: findings in files and folders, and a validator of another project finds with the schema what
//! `check` finds. What is found in which list is in `plugins/check/tests`.

#[path = "../../../plugins/check/tests/broken.rs"]
#[expect(dead_code, reason = "the findings are required there")]
mod broken;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use broken::whole;
use cni_conformance::{Outcome, Sandbox};
use serde_json::json;

use crate::admin::{FOUND, document, tool};

/// The lists of runtimes and of the reference's pages.
fn right() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/check/tests/lists")
}

fn write(name: &str, text: &str) -> String {
    let file = Path::new("/run/lists").join(name);
    fs::create_dir_all(file.parent().expect("a folder")).expect("create a folder");
    fs::write(&file, text).unwrap_or_else(|error| panic!("write {}: {error}", file.display()));
    file.display().to_string()
}

fn check(sandbox: &Sandbox, paths: &[&str]) -> Outcome {
    tool(sandbox, &[&["check"], paths].concat())
}

#[track_caller]
fn assert_says(done: &Outcome, code: i32, text: &str) {
    assert_eq!((done.code(), done.stdout()), (Some(code), text), "{done}");
}

#[test]
fn a_folder_is_read_as_runtimes_read_it() {
    let sandbox = Sandbox::new();
    let network = |name: &str, key: &str| {
        let ipam = r#"{"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}]]}"#;
        format!(
            r#"{{"cniVersion": "1.0.0", "name": "{name}", "plugins": [{{"type": "bridge", {key} "ipam": {ipam}}}]}}"#
        )
    };
    write("10-a.conflist", &network("a", r#""ipMask": true,"#));
    write("20-b.conflist", &network("b", ""));
    write("30-a.conf", &network("a", "").replace("10.1.2.0", "10.1.8.0"));
    write("other/10-a.conflist", &network("c", "").replace("10.1.2.0", "10.1.9.0"));
    write("notes.txt", "no JSON");
    let says = "/run/lists/10-a.conflist: plugins[0] bridge, ipMask: the key `ipMask` is unknown, and is ignored\n    write `ipMasq`\n\
        /run/lists/20-b.conflist: network \"b\", ipam.ranges[0][0]: 10.1.2.0/24 and 10.1.2.0/24 of network \"a\" have addresses \
        in common\n    give each network its own subnet\n\
        /run/lists/30-a.conf: list, name: the network \"a\" is also in /run/lists/10-a.conflist\n    give each file its own name of \
        a network: runtimes use the first file alone\nfindings: 3, files: 4\n";
    assert_says(&check(&sandbox, &["/run/lists", "/run/lists/other"]), FOUND, says);
}

/// Each plugin judges its keys as ADD does.
#[test]
fn what_a_plugin_refuses_by_itself_is_found() {
    let sandbox = Sandbox::new();
    let mixed = r#"{"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}, {"subnet": "fd00::/64"}]]}"#;
    let portmap = |keys: &str| format!(r#""type": "portmap", "capabilities": {{"portMappings": true}}, {keys}"#);
    let isolated = r#""type": "firewall", "backend": "none", "ingressPolicy": "isolated""#;
    let request = r#""type": "bridge", "ipam": {"type": "dhcp", "request": [{"option": "none"}]}"#;
    let of_nft = "conditions of iptables start with - or !; those of nft, in both keys, need \"backend\": \"nftables\" and no externalSetMarkChain";
    for (plugin, named, instead) in [
        (&*portmap(r#""backend": "nftables", "conditionsV4": ["-d"]"#), "conditionsV4", "conditions of nftables"),
        (&portmap(r#""backend": "nftables", "externalSetMarkChain": "X""#), "SetMarkChain]", "conditions of nft"),
        (&portmap(r#""backend": "iptables", "conditionsV4": ["ip", "saddr", "x"]"#), "[conditionsV4]", of_nft),
        (&portmap(r#""backend": "iptables", "conditionsV6": ["ip6", "saddr", "x"]"#), "[conditionsV6]", of_nft),
        (&portmap(r#""conditionsV4": ["-d", "x"], "conditionsV6": ["ip6"]"#), "[conditionsV6]", of_nft),
        (&portmap(r#""conditionsV4": ["ip"], "externalSetMarkChain": "X""#), "[conditionsV4]", of_nft),
        (r#""type": "firewall", "backend": "iptables", "conditionsV4": ["ip"]"#, "conditionsV4", "remove it"),
        (isolated, "ingressPolicy \"isolated\" needs rules", ""),
        (r#""type": "sbr", "gateways": ["10.1.2.1", "10.1.2.2"]"#, "gateways", ""),
        (&format!(r#""type": "bridge", "ipam": {mixed}"#), "invalid range set 0: mixed address families", ""),
        (request, "Can not parse option \"none\"", ""),
    ] {
        let conf = format!(r#"{{"name": "n", "cniVersion": "0.4.0", {plugin}}}"#);
        let (found, code) = document(&sandbox, &["check", &write("one.conf", &conf)]);
        let text = |field: &str| found["findings"][0][field].as_str().expect("a finding").to_owned();
        assert!(text("wrong").contains(named) && text("instead").starts_with(instead), "{plugin}: {found:#}");
        assert_eq!((code, found["findings"].as_array().map(Vec::len)), (Some(FOUND), Some(1)), "{found:#}");
    }
}

#[test]
fn a_list_of_nomad_without_loopback_is_found() {
    let sandbox = Sandbox::new();
    sandbox.sh("mount -t tmpfs tmpfs /opt");
    fs::create_dir_all("/opt/cni/config").expect("create a folder");
    let list = r#"{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge"}]}"#;
    fs::write("/opt/cni/config/a.conflist", list).expect("write a list");
    let (own, good) =
        (write("a.conflist", list), write("b.conflist", &list.replace("[{", r#"[{"type": "loopback"}, {"#)));
    let says = "list, plugins: no plugin sets up `lo`, and Nomad does not either, so a container does not reach its own addresses\n    \
                begin `plugins` with {\"type\": \"loopback\"}";
    for (words, code) in [
        (&["/opt/cni/config"][..], FOUND),
        (&["--runtime", "nomad", &own], FOUND),
        (&[&own], 0),
        (&["--runtime", "nomad", &good], 0),
        (&["--runtime", "other", &own], 2),
    ] {
        let done = check(&sandbox, words);
        assert_eq!((done.code(), done.stdout().contains(says)), (Some(code), code == FOUND), "{done}");
    }
}

#[test]
fn what_cannot_be_read_is_a_failure_and_a_file_does_not_control_the_terminal() {
    let sandbox = Sandbox::new();
    let missing = check(&sandbox, &["/run/none", "/dev/zero"]);
    assert!(missing.stderr().contains("/run/none") && missing.stderr().contains("not a regular file"), "{missing}");
    let odd =
        check(&sandbox, &[&write("odd.conflist", r#"{"name": "a\u001b[2J", "plugins": [{"type": "loopback"}]}"#)]);
    assert!(!odd.stdout().contains('\u{1b}'), "{odd}");
    assert_eq!([missing.code(), odd.code(), check(&sandbox, &[]).code()], [Some(1), Some(FOUND), Some(2)]);
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
    let schema = write("schema.json", schema.stdout());
    let files = fs::read_dir(right()).expect("list the lists");
    let right: Vec<String> =
        files.map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("read a list")).collect();
    let wrong: Vec<String> = broken::all().filter(|one| one.in_schema).map(|one| whole(one.list)).collect();
    let texts: Vec<&String> = right.iter().chain(&wrong).collect();
    let documents = write("documents.json", &json!(texts).to_string());
    let done =
        Command::new("/usr/bin/python3").args(["-c", VALIDATE, &schema, &documents]).output().expect("start python3");
    assert!(done.status.success(), "python3-jsonschema: {}", String::from_utf8_lossy(&done.stderr));
    let valid: Vec<bool> = serde_json::from_slice(&done.stdout).expect("a list of booleans");
    let judged = texts.iter().zip(&valid).enumerate();
    let different = judged.filter(|(at, (_, valid))| **valid != (*at < right.len())).collect::<Vec<_>>();
    assert!(different.is_empty(), "the schema and check differ on {different:#?}");
    assert!(right.len() >= 12 && wrong.len() >= 40, "{} right, {} wrong", right.len(), wrong.len());
}
