//! CHECK finds what somebody has flushed, and passes over what is not ours.

use cni_conformance::Flavour;
use cni_conformance::Verb::{Add, Check};
use cni_conformance::state::assert_same;
use serde_json::json;

use crate::consul_cni::setup::{Mesh, nomads};

fn added(flavour: Flavour) -> Mesh {
    let mesh = Mesh::new(flavour);
    mesh.succeeds(&[Add], &nomads());
    mesh
}

#[test]
fn a_flushed_table_is_found_and_nothing_is_written() {
    for flavour in Flavour::ALL {
        let mesh = added(flavour);
        mesh.succeeds(&[Check], &nomads());
        mesh.container.sh("iptables -t nat -F");
        let before = mesh.state();
        let error = mesh.run(Check, &nomads()).expect_error(100, "redirection to its proxy is incomplete");
        assert!(error.msg.contains("CONSUL_"), "{error:?}");
        assert_same(&before, &mesh.state());
        mesh.container.sh("iptables -t nat -X");
        mesh.run(Check, &nomads()).expect_error(100, "-A CONSUL_PROXY_INBOUND");
    }
}

#[test]
fn each_rule_is_missed_by_name() {
    for flavour in Flavour::ALL {
        let mesh = added(flavour);
        let rules = mesh.rules();
        for rule in rules.iter().filter(|rule| rule.starts_with("-A")) {
            mesh.container.sh(&format!("iptables -t nat {}", rule.replacen("-A", "-D", 1)));
            mesh.run(Check, &nomads()).expect_error(100, rule);
            mesh.succeeds(&[Add, Check], &nomads());
            assert_eq!(mesh.rules(), rules);
        }
    }
}

/// A rule behind the jump to the proxy excludes nothing any more.
#[test]
fn a_rule_out_of_its_place_is_found() {
    for flavour in Flavour::ALL {
        let mesh = added(flavour);
        let user = "CONSUL_PROXY_OUTPUT -m owner --uid-owner 101 -j RETURN";
        mesh.container.sh(&format!("iptables -t nat -D {user}"));
        mesh.container.sh(&format!("iptables -t nat -A {user}"));
        mesh.run(Check, &nomads()).expect_error(100, "not in its place");
    }
}

#[test]
fn rules_of_others_do_not_matter() {
    for flavour in Flavour::ALL {
        let mesh = added(flavour);
        for rule in [
            "-A OUTPUT -d 127.0.0.11/32 -j ACCEPT",
            "-I OUTPUT -p icmp -j ACCEPT",
            "-I CONSUL_PROXY_OUTPUT -d 192.0.2.0/24 -j RETURN",
            "-A POSTROUTING -m statistic --mode random --probability 0.5 -j ACCEPT",
        ] {
            mesh.container.sh(&format!("iptables -t nat {rule}"));
        }
        mesh.succeeds(&[Check, Check], &nomads());
    }
}

/// What Nomad has changed in the job since, counts now.
#[test]
fn other_values_than_those_of_add_are_missed() {
    let mesh = added(Flavour::Nft);
    let other = cni_conformance::keys::with(&nomads(), &json!({"ProxyInboundPort": 20001}));
    mesh.run(Check, &other).expect_error(100, "--to-ports 20001");
}
