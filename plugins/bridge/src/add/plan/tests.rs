use super::*;
use crate::add::CONTAINER;
use crate::config::Vlans;
use crate::config::tests::request;
use cni_core::result::{CniResult, Dns, IpConfig, Route};
use cni_interface::network::HostGateway;
use cni_model::plan::OtherAddress;

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
        masqueraded: Vec::new(),
        spoof_check: None,
        veth: NewVeth { host: IfName::host_veth(0x1234_abcd), host_mac: mac(1), container_mac: mac(2) },
        vlan_port: IfName::host_veth(0x5678_abcd),
        vlan_mac: mac(4),
        vlan_port_mac: mac(5),
    }
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("CIDR")
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
    let config = config();
    let ipam = ipam(&["10.1.2.5/24", "fd00::5/64"], &["0.0.0.0/0", "::/0"]);
    let network = ResolvedNetwork::decide(ipam, config.gateway, CONTAINER, &config.dns).expect("a network");
    let at = request("").attachment().expect("an attachment");
    let plan = plan_add(&config, &at, Some(&network), &facts()).expect("a plan");
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
    let mac = facts().veth.container_mac;
    let announced = format!("within container: link set eth0 address {mac}");
    let ends = [
        "within host: await veth1234abcd up",
        "within host: await local addresses of br0 fd00::1",
        "within container: await local addresses of eth0 fd00::5",
        &announced,
    ];
    assert_eq!(rules[rules.len() - ends.len()..], ends);
}
