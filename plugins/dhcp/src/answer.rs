//! The result of ADD: the address with its gateway, routes and name resolution.

use std::net::{IpAddr, Ipv4Addr};

use cni_core::cidr::Cidr;
use cni_core::result::{CniResult, Dns, IpConfig, Route};

use crate::grant::{Grant, GrantedRoute};

/// `RT_SCOPE_LINK` of `linux/rtnetlink.h`: the destination is on the link.
const SCOPE_LINK: i64 = 253;

/// The result of a grant; `priority` is the metric of all its routes unless 0.
pub fn result(grant: &Grant, priority: i64) -> CniResult {
    let gateway = grant.routers.first().copied();
    let ip = IpConfig { interface: None, address: cidr(grant.address, grant.prefix), gateway: gateway.map(IpAddr::V4) };
    let default = gateway.filter(|_| !grant.is_classless);
    let default = default.map(|router| GrantedRoute { to: Ipv4Addr::UNSPECIFIED, prefix: 0, router });
    let mtu = grant.mtu.map_or(0, i64::from);
    let routes = grant.routes.iter().copied().chain(default).map(|reported| route(reported, priority, mtu));
    CniResult { interfaces: Vec::new(), ips: vec![ip], routes: routes.collect(), dns: dns(grant) }
}

/// A route of the result. A router of 0.0.0.0 means that the destination is on the link (RFC 3442).
fn route(reported: GrantedRoute, priority: i64, mtu: i64) -> Route {
    let scope = reported.router.is_unspecified().then_some(SCOPE_LINK);
    Route { mtu, priority, scope, ..Route::via(cidr(reported.to, reported.prefix), IpAddr::V4(reported.router)) }
}

fn dns(grant: &Grant) -> Dns {
    let texts = |found: Vec<String>| Some(found).filter(|found| !found.is_empty());
    Dns {
        nameservers: texts(grant.nameservers.iter().map(ToString::to_string).collect()),
        domain: grant.domain.clone().unwrap_or_default(),
        search: texts(grant.search.clone()),
        options: None,
    }
}

fn cidr(address: Ipv4Addr, prefix: u8) -> Cidr {
    Cidr::truncated(IpAddr::V4(address), prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{DhcpOptions, Incoming, MessageType, code};

    fn routes(options: &[(u8, &[u8])], priority: i64) -> String {
        let mut all = DhcpOptions::default();
        for (code, value) in [(code::SUBNET_MASK, &[255; 4][..]), (code::SERVER_IDENTIFIER, &[10, 1, 2, 1])] {
            all.set(code, value);
        }
        options.iter().for_each(|(code, value)| all.set(*code, value));
        let ack = Incoming { kind: MessageType::Ack, xid: 1, address: [10, 1, 2, 5].into(), mac: [0; 6], options: all };
        let routes = result(&Grant::of(&ack).expect("a grant"), priority).routes;
        let texts = routes.iter().map(|Route { dst, gw, mtu, priority, scope, .. }| {
            format!("{dst} {} {mtu} {priority} {scope:?}", gw.expect("a router"))
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn classless_routes_replace_the_default_route_and_those_of_option_33_do_not() {
        let router = (code::ROUTER, &[10, 1, 2, 1, 10, 1, 2, 2][..]);
        let mtu = (code::INTERFACE_MTU, &[5, 120][..]);
        let of_33 = (code::STATIC_ROUTE, &[10, 9, 0, 0, 10, 1, 2, 9][..]);
        let want = "10.0.0.0/8 10.1.2.9 1400 0 None, 0.0.0.0/0 10.1.2.1 1400 0 None";
        assert_eq!(routes(&[router, mtu, of_33], 0), want);
        let of_121 = (code::CLASSLESS_ROUTE, &[32, 169, 254, 169, 254, 0, 0, 0, 0][..]);
        assert_eq!(routes(&[router, of_33, of_121], 7), "169.254.169.254/32 0.0.0.0 0 7 Some(253)");
    }
}
