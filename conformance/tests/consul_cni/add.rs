//! A second ADD, which Nomad makes after a failure without a DEL between.

use cni_conformance::Flavour;
use cni_conformance::Verb::{Add, Check};
use cni_conformance::keys::with;
use cni_conformance::plugin::at_once;
use serde_json::json;

use crate::consul_cni::rules::run_as_reference;
use crate::consul_cni::setup::{Mesh, nomads};

#[test]
fn a_second_add_leaves_the_same_rules() {
    for flavour in Flavour::ALL {
        let mesh = Mesh::new(flavour);
        mesh.succeeds(&[Add], &nomads());
        let once = mesh.rules();
        mesh.succeeds(&[Add, Check, Add, Check], &nomads());
        assert_eq!(mesh.rules(), once);
    }
}

/// With other values, its own rules count, and nothing of the first ones stays.
#[test]
fn a_second_add_with_other_values_replaces_the_first() {
    for flavour in Flavour::ALL {
        let mesh = Mesh::new(flavour);
        let other = with(&nomads(), &json!({"ConsulDNSIP": "", "ConsulDNSPort": 0, "ProxyInboundPort": 20001}));
        mesh.succeeds(&[Add], &other);
        let want = mesh.rules();
        mesh.succeeds(&[Add], &nomads());
        assert_ne!(mesh.rules(), want);
        mesh.succeeds(&[Add, Check], &other);
        assert_eq!(mesh.rules(), want);
    }
}

/// The reference's own second ADD fails at the chains of its first.
#[test]
fn what_the_reference_has_made_is_taken_over() {
    for flavour in Flavour::ALL {
        let mesh = Mesh::new(flavour);
        run_as_reference(&mesh.container, &nomads());
        let made = mesh.rules();
        mesh.succeeds(&[Check, Add, Check], &nomads());
        assert_eq!(mesh.rules(), made);
        let half = ["-F CONSUL_PROXY_INBOUND", "-D OUTPUT -p tcp -j CONSUL_PROXY_OUTPUT", "-F CONSUL_DNS_REDIRECT"];
        half.iter().for_each(|command| drop(mesh.container.sh(&format!("iptables -t nat {command}"))));
        mesh.succeeds(&[Add, Check], &nomads());
        assert_eq!(mesh.rules(), made);
    }
}

#[test]
fn adds_at_once_leave_one_set_of_rules() {
    for flavour in Flavour::ALL {
        let mesh = Mesh::new(flavour);
        let call = mesh.call(Add, &nomads(), &json!({}));
        for outcome in at_once(&vec![call; 6]) {
            outcome.expect_success();
        }
        let rules = mesh.rules();
        mesh.succeeds(&[Add, Check], &nomads());
        assert_eq!(mesh.rules(), rules);
    }
}
