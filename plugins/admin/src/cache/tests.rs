//! Files as `cnitool` 1.3.0 and older releases of libcni write them, and such as they do not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::reader::CacheReader;
use super::*;

const PORTS: &str = r#"[{"containerPort":80,"hostPort":8080,"protocol":"tcp"}]"#;

/// A file with a configuration, which may be changed.
fn file(config: &Value) -> Value {
    json!({
        "kind": "cniCacheV1",
        "containerId": "cnitool-6ec4df1c9798a5a53f21",
        "config": STANDARD.encode(config.to_string()),
        "ifName": "eth0",
        "networkName": "nomad",
        "netns": "/run/netns/a1",
        "cniArgs": [["A", "b=c"], ["IgnoreUnknown", "1"]],
        "capabilityArgs": {"portMappings": serde_json::from_str::<Value>(PORTS).expect("ports"), "mac": "02:00:00:00:00:01"},
        "result": {"cniVersion": "1.0.0", "interfaces": [
            {"name": "nomad", "mac": "1a:87:72:c5:b5:c3"},
            {"name": "eth0", "mac": "b6:24:ed:55:ac:17", "sandbox": "/run/netns/other"}],
            "ips": [{"address": "172.26.64.2/20", "gateway": "172.26.64.1", "interface": 1}]}
    })
}

fn list() -> Value {
    json!({"cniVersion": "0.4.0", "name": "nomad", "plugins": [
        {"type": "loopback"},
        {"type": "bridge", "capabilities": {"mac": true, "ips": true}, "name": "other"},
        {"type": "sbr"},
        {"type": "portmap", "capabilities": {"portMappings": true, "mac": false}, "runtimeConfig": {"x": 1}}]})
}

fn read(bytes: &[u8]) -> Result<Cached, String> {
    let reported = |error: Error| format!("{} {error}: {}", error.code().number(), error.details());
    CacheReader::default().parse(bytes).map_err(reported)
}

fn parse(file: &Value) -> Result<Cached, String> {
    read(file.to_string().as_bytes())
}

fn read_by_plugin(config: &PluginConfig) -> Value {
    serde_json::from_slice(&config.input()).expect("an object")
}

fn keys(cached: &Cached, index: usize) -> Value {
    read_by_plugin(&cached.plugins[index])
}

/// multus passes on all arguments of the runtime in every network.
#[test]
fn a_network_that_publishes_none_has_no_ports() {
    let of = |plugin: Value| parse(&file(&plugin)).expect("libcni's").ports.len();
    let capable = json!({"type": "cilium", "capabilities": {"portMappings": true}});
    assert_eq!([json!({"type": "bridge"}), json!({"type": "portmap"}), capable].map(of), [0, 1, 1]);
}

#[test]
fn every_plugin_of_the_list_is_called_as_by_libcni() {
    let file = file(&list());
    let cached = parse(&file).expect("a file of the cache");
    let kinds: Vec<&str> = cached.plugins.iter().map(|plugin| plugin.kind.as_str()).collect();
    assert_eq!(kinds, ["loopback", "bridge", "sbr", "portmap"]);
    assert_eq!(
        keys(&cached, 0),
        json!({"type": "loopback", "name": "nomad", "cniVersion": "1.0.0", "prevResult": file["result"]})
    );
    let bridge = keys(&cached, 1);
    assert_eq!((&bridge["name"], &bridge["runtimeConfig"]), (&json!("nomad"), &json!({"mac": "02:00:00:00:00:01"})));
    let ports: Value = serde_json::from_str(PORTS).expect("ports");
    assert_eq!(keys(&cached, 3)["runtimeConfig"], json!({"portMappings": ports}));
    let request = cached.request(&cached.plugins[3], &cni_portmap::Portmap).expect("a request");
    assert_eq!(request.attachment().expect("an attachment"), cached.at);
    assert_eq!((request.netns(), request.version.as_str()), (Some("/run/netns/a1"), "1.0.0"));
    assert!(request.variables().any(|pair| pair == ("CNI_ARGS", "A=b=c;IgnoreUnknown=1".as_ref())));
}

#[test]
fn a_configuration_may_be_a_single_plugin_and_libcni_leaves_keys_out() {
    let config = json!({"cniVersion": "0.3.1", "name": "nomad", "type": "bridge", "runtimeConfig": {"x": 1}});
    let mut file = file(&config);
    file.as_object_mut()
        .expect("an object")
        .retain(|key, _| !["netns", "cniArgs", "capabilityArgs", "result"].contains(&key.as_str()));
    let cached = parse(&file).expect("a file of the cache");
    assert_eq!((cached.plugins.len(), cached.netns.as_deref(), keys(&cached, 0)), (1, None, config));
}

#[test]
fn attachments_of_one_network_share_its_configuration_and_nothing_else() {
    let changed = |changes: &[(&str, Value)]| {
        let mut file = file(&list());
        changes.iter().for_each(|(key, value)| file[key] = value.clone());
        file
    };
    let older = json!({"cniVersion": "0.4.0"});
    let files = [
        changed(&[]),
        changed(&[("containerId", json!("c2")), ("capabilityArgs", json!({"ips": ["10.1.2.3"]}))]),
        changed(&[("networkName", json!("other"))]),
        changed(&[("result", older)]),
        changed(&[("result", Value::Null)]),
    ];
    let mut reader = CacheReader::default();
    let read: Vec<Cached> = files.iter().map(|file| reader.parse(file.to_string().as_bytes()).expect("read")).collect();
    for (file, together) in files.iter().zip(&read) {
        let alone = parse(file).expect("a file of the cache");
        let inputs = |cached: &Cached| cached.plugins.iter().map(read_by_plugin).collect::<Vec<_>>();
        assert_eq!((inputs(together), &together.at), (inputs(&alone), &alone.at));
    }
    let is_shared = |number: usize| Arc::ptr_eq(&read[0].plugins[1].keys, &read[number].plugins[1].keys);
    assert_eq!([1, 2, 3, 4].map(is_shared), [true, false, false, false]);
}

/// A plugin knows its keys in any case.
#[test]
fn the_ipam_plugin_can_be_left_out_however_it_is_spelled() {
    let config =
        json!({"cniVersion": "0.3.1", "name": "nomad", "type": "bridge", "IPAM": {"type": "host-local"}, "ipam": {}});
    let cached = parse(&file(&config)).expect("a file of the cache");
    let request = cached.request_without_ipam(&cached.plugins[0], &cni_bridge::Bridge).expect("a request");
    assert!(!request.config().has_key("ipam"));
}

/// flannel keeps the version of its own call, and no result.
#[test]
fn a_plugin_that_another_has_called_has_its_own_keys_and_the_same_result() {
    let file = file(&json!({"cniVersion": "1.0.0", "name": "nomad", "plugins": [{"type": "flannel", "delegate": {}}]}));
    let flannel = &parse(&file).expect("a file of the cache").plugins[0];
    let composed =
        r#"{"cniVersion":"0.3.1","ipMasq":true,"ipam":{"type":"host-local"},"name":"nomad","type":"bridge"}"#;
    let called = flannel.delegate(composed).expect("a configuration");
    assert_eq!((called.kind.as_str(), called.ipam()), ("bridge", Some("host-local")));
    let want = json!({
        "cniVersion": "1.0.0", "ipMasq": true, "ipam": {"type": "host-local"}, "name": "nomad", "type": "bridge",
        "prevResult": file["result"],
    });
    assert_eq!(read_by_plugin(&called), want);
    assert_eq!(flannel.delegate("{}").expect_err("no type").to_string(), "its config names no plugin");
}

#[test]
fn without_a_netns_the_result_tells_where_the_container_is() {
    let mut file = file(&list());
    for (netns, found) in [
        (json!("/run/netns/a1"), Some("/run/netns/a1")),
        (json!(""), Some("/run/netns/other")),
        (Value::Null, Some("/run/netns/other")),
    ] {
        file["netns"] = netns;
        assert_eq!(parse(&file).expect("a file of the cache").netns.as_deref(), found);
    }
    file["result"]["interfaces"][1]["name"] = json!("eth1");
    assert_eq!(parse(&file).expect("a file of the cache").netns, None);
}

#[test]
fn other_files_are_told_from_those_of_the_cache() {
    let with = |key: &str, value: Value| {
        let mut file = file(&list());
        file[key] = value;
        file
    };
    let config = |config: Value| file(&config);
    for (file, problem) in [
        (json!({"cniVersion": "0.3.1", "ips": []}), "6 not a file of kind cniCacheV1: "),
        (json!([]), "6 not a file of kind cniCacheV1: "),
        (with("kind", json!("cniCacheV2")), "6 not a file of kind cniCacheV1: "),
        (with("ifName", Value::Null), "6 not as libcni writes it: invalid type: null, expected a string"),
        (with("containerId", json!("../x")), "4 not as libcni writes it: invalid characters in containerID"),
        (with("networkName", json!("")), "7 not as libcni writes it: missing network name"),
        (with("config", json!("%")), "6 its config is not base64: Invalid symbol 37, offset 0."),
        (with("config", json!("e30=")), "7 its config names no plugin: "),
        (config(json!({"plugins": [{"type": 7}]})), "7 its config names no plugin: "),
        (config(json!({"plugins": 7})), "6 its config is not a network configuration: "),
        (
            config(json!({"type": "x", "capabilities": {"mac": "yes"}})),
            "6 its config is not a network configuration: invalid type: string \"yes\", expected a boolean",
        ),
    ] {
        let error = parse(&file).expect_err("no file of the cache");
        assert!(error.starts_with(problem), "{error} instead of {problem}");
    }
}

#[test]
fn a_file_that_is_written_at_the_moment_is_incomplete() {
    let text = file(&list()).to_string();
    for end in 0..text.len() {
        let error = read(&text.as_bytes()[..end]).expect_err("incomplete");
        assert!(error.starts_with("6 incomplete, or not JSON: "), "{end}: {error}");
    }
}
