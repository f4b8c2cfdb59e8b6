//! DEL removes the redirection from a namespace that still exists, whatever was lost.

use cni_conformance::Verb::{Add, Del};
use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::{Flavour, killed};
use serde_json::{Value, json};

use crate::consul_cni::rules::run_as_reference;
use crate::consul_cni::setup::{Mesh, nomads};

/// What somebody does inside a container.
type Deed<'a> = &'a dyn Fn(&Mesh);

#[test]
fn a_namespace_that_lives_on_is_as_before_and_del_comes_twice() {
    for flavour in Flavour::ALL {
        let mesh = Mesh::new(flavour);
        mesh.container.sh("iptables -t nat -N MINE");
        mesh.container.sh("iptables -t nat -A OUTPUT -d 127.0.0.11/32 -j MINE");
        let before = mesh.state();
        mesh.succeeds(&[Add], &nomads());
        assert_ne!(mesh.state().lines(), before.lines());
        for _ in 0..2 {
            mesh.succeeds(&[Del], &nomads());
            // A DEL that was begun is remembered until the interface goes.
            assert_same(&before.clone().without("files"), &mesh.state().without("files"));
        }
    }
}

/// Nomad sends no arguments on DEL, and a runtime may have lost the result or changed the configuration.
#[test]
fn neither_arguments_nor_result_nor_configuration_are_needed() {
    type Call = (&'static str, Value);
    let calls: [Call; 9] = [
        ("", json!({})),
        ("", json!({"prevResult": null})),
        ("", json!({"prevResult": 7})),
        ("", json!({"prevResult": {"cniVersion": "0.4.0"}})),
        ("", json!({"log_level": 7, "multus": "x"})),
        ("FOO", json!({})),
        ("CONSUL_IPTABLES_CONFIG={", json!({})),
        ("CONSUL_IPTABLES_CONFIG={\"ProxyUserID\":\"nobody-here\"}", json!({})),
        ("K8S_POD_NAME=x;K8S_POD_NAMESPACE=y", json!({})),
    ];
    for_each(calls.map(|call| (format!("{call:?}"), call)), |(args, keys)| {
        let mesh = Mesh::new(Flavour::Nft);
        mesh.succeeds(&[Add], &nomads());
        mesh.call(Del, &nomads(), &keys).args(args).run().expect_success();
        assert_eq!(mesh.rules(), [""; 0]);
    });
}

#[test]
fn a_namespace_that_is_gone_is_no_failure() {
    type Loss = fn(&Mesh) -> String;
    let losses: [(&str, Loss); 4] = [
        ("no namespace", |_| String::new()),
        ("a path that leads nowhere", |_| "/run/netns/none".to_owned()),
        ("a plain file", |mesh| {
            mesh.container.unmount();
            mesh.container.path().to_owned()
        }),
        ("a namespace that is gone", |mesh| {
            mesh.container.remove();
            mesh.container.path().to_owned()
        }),
    ];
    for_each(losses, |lose| {
        let mesh = Mesh::new(Flavour::Nft);
        mesh.succeeds(&[Add], &nomads());
        let path = lose(&mesh);
        for _ in 0..2 {
            mesh.call(Del, &nomads(), &json!({})).netns(&path).args("").run().expect_success();
        }
    });
}

/// A process inside must not prevent DEL. DEL ends the redirection, whatever rules that process has added.
#[test]
fn rules_that_somebody_inside_has_written_do_not_fail_del() {
    let nft = |what: &'static str| move |mesh: &Mesh| drop(mesh.container.sh(&format!("nft {what}")));
    let iptables = |what: &'static str| move |mesh: &Mesh| drop(mesh.container.sh(&format!("iptables -t nat {what}")));
    let foreign = |mesh: &Mesh| {
        mesh.container.sh("iptables -t nat -N MINE");
        mesh.container.sh("iptables -t nat -A MINE -j CONSUL_PROXY_REDIRECT");
    };
    let cases: [(&str, Deed<'_>); 6] = [
        ("a rule that iptables cannot read", &nft("insert rule ip nat OUTPUT meta cgroup 5 accept")),
        ("one in a chain of ours", &nft("insert rule ip nat CONSUL_PROXY_OUTPUT meta cgroup 5 accept")),
        ("one in each chain that leads to ours", &|mesh| {
            nft("insert rule ip nat OUTPUT meta cgroup 5 accept")(mesh);
            nft("insert rule ip nat PREROUTING meta cgroup 5 accept")(mesh);
        }),
        ("a goto", &iptables("-A PREROUTING -m ttl --ttl-eq 3 -g CONSUL_PROXY_INBOUND")),
        ("a chain of his own", &foreign),
        ("a map", &nft("add rule ip nat PREROUTING tcp dport vmap { 7 : jump CONSUL_PROXY_INBOUND }")),
    ];
    for_each(cases, |write| {
        let mesh = Mesh::new(Flavour::Nft);
        mesh.succeeds(&[Add], &nomads());
        write(&mesh);
        for _ in 0..2 {
            mesh.succeeds(&[Del], &nomads());
            let ruleset = mesh.container.sh("nft list ruleset");
            assert!(!ruleset.contains("25018") && !ruleset.contains("15001"), "{ruleset}");
        }
    });
}

#[test]
fn without_an_add_there_is_nothing_to_do() {
    for flavour in Flavour::ALL {
        let mesh = Mesh::new(flavour);
        mesh.succeeds(&[Del, Del], &nomads());
        assert_eq!(mesh.rules(), [""; 0]);
    }
}

/// The reference's own DEL does nothing, and its ADD stops where iptables refuses a value.
#[test]
fn what_the_reference_has_made_goes_too() {
    for flavour in Flavour::ALL {
        let mesh = Mesh::new(flavour);
        run_as_reference(&mesh.container, &nomads());
        mesh.succeeds(&[Del], &nomads());
        assert_eq!(mesh.rules(), [""; 0]);
        for half in ["-N CONSUL_PROXY_INBOUND", "-N CONSUL_PROXY_OUTPUT", "-A OUTPUT -p tcp -j CONSUL_PROXY_OUTPUT"] {
            mesh.container.sh(&format!("iptables -t nat {half}"));
        }
        mesh.succeeds(&[Del], &nomads());
        assert_eq!(mesh.rules(), [""; 0]);
    }
}

/// A runtime has no result of an ADD that was killed. Whenever that was, DEL leaves what was before.
#[test]
fn del_takes_away_what_a_killed_add_made() {
    let add = |mesh: &Mesh| mesh.call(Add, &nomads(), &json!({}));
    let then = |mesh: &Mesh, (): &()| {
        mesh.call(Del, &nomads(), &json!({"prevResult": null})).args("").run().expect_success();
        assert_eq!(mesh.rules(), [""; 0]);
    };
    killed::at_each_moment(16, || Mesh::new(Flavour::Nft), add, |_| (), then);
}
