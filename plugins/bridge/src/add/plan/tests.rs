use super::*;
use crate::add::facts::NewNames;
use crate::add::result::CONTAINER;
use crate::fixtures::attachment;
use crate::vlan::{VlanKeys, Vlans};
use cni_core::error::Failure;
use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_core::result::{CniResult, Dns, IpConfig, Route};
use cni_interface::network::{HostGateway, NetworkError};
use cni_interface::veth::NewVeth;
use cni_model::link::{Address, Link, OperState};
use cni_model::plan::OtherAddress;
use cni_model::vlan::EarlierVlans;
use cni_netfilter::Backend;
use proptest::prelude::*;

fn at() -> Attachment {
    attachment("id1", "eth0")
}

fn config() -> Config {
    Config {
        bridge: IfName::parse("br0").expect("name"),
        gateway: HostGateway::Address,
        other_address: OtherAddress::Refuse,
        masquerade: true,
        masquerade_backend: None,
        spoof_check: false,
        mtu: Some(1400),
        hairpin: true,
        promisc: false,
        isolated: false,
        vlans: Vlans::default(),
        mac: None,
        detect_duplicates: false,
        leave_down: false,
        ipam: Some("host-local".to_owned()),
        dns: Dns::default(),
    }
}

fn facts() -> Facts {
    let mac = |last| Mac::local([0, 0, 0, 0, 0, last]);
    Facts {
        bridge: None,
        gateway_addresses: Vec::new(),
        masquerade_backend: Backend::Iptables,
        spoof_check: None,
        names: NewNames {
            veth: NewVeth { host: IfName::host_veth(0x1234_abcd), host_mac: mac(1), container_mac: mac(2) },
            vlan_port: IfName::host_veth(0x5678_abcd),
            vlan_mac: mac(4),
            vlan_port_mac: mac(5),
        },
    }
}

fn bridge_link(kind: &str) -> Link {
    Link {
        index: 3,
        name: "br0".to_owned(),
        kind: Some(kind.to_owned()),
        mac: Some(Mac::local([9; 6])),
        mtu: 1500,
        up: true,
        oper_state: OperState::Up,
        vlan_filtering: Some(false),
        ..Link::default()
    }
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("CIDR")
}

fn address(text: &str) -> Address {
    Address { cidr: cidr(text), tentative: false, dad_failed: false }
}

fn ipam(addresses: &[&str], routes: &[&str]) -> CniResult {
    let route =
        |dst: &&str| Route { dst: cidr(dst), gw: None, mtu: 0, advmss: 0, priority: 0, table: None, scope: None };
    CniResult {
        ips: addresses
            .iter()
            .map(|address| IpConfig { interface: None, address: cidr(address), gateway: None })
            .collect(),
        routes: routes.iter().map(route).collect(),
        ..CniResult::default()
    }
}

#[test]
fn a_dual_stack_add_on_an_empty_host() {
    let network = network(&config(), ipam(&["10.1.2.5/24", "fd00::5/64"], &["0.0.0.0/0", "::/0"])).expect("a network");
    let plan = plan_add(&config(), &at(), Some(&network), &facts()).expect("a plan");
    let want = r#"shared host: link add br0 type bridge mtu 1400
shared host: sysctl net/ipv6/conf/br0/accept_dad=0
shared host: sysctl net/ipv6/conf/br0/accept_ra=0
shared host: link set br0 up
owned  container: link add eth0 type veth peer veth1234abcd on host mtu 1400
within host: link set veth1234abcd alias "cni:net1:id1:eth0"
within host: sysctl net/ipv6/conf/veth1234abcd/accept_ra=0
within host: link set veth1234abcd up
within host: link set veth1234abcd master br0
within host: bridge link set veth1234abcd hairpin on isolated off
within container: sysctl net/ipv6/conf/eth0/accept_dad=0
within container: sysctl net/ipv4/conf/eth0/arp_notify=1
within container: sysctl net/ipv6/conf/eth0/ndisc_notify=1
within container: sysctl net/ipv6/conf/lo/disable_ipv6=0
within container: sysctl net/ipv6/conf/eth0/disable_ipv6=0
within container: sysctl net/ipv6/conf/eth0/keep_addr_on_down=1
within container: addr add 10.1.2.5/24 dev eth0
within container: addr add fd00::5/64 dev eth0 nodad
within container: link set eth0 up
within container: route add 0.0.0.0/0 via 10.1.2.1 dev eth0
within container: route add ::/0 via fd00::1 dev eth0
shared host: addr add 10.1.2.1/24 dev br0
shared host: addr add fd00::1/64 dev br0 nodad
shared host: sysctl net/ipv4/ip_forward=1
shared host: sysctl net/ipv6/conf/all/forwarding=1
"#;
    let text = plan.to_string();
    assert!(text.starts_with(want), "{text}");
    let rules: Vec<&str> = text[want.len()..].lines().collect();
    assert!(rules.iter().any(|line| line.contains("-A POSTROUTING -s 10.1.2.5/32 -m comment")), "{text}");
    let mac = facts().names.veth.container_mac;
    let announced = format!("within container: link set eth0 address {mac}");
    let ends = [
        "within host: await veth1234abcd up",
        "within host: await local addresses of br0 fd00::1",
        "within container: await local addresses of eth0 fd00::5",
        &announced,
    ];
    assert_eq!(rules[rules.len() - ends.len()..], ends);
}

#[test]
fn nf_tables_take_the_place_of_iptables_and_check_macs_when_asked() {
    let config = Config { spoof_check: true, ..config() };
    let network = network(&config, ipam(&["10.1.2.5/24"], &[])).expect("a network");
    let names = spoof::CheckNames::of(&at());
    let mut facts = Facts { masquerade_backend: Backend::Nftables, spoof_check: Some(names.clone()), ..facts() };
    facts.names.veth.container_mac = Mac::local([7; 6]);
    let plan = plan_add(&config, &at(), Some(&network), &facts).expect("a plan");
    let owned: Vec<&Step> = plan
        .steps()
        .iter()
        .filter(|(sharing, _)| *sharing == cni_model::plan::Sharing::Owned)
        .map(|(_, step)| step)
        .collect();
    assert_eq!(owned.len(), 4, "{plan}");
    assert_eq!(*owned[1], Step::ensure_rules(spoof::ensure(&names, &facts.names.veth.host, &Mac::local([7; 6]))));
    assert!(owned[2].to_string().starts_with("host: write record masquerades/"), "{plan}");
    assert_eq!(
        *owned[3],
        Step::ensure_rules(masquerade::rulesets(Backend::Nftables, &at(), &[cidr("10.1.2.5/24")]).remove(0))
    );
    let text = plan.to_string();
    let rule = "  add rule inet cni_plugins_masquerade masq_checks ip saddr 10.1.2.5 ip daddr != 10.1.2.0/24 masquerade comment";
    assert!(text.contains(rule) && !text.contains("-A POSTROUTING"), "{text}");
    let off =
        plan_add(&Config { ipam: None, masquerade: false, ..config }, &at(), None, &facts).expect("a plan").to_string();
    assert!(off.contains("iifname \"veth1234abcd\" jump cni-br-iface-id1-eth0 comment"), "{off}");
}

#[test]
fn a_layer_two_add_makes_no_addresses() {
    let config = Config { ipam: None, masquerade: false, mtu: None, ..config() };
    let plan = plan_add(&config, &at(), None, &facts()).expect("a plan").to_string();
    assert!(!plan.contains("addr add") && !plan.contains("ip_forward"), "{plan}");
    assert!(plan.ends_with("container: link set eth0 up\nwithin host: await veth1234abcd up\n"), "{plan}");
    let down = plan_add(&Config { leave_down: true, ..config }, &at(), None, &facts()).expect("a plan").to_string();
    assert!(down.ends_with("hairpin on isolated off\n"), "{down}");
}

#[test]
fn an_existing_bridge_is_not_changed() {
    let network = network(&config(), ipam(&["10.1.2.5/24"], &[])).expect("a network");
    let gateway_addresses = vec![address("10.1.2.1/24")];
    let facts = Facts { bridge: Some(bridge_link("bridge")), gateway_addresses, ..facts() };
    let plan = plan_add(&config(), &at(), Some(&network), &facts).expect("a plan").to_string();
    assert!(
        !plan.contains("link add br0") && !plan.contains("br0 up") && !plan.contains("addr add 10.1.2.1"),
        "{plan}"
    );
    assert!(!plan.contains("link set br0 address"), "{plan}");
}

#[test]
fn a_link_that_is_no_bridge_is_refused() {
    let facts = Facts { bridge: Some(bridge_link("veth")), ..facts() };
    let error = plan_add(&config(), &at(), None, &facts).expect_err("no bridge");
    assert_eq!(error.to_string(), r#"failed to create bridge "br0": "br0" already exists but is not a bridge"#);
    assert_eq!(error.code().number(), 103);
}

#[test]
fn another_address_is_a_conflict_unless_forced() {
    let network = network(&config(), ipam(&["10.1.3.5/24", "fd00:3::5/64"], &[])).expect("a network");
    let gateway_addresses = vec![address("10.1.2.1/24"), address("fd00:2::1/64"), address("fe80::1/64")];
    let facts = Facts { bridge: Some(bridge_link("bridge")), gateway_addresses, ..facts() };
    let error = plan_add(&config(), &at(), Some(&network), &facts).expect_err("conflict");
    assert_eq!(
        error.to_string(),
        r#"failed to set bridge addr: "br0" already has an IP address different from 10.1.3.1/24"#
    );
    let forced = Config { other_address: OtherAddress::Replace, ..config() };
    let plan = plan_add(&forced, &at(), Some(&network), &facts).expect("a plan").to_string();
    assert!(
        plan.contains("shared host: addr del 10.1.2.1/24 dev br0\nshared host: addr add 10.1.3.1/24 dev br0"),
        "{plan}"
    );
    assert!(!plan.contains("addr del fd00:2::1") && !plan.contains("addr del fe80"), "{plan}");
}

#[test]
fn two_gateways_of_one_add_are_not_in_each_others_way() {
    let network = network(&config(), ipam(&["10.1.2.5/24", "10.1.3.5/24"], &[])).expect("a network");
    let plan = plan_add(&config(), &at(), Some(&network), &facts()).expect("a plan").to_string();
    assert!(plan.contains("addr add 10.1.2.1/24 dev br0") && plan.contains("addr add 10.1.3.1/24 dev br0"), "{plan}");
}

fn network(config: &Config, ipam: CniResult) -> Result<ResolvedNetwork, NetworkError> {
    ResolvedNetwork::decide(ipam, config.gateway, CONTAINER, &config.dns)
}

fn in_vlan(vlan: i64) -> Config {
    let keys = VlanKeys { vlan, trunk: None, earlier: EarlierVlans::Removed };
    Config { vlans: keys.checked(Some(&config().bridge)).expect("valid"), masquerade: false, ..config() }
}

#[test]
fn the_gateway_of_a_vlan_has_a_link_of_its_own() {
    let network = network(&in_vlan(5), ipam(&["10.1.2.5/24"], &[])).expect("a network");
    let plan = plan_add(&in_vlan(5), &at(), Some(&network), &facts()).expect("a plan").to_string();
    for lines in [
        "shared host: link add br0 type bridge mtu 1400 vlan_filtering 1\n",
        "isolated off\nwithin host: bridge vlan set veth1234abcd 5 pvid untagged\n",
        "shared host: ensure br0.5 with peer veth5678abcd in br0 vlan 5 pvid untagged
shared host: sysctl net/ipv6/conf/br0.5/accept_ra=0
shared host: link set br0.5 up
shared host: addr add 10.1.2.1/24 dev br0.5
shared host: sysctl net/ipv4/ip_forward=1\n",
    ] {
        assert!(plan.contains(lines), "{plan}");
    }
}

#[test]
fn what_is_in_the_way_of_a_vlans_gateway_is_an_address_of_its_link() {
    let network = network(&in_vlan(5), ipam(&["10.1.3.5/24"], &[])).expect("a network");
    let facts =
        Facts { bridge: Some(bridge_link("bridge")), gateway_addresses: vec![address("10.1.2.1/24")], ..facts() };
    let error = plan_add(&in_vlan(5), &at(), Some(&network), &facts).expect_err("conflict");
    assert_eq!(
        error.to_string(),
        r#"failed to set bridge addr: "br0.5" already has an IP address different from 10.1.3.1/24"#
    );
    let forced = Config { other_address: OtherAddress::Replace, ..in_vlan(5) };
    let plan = plan_add(&forced, &at(), Some(&network), &facts).expect("a plan").to_string();
    assert!(plan.contains("addr del 10.1.2.1/24 dev br0.5\n") && !plan.contains("link set br0 address"), "{plan}");
}

#[test]
fn a_network_without_addresses_needs_no_link_to_its_vlan() {
    let keys = VlanKeys { vlan: 5, trunk: None, earlier: EarlierVlans::Kept };
    let vlans = keys.checked(None).expect("valid");
    let plan = plan_add(&Config { vlans, ..config() }, &at(), None, &facts()).expect("a plan").to_string();
    assert!(plan.contains("bridge vlan set veth1234abcd also 5 pvid untagged\n"), "{plan}");
    assert!(!plan.contains("br0.5"), "{plan}");
}

proptest! {
    #[test]
    fn every_owned_step_can_be_undone(force in any::<bool>(), dual in any::<bool>(), present in any::<bool>(), hosts in 2u8..250) {
        let config = Config { other_address: if force { OtherAddress::Replace } else { OtherAddress::Refuse }, ..config() };
        let v4 = format!("10.1.2.{hosts}/24");
        let addresses: &[&str] = if dual { &[&v4, "fd00::5/64"] } else { &[&v4] };
        let network = network(&config, ipam(addresses, &["0.0.0.0/0"])).expect("a network");
        let facts = Facts { bridge: present.then(|| bridge_link("bridge")), ..facts() };
        let plan = plan_add(&config, &at(), Some(&network), &facts).expect("a plan");
        for (sharing, step) in plan.steps() {
            let undone =
                step.inverse().is_some() || matches!(step, Step::EnsureRules { .. } | Step::WriteRecord { .. });
            prop_assert!(*sharing != cni_model::plan::Sharing::Owned || undone, "{step}");
        }
    }
}
