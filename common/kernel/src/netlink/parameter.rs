//! Kernel parameters of interfaces, read by rtnetlink.
//!
//! To open a file below `/proc/sys/net`, the kernel walks a list of the files of the same name in all network
//! namespaces (`proc_sys_compare` in `fs/proc/proc_sysctl.c`): with 1000 containers that takes a millisecond. Netlink
//! reads the same value in 20 microseconds, however many there are. Only a few parameters can be set by netlink.

use cni_core::family::Family;
use cni_model::plan::Sysctl;
use netlink_packet_core::{DefaultNla, NetlinkSerializable};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};

use super::attribute::{Attribute, attributes, field, written};
use super::link::HEADER_LENGTH as LINK_LENGTH;
use super::socket::Socket;

/// `RTM_GETNETCONF` of `linux/rtnetlink.h`.
const GET_NETCONF: u16 = 82;
/// Length of `struct netconfmsg` of `linux/netconf.h`, padded.
const NETCONF_LENGTH: usize = 4;
/// `NETCONFA_IFINDEX` and `NETCONFA_FORWARDING` of `linux/netconf.h`.
const IFINDEX: u16 = 1;
const FORWARDING: u16 = 2;
/// `NETCONFA_IFINDEX_ALL`: the parameters of `conf/all`.
const ALL: i32 = -1;
/// `IFLA_INET_CONF` of `linux/if_link.h`, and `IFLA_INET6_CONF`: arrays of the parameters of an interface.
const CONF: u16 = 1;
const CONF_V6: u16 = 2;

/// The parameters of interfaces that are asked for here, with their places in the array of their family: from 0, where the
/// constants of `linux/ip.h` count from 1 and those of `linux/ipv6.h` from 0.
const PLACES: [(Family, &str, usize); 6] = [
    (Family::V4, "arp_notify", 21),
    (Family::V4, "route_localnet", 25),
    (Family::V6, "accept_ra", 3),
    (Family::V6, "disable_ipv6", 26),
    (Family::V6, "accept_dad", 27),
    (Family::V6, "forwarding", 0),
];

/// The place of a parameter in netlink messages.
enum NetconfLocation<'a> {
    /// The forwarding parameter of a family, for the whole namespace.
    Forwarding(Family),
    /// One of an interface.
    Interface { family: Family, name: &'a str, place: usize },
}

impl Socket {
    /// The value of a parameter, as its file has it; `None` if netlink does not return it, and the file must be read.
    pub fn parameter(&mut self, key: &Sysctl) -> Option<String> {
        let answer = match place(key)? {
            NetconfLocation::Forwarding(family) => {
                self.ask(NetconfQuestion(family), |payload| Some(read_forwarding(payload)))
            }
            NetconfLocation::Interface { family, name, place } => {
                let mut question = LinkMessage::default();
                question.attributes.push(LinkAttribute::IfName(name.to_owned()));
                question.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
                self.ask(RouteNetlinkMessage::GetLink(question), |payload| Some(read_place(payload, family, place)))
            }
        };
        match answer {
            Ok(value) => value.map(|value| value.to_string()),
            Err(cause) => {
                log::debug!("the value of {} is read from its file: {cause}", key.path());
                None
            }
        }
    }

    /// Sets a parameter. Returns whether it was set; if not, its file must be written.
    pub fn set_parameter(&mut self, key: &Sysctl, value: &str) -> bool {
        let Some((name, attribute)) = setting(key, value) else { return false };
        let mut change = LinkMessage::default();
        change.attributes.push(LinkAttribute::IfName(name.to_owned()));
        change.attributes.push(attribute);
        let done = self.change(RouteNetlinkMessage::SetLink(change), 0);
        if let Err(cause) = &done {
            log::debug!("the value of {} is written into its file: {cause}", key.path());
        }
        done.is_ok()
    }
}

/// Parameters that netlink may set, because the kernel only stores their value (`inet_set_link_af` in
/// `net/ipv4/devinet.c`), so writing the file would have no other effect. Netlink sets only IPv4 parameters.
const SETTABLE: [&str; 1] = ["arp_notify"];

/// The attribute that sets one of the parameters of an interface, and the interface.
fn setting<'a>(key: &'a Sysctl, value: &str) -> Option<(&'a str, LinkAttribute)> {
    let NetconfLocation::Interface { family: Family::V4, name, place } = place(key)? else { return None };
    if !key.parts().last().is_some_and(|parameter| SETTABLE.contains(&parameter)) {
        return None;
    }
    let number = u16::try_from(place).ok()? + 1;
    let parameter = written(number, &value.parse::<i32>().ok()?.to_ne_bytes());
    let own = written(u16::try_from(libc::AF_INET).ok()?, &written(CONF, &parameter));
    Some((name, LinkAttribute::Other(DefaultNla::new(libc::IFLA_AF_SPEC, own))))
}

fn place(key: &Sysctl) -> Option<NetconfLocation<'_>> {
    let parts: Vec<&str> = key.parts().collect();
    if let Some(family) = Family::ALL.into_iter().find(|family| parts == family.forwarding_key()) {
        return Some(NetconfLocation::Forwarding(family));
    }
    let [net, word, conf, name, parameter] = parts[..] else { return None };
    let is_interface = net == "net" && conf == "conf" && name != "all" && name != "default";
    let is_it = |(family, known, _): &&(Family, &str, usize)| family.word() == word && *known == parameter;
    let (family, _, place) = PLACES.iter().find(is_it).filter(|_| is_interface)?;
    Some(NetconfLocation::Interface { family: *family, name, place: *place })
}

/// One of the parameters of an interface in a message about it.
fn read_place(payload: &[u8], family: Family, place: usize) -> Option<i32> {
    let (protocol, conf) = match family {
        Family::V4 => (libc::AF_INET, CONF),
        Family::V6 => (libc::AF_INET6, CONF_V6),
    };
    let is_it = |attribute: &Attribute<'_>| i32::from(attribute.kind) == protocol;
    let spec = find(payload.get(LINK_LENGTH..)?, |attribute| attribute.kind == libc::IFLA_AF_SPEC)?;
    let own = spec.nested().find(is_it)?;
    let values = own.nested().find(|attribute| attribute.kind == conf)?;
    field(values.value, 4 * place).map(i32::from_ne_bytes)
}

fn read_forwarding(payload: &[u8]) -> Option<i32> {
    let value = find(payload.get(NETCONF_LENGTH..)?, |attribute| attribute.kind == FORWARDING)?;
    field(value.value, 0).map(i32::from_ne_bytes)
}

fn find(bytes: &[u8], is_it: impl Fn(&Attribute<'_>) -> bool) -> Option<Attribute<'_>> {
    attributes(bytes).find(is_it)
}

/// Asks for the parameters of `conf/all` of a family.
struct NetconfQuestion(Family);

impl NetconfQuestion {
    fn bytes(&self) -> Vec<u8> {
        let family = match self.0 {
            Family::V4 => libc::AF_INET,
            Family::V6 => libc::AF_INET6,
        };
        let header = [u8::try_from(family).unwrap_or_default(), 0, 0, 0];
        [&header[..], &written(IFINDEX, &ALL.to_ne_bytes())].concat()
    }
}

impl NetlinkSerializable for NetconfQuestion {
    fn message_type(&self) -> u16 {
        GET_NETCONF
    }

    fn buffer_len(&self) -> usize {
        self.bytes().len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::names::IfName;

    fn interface(family: Family, parameter: &str) -> Sysctl {
        Sysctl::interface(family, &IfName::parse("eth0.5").expect("a name"), parameter)
    }

    fn reported(key: &Sysctl) -> Option<(bool, usize)> {
        place(key).map(|place| match place {
            NetconfLocation::Forwarding(family) => (family == Family::V4, 0),
            NetconfLocation::Interface { family, name, place } => {
                assert_eq!(name, "eth0.5");
                (family == Family::V4, place)
            }
        })
    }

    #[test]
    fn only_parameters_of_interfaces_and_forwarding_are_asked_for() {
        assert_eq!(reported(&interface(Family::V4, "route_localnet")), Some((true, 25)));
        assert_eq!(reported(&interface(Family::V6, "accept_dad")), Some((false, 27)));
        assert_eq!(
            Family::ALL.map(|family| reported(&Sysctl::forwarding(family))),
            [Some((true, 0)), Some((false, 0))]
        );
        for other in [
            interface(Family::V6, "route_localnet"),
            interface(Family::V4, "forwarding"),
            Sysctl::fixed(&["net", "ipv4", "conf", "all", "route_localnet"]),
            Sysctl::fixed(&["net", "ipv6", "conf", "default", "accept_ra"]),
            Sysctl::fixed(&["net", "core", "somaxconn"]),
        ] {
            assert_eq!(reported(&other), None, "{}", other.path());
        }
    }

    #[test]
    fn what_does_more_than_a_number_is_not_set_by_netlink() {
        assert!(setting(&interface(Family::V4, "arp_notify"), "1").is_some());
        assert!(setting(&interface(Family::V4, "arp_notify"), "yes").is_none());
        assert!(setting(&interface(Family::V4, "route_localnet"), "0").is_none());
        assert!(setting(&interface(Family::V6, "accept_dad"), "0").is_none());
        assert!(setting(&Sysctl::forwarding(Family::V4), "1").is_none());
    }

    #[test]
    fn a_message_without_the_parameter_has_none() {
        let values: Vec<u8> = (0_i32..28).flat_map(|place| (place * 10).to_ne_bytes()).collect();
        let spec = |protocol: i32, conf| {
            let own = written(u16::try_from(protocol).expect("a family"), &written(conf, &values));
            [vec![0; LINK_LENGTH], written(libc::IFLA_AF_SPEC, &own)].concat()
        };
        assert_eq!(read_place(&spec(libc::AF_INET, CONF), Family::V4, 25), Some(250));
        assert_eq!(read_place(&spec(libc::AF_INET6, CONF_V6), Family::V6, 3), Some(30));
        assert_eq!(read_place(&spec(libc::AF_INET6, CONF_V6), Family::V6, 28), None);
        assert_eq!(read_place(&spec(libc::AF_INET, CONF), Family::V6, 3), None);
        assert_eq!(read_place(&[0; 3], Family::V4, 0), None);
        assert_eq!(read_forwarding(&[vec![0; 4], written(FORWARDING, &1_i32.to_ne_bytes())].concat()), Some(1));
        assert_eq!(read_forwarding(&[0; 4]), None);
    }
}
