//! Decodes the properties of tap devices, since Linux 4.17: `IFLA_INFO_DATA` of the kind `tun`.

use cni_model::plan::{TapOptions, TapQueues};

use super::attribute::Attribute;

/// `IFLA_TUN_OWNER` of `linux/if_link.h`.
const OWNER: u16 = 1;
/// `IFLA_TUN_GROUP` of `linux/if_link.h`.
const GROUP: u16 = 2;
/// `IFLA_TUN_TYPE` of `linux/if_link.h`: `IFF_TUN` or `IFF_TAP`.
const TYPE: u16 = 3;
/// `IFLA_TUN_MULTI_QUEUE` of `linux/if_link.h`.
const MULTI_QUEUE: u16 = 7;

/// Decodes the properties of a device of kind `tun`; `None` unless it is a tap device.
pub(super) fn read_tap(data: Attribute<'_>) -> Option<TapOptions> {
    let part = |kind| data.nested().find(|attribute| attribute.kind == kind);
    let number = |kind| part(kind).and_then(Attribute::u32);
    let is_tap = part(TYPE).and_then(Attribute::u8).map(i32::from) == Some(libc::IFF_TAP);
    let is_many = part(MULTI_QUEUE).and_then(Attribute::u8).is_some_and(|value| value != 0);
    let queues = if is_many { TapQueues::Many } else { TapQueues::One };
    is_tap.then(|| TapOptions { owner: number(OWNER), group: number(GROUP), queues })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::attribute::{attributes, written};

    fn read(parts: &[(u16, &[u8])]) -> Option<TapOptions> {
        let inside: Vec<u8> = parts.iter().flat_map(|(kind, value)| written(*kind, value)).collect();
        let bytes = written(libc::IFLA_INFO_DATA, &inside);
        read_tap(attributes(&bytes).next().expect("an attribute"))
    }

    #[test]
    fn a_tap_is_distinguished_from_a_tun_and_who_may_open_it_is_read() {
        let owner = 1000_u32.to_ne_bytes();
        let many = TapOptions { owner: Some(1000), group: None, queues: TapQueues::Many };
        assert_eq!(read(&[(TYPE, &[2]), (OWNER, &owner), (MULTI_QUEUE, &[1])]), Some(many));
        assert_eq!(read(&[(TYPE, &[2]), (MULTI_QUEUE, &[0])]), Some(TapOptions::default()));
        assert_eq!(read(&[(TYPE, &[1]), (OWNER, &owner)]), None);
        assert_eq!(read(&[(OWNER, &owner)]), None);
        assert_eq!(read(&[(TYPE, &[])]), None);
    }
}
