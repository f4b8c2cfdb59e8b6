use super::*;

fn cidr(text: &str) -> Cidr {
    text.parse().expect("CIDR")
}

fn ipam(addresses: &[&str], routes: &[&str]) -> CniResult {
    let route =
        |dst: &&str| Route { dst: cidr(dst), gw: None, mtu: 0, advmss: 0, priority: 0, table: None, scope: None };
    let ip = |address: &&str| IpConfig { interface: None, address: cidr(address), gateway: None };
    CniResult {
        ips: addresses.iter().map(ip).collect(),
        routes: routes.iter().map(route).collect(),
        ..CniResult::default()
    }
}

fn decide(ipam: CniResult, gateway: HostGateway) -> Result<ResolvedNetwork, Error> {
    ResolvedNetwork::decide(ipam, gateway, 1, &Dns::default())
}

#[test]
fn the_default_gateway_adds_a_route_unless_ipam_gave_one() {
    let routes =
        |routes: &[&str]| decide(ipam(&["10.1.2.5/24"], routes), HostGateway::DefaultRoute).expect("a network").routes;
    for given in [&[][..], &["0.0.0.0/0"], &["0.0.0.0/0", "0.0.0.0/0"]] {
        let routes = routes(given);
        assert_eq!(routes.len(), 1, "{given:?}");
        assert_eq!(routes[0].gw, Some(IpAddr::from([10, 1, 2, 1])));
    }
}

#[test]
fn a_route_on_the_link_gets_no_gateway() {
    let mut ipam = ipam(&["10.1.2.5/24"], &["10.9.0.0/16"]);
    ipam.routes[0].scope = Some(253);
    assert_eq!(decide(ipam, HostGateway::Address).expect("a network").routes[0].gw, None);
}

#[test]
fn what_ipam_cannot_mean_is_refused() {
    let refused = |ipam: CniResult| {
        let error = decide(ipam, HostGateway::Address).expect_err("refused");
        (error.code().number(), error.to_string())
    };
    assert_eq!(refused(CniResult::default()), (7, "IPAM plugin returned missing IP config".to_owned()));
    assert_eq!(
        refused(ipam(&["255.255.255.255/32"], &[])),
        (7, "255.255.255.255/32 has no next address, which would be the gateway's".to_owned())
    );
    let mut odd = ipam(&["10.1.2.5/24"], &["10.9.0.0/16"]);
    odd.routes[0].priority = -1;
    assert_eq!(refused(odd), (7, "failed to add route to 10.9.0.0/16: priority -1 is out of range".to_owned()));
}

#[test]
fn without_a_gateway_on_the_host_those_that_ipam_tells_count_and_no_other() {
    let mut reported = ipam(&["10.1.2.5/24", "fd00::5/64"], &["0.0.0.0/0", "::/0"]);
    reported.ips[1].gateway = Some("fd00::9".parse().expect("address"));
    let network = decide(reported, HostGateway::None).expect("a network");
    let hops: Vec<_> = network.routes.iter().map(|route| route.gw.map(|gw| gw.to_string())).collect();
    assert_eq!(hops, [None, Some("fd00::9".to_owned())]);
    assert_eq!((network.gateways, network.result.ips[0].gateway), (Vec::new(), None));
    assert!(network.result.ips.iter().all(|ip| ip.interface == Some(1)));
    assert!(network.result.routes.iter().all(|route| route.gw.is_none()), "routes are told as IPAM told them");
}

#[test]
fn name_resolution_is_the_configurations_as_a_whole_or_else_ipams() {
    let dns = |domain: &str| Dns { domain: domain.to_owned(), ..Dns::default() };
    let reported = || CniResult { dns: dns("ipam"), ..ipam(&["10.1.2.5/24"], &[]) };
    let empty = Dns { search: Some(Vec::new()), ..Dns::default() };
    for (own, want) in [(Dns::default(), dns("ipam")), (dns("own"), dns("own")), (empty.clone(), empty)] {
        assert_eq!(
            ResolvedNetwork::decide(reported(), HostGateway::None, 0, &own).expect("a network").result.dns,
            want
        );
    }
}
