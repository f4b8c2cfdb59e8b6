//! Which of several values of a key is used, and which values are refused.

use crate::config::Config;
use cni_core::error::Error;
use cni_core::request::Request;

fn request(args: &str, keys: &str) -> Request {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"n1","type":"tuning",{keys}}}"#);
    cni_testkit::request("ADD", &[("CNI_IFNAME", "eth0.100"), ("CNI_ARGS", args)], &config)
}

/// The steps that the properties come to, and the parameters.
fn wanted(args: &str, keys: &str) -> Result<Vec<String>, Error> {
    let request = request(args, keys);
    let name = request.attachment()?.ifname;
    let config = Config::load(&request)?;
    let parameters = config.parameters.iter();
    let parameters = parameters.map(|parameter| format!("{}={}", parameter.name.of(&name).path(), parameter.value));
    let steps = config.wanted.steps(&name).into_iter().map(|step| step.to_string());
    Ok(parameters.chain(steps.map(|step| step.replace("container: link set eth0.100 ", ""))).collect())
}

#[track_caller]
fn assert_wanted(args: &str, keys: &str, want: &[&str]) {
    assert_eq!(wanted(args, keys).expect(keys), want, "{args} {keys}");
}

#[test]
fn a_mac_comes_from_four_places() {
    let own = r#""mac":"02:00:00:00:00:01""#;
    let runtime = r#","runtimeConfig":{"mac":"02-00-00-00-00-03"}"#;
    let args = |mac: &str| format!(r#","args":{{"cni":{{"mac":{mac}}}}}"#);
    let env = "IgnoreUnknown=1;MAC=0200.0000.0002";
    assert_wanted("", own, &["address 02:00:00:00:00:01"]);
    assert_wanted(env, own, &["address 02:00:00:00:00:02"]);
    assert_wanted("MAC=", own, &["address 02:00:00:00:00:01"]);
    assert_wanted(env, &format!("{own}{runtime}"), &["address 02:00:00:00:00:03"]);
    let all = |mac: &str| format!("{own}{runtime}{}", args(mac));
    assert_wanted(env, &all("\"02:00:00:00:00:04\""), &["address 02:00:00:00:00:04"]);
    assert_wanted(env, &all("null"), &["address 02:00:00:00:00:03"]);
    assert_wanted(env, &all("\"\""), &[]);
}

#[test]
fn args_go_before_the_configuration() {
    let own = r#""promisc":true,"mtu":1400,"allmulti":true,"txQLen":5"#;
    assert_wanted("", own, &["promisc on", "mtu 1400", "allmulticast on", "txqueuelen 5"]);
    let args = r#","args":{"cni":{"promisc":false,"mtu":0,"allmulti":false,"txQLen":0}}"#;
    assert_wanted("", &format!("{own}{args}"), &["allmulticast off", "txqueuelen 0"]);
    let args = r#","args":{"cni":{"promisc":true,"mtu":1300,"allmulti":null,"txQLen":null}}"#;
    assert_wanted("", &args[1..], &["promisc on", "mtu 1300"]);
}

#[test]
fn parameters_keep_their_order_and_those_of_args_take_their_places() {
    let own = r#""sysctl":{"net.ipv4.conf.IFNAME.rp_filter":"1","net/core/somaxconn":"2"}"#;
    assert_wanted("", own, &["net/ipv4/conf/eth0.100/rp_filter=1", "net/core/somaxconn=2"]);
    let args = r#","args":{"cni":{"sysctl":{"net.core.somaxconn":"3","/net/ipv4/IFNAME.IFNAME":"4"}}}"#;
    let want = ["net/ipv4/conf/eth0.100/rp_filter=1", "net/core/somaxconn=3", "net/ipv4/eth0.100/IFNAME=4"];
    assert_wanted("", &format!("{own}{args}"), &want);
    assert_wanted("", &args[1..], &["net/core/somaxconn=3", "net/ipv4/eth0.100/IFNAME=4"]);
    assert_wanted("", r#""sysctl":{"net.core.somaxconn":null,"net.core.wmem_max":""}"#, &[]);
}

#[track_caller]
fn assert_refused(args: &str, keys: &str, want: (u32, &str, &str)) {
    let error = wanted(args, keys).expect_err(keys);
    let (code, text, details) = want;
    assert_eq!((error.code().number(), error.to_string().as_str()), (code, text));
    assert_eq!(error.details(), details);
}

#[test]
fn a_parameter_outside_of_the_container_is_refused() {
    for (key, path) in [
        ("kernel.shmmax", "kernel/shmmax"),
        ("net", "net"),
        ("", ""),
        ("../kernel/hostname", "///kernel/hostname"),
        ("netx.core", "netx/core"),
        ("IFNAME.net.core", "IFNAME/net/core"),
    ] {
        let details =
            format!("sysctl {key:?}: only parameters below net belong to a container, such as net.core.somaxconn");
        let text = format!("invalid net sysctl key: {path:?}");
        assert_refused("", &format!(r#""sysctl":{{"{key}":"1"}}"#), (7, &text, &details));
    }
    assert_wanted("", r#""sysctl":{"net/../kernel/hostname":"1"}"#, &["net/kernel/hostname=1"]);
}

#[test]
fn a_parameter_that_is_given_twice_is_refused() {
    for second in ["net.core.somaxconn", "net/core/somaxconn", "/net//core/somaxconn"] {
        let text = format!(r#"duplicated sysctl keys are not allowed: "net.core.somaxconn" and "{second}""#);
        let keys = format!(r#""sysctl":{{"net.core.somaxconn":"1","{second}":"1"}}"#);
        assert_refused("", &keys, (7, &text, "they are the same parameter"));
        let keys = format!(r#""args":{{"cni":{{{keys}}}}}"#);
        assert_refused("", &keys, (7, &text, "they are the same parameter"));
    }
}

#[test]
fn values_that_no_interface_can_have_are_refused() {
    let netconf = "failed to load netconf";
    assert_refused("", r#""mtu":-5"#, (7, "invalid mtu -5 (must be between 0 and 2147483647)", ""));
    assert_refused("", r#""txQLen":-1"#, (7, "invalid txQLen -1 (must be between 0 and 2147483647)", ""));
    let text = "invalid mtu 4294967296 (must be between 0 and 2147483647)";
    assert_refused("", r#""args":{"cni":{"mtu":4294967296}}"#, (7, text, ""));
    let text = "failed to set the MAC address: invalid runtimeConfig.mac";
    assert_refused("", r#""runtimeConfig":{"mac":"zz"}"#, (7, text, "address zz: invalid MAC address"));
    let text = "failed to set the MAC address: MAC in CNI_ARGS 01:00:5e:00:00:01 is not a unicast address of 6 bytes";
    assert_refused("MAC=01:00:5e:00:00:01", r#""mtu":0"#, (7, text, ""));
    let details = r#"sysctl.net.core.somaxconn: invalid type: integer `1`, expected a string"#;
    assert_refused("", r#""sysctl":{"net.core.somaxconn":1}"#, (6, netconf, details));
    let details = "sysctl: invalid type: sequence, expected an object of texts";
    assert_refused("", r#""sysctl":[]"#, (6, netconf, details));
    let details = r#""run/x" is not an absolute path"#;
    assert_refused("", r#""dataDir":"run/x""#, (7, "invalid dataDir", details));
}
