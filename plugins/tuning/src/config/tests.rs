//! Which of several values of a key is used, and which values are refused.

use cni_core::request::{Call, Environment};
use cni_core::version::Version;

use super::*;

fn request(args: &str, keys: &str) -> Request {
    let config = format!(r#"{{"cniVersion":"1.0.0","name":"n1","type":"tuning",{keys}}}"#);
    let variables = [
        ("CNI_CONTAINERID", "c1"),
        ("CNI_NETNS", "/n"),
        ("CNI_IFNAME", "eth0.100"),
        ("CNI_PATH", "/"),
        ("CNI_ARGS", args),
    ];
    let call = Call::parse("ADD", Environment::new(variables)).expect("a call");
    call.with_config(config.into_bytes(), Version::ALL).expect("a request")
}

/// The steps that the properties come to, and the parameters.
fn wanted(args: &str, keys: &str) -> Result<Vec<String>, Error> {
    let request = request(args, keys);
    let name = request.attachment()?.ifname;
    let config = Config::load(&request)?;
    let parameters = config.parameters.iter();
    let parameters = parameters.map(|parameter| format!("{}={}", parameter.of(&name).path(), parameter.value));
    let steps = config.wanted.steps(&name).into_iter().map(|step| step.to_string());
    Ok(parameters.chain(steps.map(|step| step.replace("container: link set eth0.100 ", ""))).collect())
}

#[track_caller]
fn assert_wanted(args: &str, keys: &str, want: &[&str]) {
    assert_eq!(wanted(args, keys).expect(keys), want, "{args} {keys}");
}

#[test]
fn parameters_keep_their_order_and_those_of_args_take_their_places() {
    let own = r#""sysctl":{"net.ipv4.conf.IFNAME.rp_filter":"1","net.core.somaxconn":"2"}"#;
    assert_wanted("", own, &["net/ipv4/conf/eth0.100/rp_filter=1", "net/core/somaxconn=2"]);
    let args = r#","args":{"cni":{"sysctl":{"net/core/somaxconn":"3","/net/ipv4/IFNAME.IFNAME":"4"}}}"#;
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
