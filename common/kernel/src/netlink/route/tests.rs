use crate::netlink::attribute::written;

use super::*;

fn message(prefix: u8, kind: u8, flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
    [&[2, prefix, 0, 0, 254, 3, 0, kind][..], &flags.to_ne_bytes(), &attributes.concat()].concat()
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    written(kind, &value.to_ne_bytes())
}

fn hop(link: u32, gateway: [u8; 4]) -> Vec<u8> {
    let gateway = written(libc::RTA_GATEWAY, &gateway);
    let length = u16::try_from(HOP_LENGTH + gateway.len()).expect("short");
    [&length.to_ne_bytes()[..], &[0, 0], &link.to_ne_bytes(), &gateway].concat()
}

fn route(gw: Option<IpAddr>) -> NewRoute {
    NewRoute { gw, ..NewRoute::to("10.9.0.0/16".parse().expect("valid")) }
}

#[test]
fn every_hop_of_a_multipath_route_counts() {
    let several = written(libc::RTA_MULTIPATH, &[hop(3, [10, 0, 0, 1]), hop(4, [10, 0, 0, 2])].concat());
    let read = read_route(&message(0, 1, 0, &[several]), Family::V4).expect("a route");
    assert_eq!(
        (read.gateways, read.links),
        (vec![IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])], vec![3, 4])
    );
    let one_link = written(libc::RTA_MULTIPATH, &[hop(3, [10, 0, 0, 1]), hop(3, [10, 0, 0, 2])].concat());
    let read = read_route(&message(0, 1, 0, &[one_link]), Family::V4).expect("a route");
    assert_eq!((read.gateways.len(), read.links), (2, vec![3]));
}

#[test]
fn cached_routes_are_left_out() {
    assert_eq!(read_route(&message(0, 1, libc::RTM_F_CLONED, &[]), Family::V4), None);
}

#[test]
fn a_rejecting_route_has_no_output() {
    let output = number(libc::RTA_OIF, 1);
    assert_eq!(read_output(&message(32, libc::RTN_UNICAST, 0, std::slice::from_ref(&output))), Some(Some(1)));
    assert_eq!(read_output(&message(32, libc::RTN_UNREACHABLE, 0, &[output])), Some(None));
    assert_eq!(read_output(&[0; 7]), None);
}

#[test]
fn mixed_families_are_refused_before_the_kernel_sees_them() {
    let foreign = Some(IpAddr::from([0_u8; 16]));
    assert_eq!(route_message(7, &route(foreign)), Err(Cause::MixedFamilies));
    assert_eq!(route_message(7, &NewRoute { source: foreign, ..route(None) }), Err(Cause::MixedFamilies));
}

#[test]
fn a_high_table_stands_in_an_attribute() {
    let table = |table| route_message(7, &NewRoute { table, ..route(None) }).expect("one family");
    let (none, low, high) = (table(None), table(Some(100)), table(Some(1000)));
    assert_eq!((none.header.table, low.header.table, high.header.table), (254, 100, 0));
    assert!(high.attributes.contains(&RouteAttribute::Table(1000)));
    assert!(!low.attributes.iter().any(|attribute| matches!(attribute, RouteAttribute::Table(_))));
}

fn answer(kind: u8, attributes: &[Vec<u8>]) -> Option<RouteAnswer> {
    let header = [libc::AF_INET as u8, 32, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0].to_vec();
    read_answer(&[header, attributes.concat()].concat())
}

#[test]
fn an_answer_is_a_link_or_a_refusal() {
    let link = written(libc::RTA_OIF, &3_u32.to_ne_bytes());
    let gateway = written(libc::RTA_GATEWAY, &[192, 0, 2, 1]);
    let by = |gateway| Some(RouteAnswer::By { link: 3, gateway });
    assert_eq!(answer(libc::RTN_UNICAST, &[link.clone(), gateway]), by(Some(IpAddr::from([192, 0, 2, 1]))));
    assert_eq!(answer(libc::RTN_UNICAST, std::slice::from_ref(&link)), by(None));
    assert_eq!(answer(libc::RTN_LOCAL, std::slice::from_ref(&link)), Some(RouteAnswer::Local));
    assert_eq!(answer(libc::RTN_UNICAST, &[]), Some(RouteAnswer::Refused(libc::ENETUNREACH)));
    assert_eq!(answer(libc::RTN_PROHIBIT, &[link]), Some(RouteAnswer::Refused(libc::EACCES)));
    assert_eq!(read_answer(&[1, 2]), None);
}
