use super::super::attribute::written;
use super::*;

fn message(prefix: u8, flags: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
    [&[0, prefix, flags, 0][..], &7_u32.to_ne_bytes(), &attributes.concat()].concat()
}

fn cidr(text: &str) -> Cidr {
    text.parse().expect("valid")
}

#[test]
fn the_local_address_is_preferred() {
    let ends = [written(libc::IFA_ADDRESS, &[10, 0, 0, 2]), written(libc::IFA_LOCAL, &[10, 0, 0, 1])];
    let want = Address { cidr: cidr("10.0.0.1/24"), tentative: false, dad_failed: false };
    assert_eq!(read_address(&message(24, 0, &ends), Some(7)), Some(want));
    assert_eq!(read_address(&message(24, 0, &ends), None), Some(want));
}

#[test]
fn flags_come_from_the_attribute_and_else_from_the_header() {
    let address = written(libc::IFA_ADDRESS, &[0xfe; 16]);
    let flags = written(FLAGS, &libc::IFA_F_DADFAILED.to_ne_bytes());
    let read = |message: &[u8]| read_address(message, Some(7)).map(|address| (address.tentative, address.dad_failed));
    assert_eq!(read(&message(64, 0x40, std::slice::from_ref(&address))), Some((true, false)));
    assert_eq!(read(&message(64, 0x40, &[address, flags])), Some((false, true)));
}

#[test]
fn other_links_and_impossible_addresses_are_left_out() {
    let address = written(libc::IFA_ADDRESS, &[10, 0, 0, 2]);
    assert_eq!(read_address(&message(24, 0, std::slice::from_ref(&address)), Some(8)), None);
    assert_eq!(read_address(&message(33, 0, &[address]), Some(7)), None);
    assert_eq!(read_address(&message(24, 0, &[written(libc::IFA_ADDRESS, &[10, 0])]), Some(7)), None);
    assert_eq!(read_address(&message(24, 0, &[]), Some(7)), None);
}
