//! The firewall plugin's rules: who may be forwarded, and which bridges are kept apart.
//!
//! Goldens are dumps of the reference on a host without any rule.

use cni_conformance::standalone::bridge_result;
use cni_conformance::{Sandbox, Standalone};
use serde_json::{Value, json};

use cni_conformance::golden::{DUAL, PROGRAMS, V4, assert_rules, assert_untouched, on_both_flavours, rules, without};

/// Policy `open`, 10.88.0.5.
const OPEN_V4: &str = r#"
-N CNI-ADMIN
-N CNI-FORWARD
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
"#;

/// The same with `iptablesAdminChainName: NOMAD-ADMIN`.
const NOMAD_V4: &str = r#"
-N CNI-FORWARD
-N NOMAD-ADMIN
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j NOMAD-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
"#;

/// Policy `same-bridge` on `br0`.
const SAME_BRIDGE_V4: &str = r#"
-N CNI-ADMIN
-N CNI-FORWARD
-N CNI-ISOLATION-STAGE-1
-N CNI-ISOLATION-STAGE-2
-A FORWARD -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j CNI-ISOLATION-STAGE-1
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
-A CNI-ISOLATION-STAGE-2 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
"#;

/// Policy `isolated` on `br0`.
const ISOLATED_V4: &str = r#"
-N CNI-ADMIN
-N CNI-FORWARD
-N CNI-ISOLATION-STAGE-1
-N CNI-ISOLATION-STAGE-2
-A FORWARD -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j CNI-ISOLATION-STAGE-1
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
-A CNI-ISOLATION-STAGE-1 -i br0 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j DROP
-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
-A CNI-ISOLATION-STAGE-2 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
"#;

/// A second container, on `br1` with policy `same-bridge`.
const TWO_BRIDGES_V4: &str = r#"
-N CNI-ADMIN
-N CNI-FORWARD
-N CNI-ISOLATION-STAGE-1
-N CNI-ISOLATION-STAGE-2
-A FORWARD -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j CNI-ISOLATION-STAGE-1
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
-A CNI-FORWARD -d 10.88.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT
-A CNI-FORWARD -d 10.89.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.89.0.5/32 -j ACCEPT
-A CNI-ISOLATION-STAGE-1 -i br1 ! -o br1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -i br0 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j DROP
-A CNI-ISOLATION-STAGE-1 -i br0 ! -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: isolated)" -j CNI-ISOLATION-STAGE-2
-A CNI-ISOLATION-STAGE-1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
-A CNI-ISOLATION-STAGE-2 -o br1 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -o br0 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j DROP
-A CNI-ISOLATION-STAGE-2 -m comment --comment "CNI firewall plugin rules (ingressPolicy: same-bridge|isolated)" -j RETURN
"#;

/// The same rules for the other address.
fn for_ipv6(golden: &str) -> String {
    golden.replace("10.88.0.5/32", "fd00:88::5/128")
}

fn plugin<'s>(sandbox: &'s Sandbox, addresses: &[&str], keys: Value) -> Standalone<'s> {
    let firewall = Standalone::new(sandbox, "firewall", "ctr1", &bridge_result("br0", addresses), &keys);
    with_backend(firewall)
}

fn on_second_bridge(sandbox: &Sandbox) -> Standalone<'_> {
    let result = bridge_result("br1", &["10.89.0.5/24"]);
    with_backend(Standalone::new(sandbox, "firewall", "ctr2", &result, &json!({"ingressPolicy": "same-bridge"})))
}

fn with_backend(mut firewall: Standalone<'_>) -> Standalone<'_> {
    firewall.config["backend"] = json!("iptables");
    firewall
}

#[test]
fn open_for_ipv4_touches_no_table_of_ipv6() {
    on_both_flavours(|sandbox| {
        plugin(sandbox, V4, json!({})).add();
        assert_rules(sandbox, "iptables", "filter", OPEN_V4);
        assert_rules(sandbox, "iptables", "nat", "");
        assert_untouched(sandbox, "ip6tables");
    });
}

#[test]
fn open_for_both_families_with_an_admin_chain() {
    on_both_flavours(|sandbox| {
        plugin(sandbox, DUAL, json!({"iptablesAdminChainName": "NOMAD-ADMIN"})).add();
        assert_rules(sandbox, "iptables", "filter", NOMAD_V4);
        assert_rules(sandbox, "ip6tables", "filter", &for_ipv6(NOMAD_V4));
    });
}

#[test]
fn same_bridge_for_both_families() {
    on_both_flavours(|sandbox| {
        plugin(sandbox, DUAL, json!({"ingressPolicy": "same-bridge"})).add();
        assert_rules(sandbox, "iptables", "filter", SAME_BRIDGE_V4);
        assert_rules(sandbox, "ip6tables", "filter", &for_ipv6(SAME_BRIDGE_V4));
    });
}

/// Go v1.1.1 does not know this policy yet.
#[test]
fn isolated_for_both_families() {
    on_both_flavours(|sandbox| {
        plugin(sandbox, DUAL, json!({"ingressPolicy": "isolated"})).add();
        assert_rules(sandbox, "iptables", "filter", ISOLATED_V4);
        assert_rules(sandbox, "ip6tables", "filter", &for_ipv6(ISOLATED_V4));
    });
}

#[test]
fn rules_of_a_second_bridge_go_on_top_and_del_leaves_what_all_share() {
    on_both_flavours(|sandbox| {
        let first = plugin(sandbox, V4, json!({"ingressPolicy": "isolated"}));
        let second = on_second_bridge(sandbox);
        first.add();
        second.add();
        assert_rules(sandbox, "iptables", "filter", TWO_BRIDGES_V4);
        second.del();
        let without_second = without(TWO_BRIDGES_V4, "10.89.0.5");
        assert_rules(sandbox, "iptables", "filter", &without_second);
        first.del();
        assert_rules(sandbox, "iptables", "filter", &without(&without_second, "10.88.0.5"));
    });
}

#[test]
fn a_repeated_add_or_del_changes_no_rule() {
    on_both_flavours(|sandbox| {
        let firewall = plugin(sandbox, DUAL, json!({"ingressPolicy": "same-bridge"}));
        firewall.add();
        firewall.add();
        assert_rules(sandbox, "iptables", "filter", SAME_BRIDGE_V4);
        assert_rules(sandbox, "ip6tables", "filter", &for_ipv6(SAME_BRIDGE_V4));
        firewall.del();
        let after = PROGRAMS.map(|program| rules(sandbox, program, "filter"));
        firewall.del();
        assert_eq!(PROGRAMS.map(|program| rules(sandbox, program, "filter")), after);
    });
}

/// Every address of the result counts, whatever interface it is on.
#[test]
fn each_address_has_its_two_rules_in_the_order_of_the_result() {
    on_both_flavours(|sandbox| {
        plugin(sandbox, &["10.88.0.5/24", "10.88.0.4/24"], json!({})).add();
        let second = "-A CNI-FORWARD -d 10.88.0.4/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
                      -A CNI-FORWARD -s 10.88.0.4/32 -j ACCEPT";
        assert_rules(sandbox, "iptables", "filter", &format!("{OPEN_V4}{second}"));
    });
}

#[test]
fn check_accepts_what_add_made_and_changes_no_rule() {
    on_both_flavours(|sandbox| {
        for policy in ["open", "same-bridge", "isolated"] {
            let firewall = plugin(sandbox, DUAL, json!({"ingressPolicy": policy}));
            firewall.add();
            let before = PROGRAMS.map(|program| rules(sandbox, program, "filter"));
            firewall.check();
            assert_eq!(PROGRAMS.map(|program| rules(sandbox, program, "filter")), before);
        }
    });
}
