//! The content of the table.

use cni_conformance::cases::for_each;
use cni_conformance::state::assert_same;
use cni_conformance::{Sandbox, State};
use serde_json::json;

use crate::firewall::nftables::{DUAL, TABLE, V4, V6, firewall, nft, on_bridge, rules_of_iptables, table};

/// The contents of a table.
#[derive(Clone, Copy, Default)]
pub struct Golden<'g> {
    pub v4: &'g [&'g str],
    pub v6: &'g [&'g str],
    /// Beside `CNI-ADMIN`.
    pub admins: &'g [&'g str],
    pub stage_1: &'g [&'g str],
    pub stage_2: &'g [&'g str],
}

/// What all forwarded packets are asked.
pub const FORWARD: [&str; 6] = [
    "jump isolation-stage-1",
    "jump admin",
    "ip daddr @containers_v4 ct state established,related accept",
    "ip6 daddr @containers_v6 ct state established,related accept",
    "ip saddr @containers_v4 accept",
    "ip6 saddr @containers_v6 accept",
];

impl Golden<'_> {
    /// Chains in their order: the administrator's first, and those of later configurations behind all.
    fn script(&self) -> String {
        let Self { v4, v6, admins, stage_1, stage_2 } = self;
        let mut lines = vec![format!("add table {TABLE} {{ comment \"CNI firewall plugin\" ; }}")];
        for (family, addresses) in [("4", v4), ("6", v6)] {
            lines.push(format!("add set {TABLE} containers_v{family} {{ type ipv{family}_addr ; }}"));
            let elements = addresses.iter().map(|ip| format!("add element {TABLE} containers_v{family} {{ {ip} }}"));
            lines.extend(elements);
        }
        let base = "forward { type filter hook forward priority 0 ; policy accept ; }";
        let chains = ["CNI-ADMIN", "admin", "isolation-stage-1", "isolation-stage-2", base];
        lines.extend(chains.iter().chain(*admins).map(|chain| format!("add chain {TABLE} {chain}")));
        let jumps: Vec<String> = ["CNI-ADMIN"].iter().chain(*admins).map(|admin| format!("jump {admin}")).collect();
        let jumps: Vec<&str> = jumps.iter().map(String::as_str).collect();
        for (chain, rules) in [
            ("admin", &jumps[..]),
            ("isolation-stage-1", stage_1),
            ("isolation-stage-2", stage_2),
            ("forward", &FORWARD),
        ] {
            lines.extend(rules.iter().map(|rule| format!("add rule {TABLE} {chain} {rule}")));
        }
        lines.join("\n")
    }

    /// Requires that the table is listed as `nft` itself would have made it.
    #[track_caller]
    pub fn assert_listed(&self, sandbox: &Sandbox) {
        let listed = table(sandbox);
        let own = Sandbox::new();
        let script = "/run/conformance/golden.nft";
        std::fs::write(script, self.script()).expect("write a script for nft");
        own.sh(&format!("nft -f {script}"));
        assert_eq!(listed, table(&own));
    }
}

const V4_IP: &[&str] = &["10.88.0.5"];
const V6_IP: &[&str] = &["fd00:88::5"];

#[test]
fn containers_are_elements_of_the_set_of_their_family() {
    let rows = [
        ("IPv4", V4, Golden { v4: V4_IP, ..Golden::default() }),
        ("IPv6", V6, Golden { v6: V6_IP, ..Golden::default() }),
        ("both", DUAL, Golden { v4: V4_IP, v6: V6_IP, ..Golden::default() }),
    ];
    for_each(rows.map(|(name, addresses, golden)| (name, (addresses, golden))), |(addresses, golden)| {
        let sandbox = Sandbox::new();
        let lone = firewall(&sandbox, "ctr1", addresses, &json!({}));
        for _ in ["first", "again"] {
            lone.add();
            golden.assert_listed(&sandbox);
            lone.check();
        }
        for _ in ["first", "again"] {
            lone.del();
            Golden::default().assert_listed(&sandbox);
        }
    });
}

#[test]
fn containers_come_and_go_one_by_one() {
    let sandbox = Sandbox::new();
    let first = firewall(&sandbox, "ctr1", DUAL, &json!({}));
    let second = firewall(&sandbox, "ctr2", &["10.88.0.6/24", "10.88.0.7/24", "fd00:88::6/64"], &json!({}));
    first.add();
    second.add();
    let both =
        Golden { v4: &["10.88.0.5", "10.88.0.6", "10.88.0.7"], v6: &["fd00:88::5", "fd00:88::6"], ..Golden::default() };
    both.assert_listed(&sandbox);
    first.del();
    Golden { v4: &["10.88.0.6", "10.88.0.7"], v6: &["fd00:88::6"], ..Golden::default() }.assert_listed(&sandbox);
    second.check();
    first.add();
    both.assert_listed(&sandbox);
}

/// `iptables` and `ip6tables` have nothing to do with it, and other tables neither.
#[test]
fn nothing_stands_elsewhere() {
    for policy in ["open", "same-bridge", "isolated"] {
        let sandbox = Sandbox::new();
        sandbox.sh("iptables -A FORWARD -j ACCEPT");
        nft(&sandbox, "add table inet mine");
        let before = State::of_host(&sandbox);
        let lone = firewall(&sandbox, "ctr1", DUAL, &json!({"ingressPolicy": policy}));
        lone.add();
        lone.check();
        assert!(rules_of_iptables(&sandbox).is_empty());
        lone.del();
        nft(&sandbox, "delete table inet cni_firewall");
        let after = State::of_host(&sandbox);
        for section in ["iptables filter", "iptables nat", "ip6tables filter", "ip6tables nat", "nftables"] {
            assert_eq!(before.section(section), after.section(section), "{section} with {policy}");
        }
    }
}

const SAME_BRIDGE: &[&str] = &["iifname \"br0\" oifname != \"br0\" jump isolation-stage-2"];
const ISOLATED: &[&str] =
    &["iifname \"br0\" oifname != \"br0\" jump isolation-stage-2", "iifname \"br0\" oifname \"br0\" drop"];

/// Once for a bridge, however many containers and addresses there are; DEL leaves it, as with iptables.
#[test]
fn a_policy_stands_in_two_stages() {
    for_each([("same-bridge", SAME_BRIDGE), ("isolated", ISOLATED)].map(|row| (row.0, row)), |(policy, stage_1)| {
        let sandbox = Sandbox::new();
        let keys = json!({"ingressPolicy": policy});
        let first = firewall(&sandbox, "ctr1", DUAL, &keys);
        let second = firewall(&sandbox, "ctr2", &["10.88.0.6/24", "fd00:88::6/64"], &keys);
        let stages = Golden { stage_1, stage_2: &["oifname \"br0\" drop"], ..Golden::default() };
        first.add();
        Golden { v4: V4_IP, v6: V6_IP, ..stages }.assert_listed(&sandbox);
        second.add();
        Golden { v4: &["10.88.0.5", "10.88.0.6"], v6: &["fd00:88::5", "fd00:88::6"], ..stages }.assert_listed(&sandbox);
        first.del();
        second.check();
        second.del();
        stages.assert_listed(&sandbox);
    });
}

#[test]
fn every_bridge_with_a_policy_has_its_own_rules() {
    let sandbox = Sandbox::new();
    let of = |bridge, id, address: &str, policy| {
        on_bridge(&sandbox, bridge, id, &[address], &json!({"ingressPolicy": policy}))
    };
    of("br0", "ctr1", "10.88.0.5/24", "same-bridge").add();
    of("other0", "ctr2", "10.89.0.5/24", "isolated").add();
    of("open0", "ctr3", "10.90.0.5/24", "open").add();
    let golden = Golden {
        v4: &["10.88.0.5", "10.89.0.5", "10.90.0.5"],
        stage_1: &[
            "iifname \"br0\" oifname != \"br0\" jump isolation-stage-2",
            "iifname \"other0\" oifname != \"other0\" jump isolation-stage-2",
            "iifname \"other0\" oifname \"other0\" drop",
        ],
        stage_2: &["oifname \"br0\" drop", "oifname \"other0\" drop"],
        ..Golden::default()
    };
    golden.assert_listed(&sandbox);
}

/// As with iptables, the rules of both accumulate.
#[test]
fn a_bridge_may_have_containers_of_both_policies() {
    for policies in [["same-bridge", "isolated"], ["isolated", "same-bridge"]] {
        let sandbox = Sandbox::new();
        for (id, address, policy) in [("ctr1", "10.88.0.5/24", policies[0]), ("ctr2", "10.88.0.6/24", policies[1])] {
            firewall(&sandbox, id, &[address], &json!({"ingressPolicy": policy})).add();
        }
        let golden = Golden {
            v4: &["10.88.0.5", "10.88.0.6"],
            stage_1: ISOLATED,
            stage_2: &["oifname \"br0\" drop"],
            ..Golden::default()
        };
        golden.assert_listed(&sandbox);
    }
}

#[test]
fn every_admin_chain_that_is_configured_is_asked() {
    let sandbox = Sandbox::new();
    firewall(&sandbox, "ctr1", V4, &json!({})).add();
    let other = firewall(&sandbox, "ctr2", &["10.88.0.6/24"], &json!({"iptablesAdminChainName": "NOMAD-ADMIN"}));
    let golden = Golden { v4: &["10.88.0.5", "10.88.0.6"], admins: &["NOMAD-ADMIN"], ..Golden::default() };
    for _ in ["first", "again"] {
        other.add();
        golden.assert_listed(&sandbox);
    }
    other.check();
}

/// It is the administrator's, whatever the plugin does.
#[test]
fn rules_of_the_administrator_are_unchanged() {
    let sandbox = Sandbox::new();
    // Before any container, too.
    for command in [
        format!("add table {TABLE}"),
        format!("add chain {TABLE} CNI-ADMIN"),
        format!("add rule {TABLE} CNI-ADMIN ip saddr 192.0.2.0/24 counter drop comment \"mine\""),
    ] {
        nft(&sandbox, &command);
    }
    let of_admin = || sandbox.sh(&format!("nft -a list chain {TABLE} CNI-ADMIN"));
    let before = of_admin();
    let lone = firewall(&sandbox, "ctr1", DUAL, &json!({"ingressPolicy": "isolated"}));
    lone.add();
    lone.add();
    lone.check();
    lone.gc(&[&lone]);
    lone.del();
    lone.add();
    lone.gc(&[]);
    assert_eq!(of_admin(), before);
    nft(&sandbox, &format!("add rule {TABLE} CNI-ADMIN ip daddr @containers_v4 tcp dport 22 drop"));
    let state = State::of_host(&sandbox);
    lone.add();
    lone.del();
    assert_same(&state, &State::of_host(&sandbox));
}
