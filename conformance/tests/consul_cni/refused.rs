//! Invalid values: one error that names key and value, and nothing is changed. The reference passes them to iptables,
//! and stops half-way: then the container's connections go to a port where nothing listens.

use cni_conformance::Flavour;
use cni_conformance::Verb::{Add, Check};
use cni_conformance::cases::for_each;
use cni_conformance::keys::with;
use cni_conformance::state::assert_same;
use serde_json::{Value, json};

use crate::consul_cni::setup::{Mesh, args, nomads};

/// Code, a change of the argument, and words of the error.
fn rows() -> Vec<(u64, Value, [&'static str; 2])> {
    vec![
        (4, json!({"ProxyUserID": ""}), ["ProxyUserID is required to set up traffic redirection", ""]),
        (4, json!({"ProxyUserID": null}), ["ProxyUserID is required to set up traffic redirection", ""]),
        (4, json!({"ProxyUserID": "envoy-proxy"}), ["ProxyUserID", "\"envoy-proxy\""]),
        (4, json!({"ProxyUserID": "-1"}), ["ProxyUserID", "\"-1\""]),
        (6, json!({"ProxyUserID": 101}), ["ProxyUserID", "101"]),
        (4, json!({"ProxyInboundPort": 0}), ["ProxyInboundPort is required to set up traffic redirection", ""]),
        (4, json!({"ProxyInboundPort": 65_536}), ["ProxyInboundPort", "65536"]),
        (4, json!({"ProxyInboundPort": -1}), ["ProxyInboundPort", "-1"]),
        (6, json!({"ProxyInboundPort": "20000"}), ["ProxyInboundPort", "20000"]),
        (4, json!({"ProxyOutboundPort": 70_000}), ["ProxyOutboundPort", "70000"]),
        (4, json!({"ConsulDNSIP": "dns"}), ["ConsulDNSIP \"dns\"", "unable to parse consulDNSIP"]),
        (4, json!({"ConsulDNSIP": "fd00::53"}), ["fd00::53", "for non dual stack setup ipv4 consulDNSIP required"]),
        (4, json!({"ConsulDNSIP": "::ffff:10.0.0.1"}), ["::ffff:10.0.0.1", "ConsulDNSIP"]),
        (4, json!({"ConsulDNSPort": 65_536}), ["ConsulDNSPort", "65536"]),
        (4, json!({"ExcludeInboundPorts": ["9002", "-1"]}), ["ExcludeInboundPorts", "\"-1\""]),
        (4, json!({"ExcludeInboundPorts": ["no-such-service"]}), ["ExcludeInboundPorts", "\"no-such-service\""]),
        (4, json!({"ExcludeOutboundPorts": ["99999"]}), ["ExcludeOutboundPorts", "\"99999\""]),
        (4, json!({"ExcludeOutboundPorts": ["90:80"]}), ["ExcludeOutboundPorts", "\"90:80\""]),
        (4, json!({"ExcludeOutboundPorts": ["080"]}), ["ExcludeOutboundPorts", "\"080\""]),
        (6, json!({"ExcludeOutboundPorts": [80]}), ["ExcludeOutboundPorts", "80"]),
        (6, json!({"ExcludeOutboundPorts": "80"}), ["ExcludeOutboundPorts", "80"]),
        (
            4,
            json!({"ExcludeOutboundCIDRs": ["10.0.0.0/8", "10.0.0.0/33"]}),
            ["ExcludeOutboundCIDRs", "\"10.0.0.0/33\""],
        ),
        (4, json!({"ExcludeOutboundCIDRs": ["example.com"]}), ["ExcludeOutboundCIDRs", "\"example.com\""]),
        (4, json!({"ExcludeOutboundCIDRs": ["fd00::/129"]}), ["ExcludeOutboundCIDRs", "\"fd00::/129\""]),
        (4, json!({"ExcludeUIDs": ["42", "4294967295"]}), ["ExcludeUIDs", "\"4294967295\""]),
        (4, json!({"ExcludeUIDs": ["1005-1000"]}), ["ExcludeUIDs", "\"1005-1000\""]),
        (4, json!({"ExcludeUIDs": ["no-such-user"]}), ["ExcludeUIDs", "\"no-such-user\""]),
        (4, json!({"ExcludeUIDs": ["42\n-F"]}), ["ExcludeUIDs", "42"]),
        (6, json!({"NetNS": 7}), ["NetNS", "7"]),
        (6, json!({"IptablesProvider": {}}), ["IptablesProvider", "CONSUL_IPTABLES_CONFIG"]),
    ]
}

#[test]
fn each_value_is_named_with_its_key_and_nothing_is_changed() {
    let mesh = Mesh::new(Flavour::Nft);
    let before = mesh.state();
    for_each(rows().into_iter().map(|row| (row.1.to_string(), row)), |(code, keys, words)| {
        for verb in [Add, Check] {
            let error = mesh.run(verb, &with(&nomads(), &keys)).error();
            let text = format!("{}: {}", error.msg, error.details);
            let is_named = words.iter().all(|word| text.contains(word)) && text.contains("CONSUL_IPTABLES_CONFIG");
            assert!(error.code == code && is_named, "{code} {words:?}: {error:?}");
        }
        assert_same(&before, &mesh.state());
    });
}

#[test]
fn an_argument_that_is_no_object_is_refused() {
    let mesh = Mesh::new(Flavour::Nft);
    let before = mesh.state();
    for (argument, text) in [
        ("{", "unexpected end of JSON input"),
        ("e30=", "invalid character"),
        ("[]", "expected struct"),
        ("\"x\"", "expected struct"),
        ("null", "ProxyUserID is required"),
        ("{}", "ProxyUserID is required"),
    ] {
        let args = format!("IgnoreUnknown=1;CONSUL_IPTABLES_CONFIG={argument}");
        let error = mesh.call(Add, &nomads(), &json!({})).args(&args).run().error();
        assert!([4, 6].contains(&error.code), "{argument}: {error:?}");
        assert!(format!("{} {}", error.msg, error.details).contains(text), "{argument}: {error:?}");
    }
    assert_same(&before, &mesh.state());
}

/// Kubernetes sends the names of the pod, and keeps the rest where only its API server can read it.
#[test]
fn without_the_argument_it_is_said_what_to_use_instead() {
    let mesh = Mesh::new(Flavour::Nft);
    let before = mesh.state();
    let pod = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=8c0b";
    for verb in [Add, Check] {
        let call = |args: &str| mesh.call(verb, &nomads(), &json!({})).args(args).run();
        call(pod).expect_error(2, "pod default/web-0: Kubernetes annotations are not supported");
        call(pod).expect_error(2, "use HashiCorp's consul-cni of consul-k8s there");
        for args in ["", "IgnoreUnknown=1", "IgnoreUnknown=1;K8S_POD_NAME=web-0", "CONSUL_IPTABLES_CONFIG="] {
            call(args).expect_error(4, "not running in a pod, namespace and pod should have values");
            call(args).expect_error(4, "CONSUL_IPTABLES_CONFIG in CNI_ARGS");
        }
        call("FOO=1").expect_error(4, "ARGS: unknown args [\"FOO=1\"]");
        call("FOO").expect_error(4, "ARGS: invalid pair \"FOO\"");
    }
    assert_same(&before, &mesh.state());
}

#[test]
fn the_argument_goes_before_the_names_of_a_pod() {
    let mesh = Mesh::new(Flavour::Nft);
    let both = format!("{};K8S_POD_NAMESPACE=default;K8S_POD_NAME=web-0", args(&nomads()));
    mesh.call(Add, &nomads(), &json!({})).args(&both).run().expect_success();
    mesh.succeeds(&[Check], &nomads());
}

/// The reference makes the rules and then ends with a stack dump.
#[test]
fn without_the_result_of_the_plugins_before_add_works() {
    for version in ["0.3.1", "0.4.0", "1.0.0", "1.1.0"] {
        let mesh = Mesh::new(Flavour::Nft);
        let alone = json!({"cniVersion": version, "prevResult": null});
        let result = mesh.call(Add, &nomads(), &alone).run().result();
        assert_eq!(result["cniVersion"], json!(version));
        assert!(mesh.rules().len() > 10, "{version}");
    }
    let mesh = Mesh::new(Flavour::Nft);
    let empty = json!({"prevResult": {"cniVersion": "0.4.0"}});
    mesh.call(Add, &nomads(), &empty).run().expect_error(7, "got no container IPs");
    assert_eq!(mesh.rules(), [""; 0]);
}

/// The reference takes the address of a job for a bare one, and fails where the job is for an IPAM plugin.
#[test]
fn what_the_job_sends_to_other_plugins_does_not_matter() {
    let mesh = Mesh::new(Flavour::Nft);
    let consul = nomads().to_string();
    for args in [
        format!("IP=10.128.2.53/21;MAC=00:01:02:03:04:05;CONSUL_IPTABLES_CONFIG={consul}"),
        format!("CONSUL_IPTABLES_CONFIG={consul};IgnoreUnknown=true;NOMAD_JOB_ID=a=b;IP=10.128.2.53/21"),
    ] {
        mesh.call(Add, &nomads(), &json!({})).args(&args).run().expect_success();
        mesh.succeeds(&[Check], &nomads());
    }
}

#[test]
fn without_iptables_the_error_says_so_and_del_succeeds() {
    let mesh = Mesh::new(Flavour::Nft);
    // Netlink shows that the rules are not there.
    for (verb, code) in [(Add, 104), (Check, 100)] {
        mesh.call(verb, &nomads(), &json!({})).env("PATH", "/nowhere").run().expect_error(code, "iptables");
    }
    mesh.call(cni_conformance::Verb::Del, &nomads(), &json!({})).env("PATH", "/nowhere").run().expect_success();
}
