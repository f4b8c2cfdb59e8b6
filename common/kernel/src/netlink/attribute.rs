//! Netlink attributes: iteration, the few types of values that are used, and encoding.
//!
//! Nothing here fails: a value of an unexpected length is `None`, and an incomplete list of attributes ends before the
//! incomplete one.

use std::borrow::Cow;
use std::net::IpAddr;

use netlink_packet_core::{DefaultNla, Emitable, NLA_ALIGNTO, NLA_HEADER_SIZE, NLA_TYPE_MASK};

/// An attribute: its type without flag bits, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The type, to be compared with constants such as `libc::IFLA_MTU`.
    pub kind: u16,
    /// The value, without padding.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// The attributes nested in this one.
    pub fn nested(self) -> impl Iterator<Item = Attribute<'a>> {
        attributes(self.value)
    }

    /// The nested attribute of a kind.
    pub fn part(self, kind: u16) -> Option<Attribute<'a>> {
        find(self.value, kind)
    }

    /// A value of one byte.
    pub fn u8(self) -> Option<u8> {
        field(self.value, 0).map(u8::from_ne_bytes)
    }

    /// A value of four bytes in the byte order of the host.
    pub fn u32(self) -> Option<u32> {
        field(self.value, 0).map(u32::from_ne_bytes)
    }

    /// The index of a link; zero means none.
    pub fn link_index(self) -> Option<u32> {
        self.u32().filter(|index| *index != 0)
    }

    /// The number of a network namespace; a negative one means none (`NETNSA_NSID_NOT_ASSIGNED`).
    pub fn netns_id(self) -> Option<i32> {
        field(self.value, 0).map(i32::from_ne_bytes).filter(|id| *id >= 0)
    }

    /// A text up to its first zero byte.
    pub fn text(self) -> String {
        self.borrowed_text().into_owned()
    }

    /// The same, without a copy unless it is not UTF-8.
    pub fn borrowed_text(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.value.split(|byte| *byte == 0).next().unwrap_or_default())
    }

    /// An address, of the family that its length implies.
    pub fn ip(self) -> Option<IpAddr> {
        match self.value.len() {
            4 => field::<4>(self.value, 0).map(IpAddr::from),
            16 => field::<16>(self.value, 0).map(IpAddr::from),
            _ => None,
        }
    }
}

/// The attributes in `bytes`, one after the other.
///
/// A listing of rules has tens of thousands, for which the iterator of `netlink-packet-core` takes twice the
/// time that the kernel needs to write them.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(field(rest, 0)?));
        let kind = u16::from_ne_bytes(field(rest, 2)?) & NLA_TYPE_MASK;
        let value = rest.get(NLA_HEADER_SIZE..length)?;
        rest = rest.get(length.next_multiple_of(NLA_ALIGNTO)..).unwrap_or_default();
        Some(Attribute { kind, value })
    })
}

/// The attribute of a kind.
pub fn find(bytes: &[u8], kind: u16) -> Option<Attribute<'_>> {
    attributes(bytes).find(|attribute| attribute.kind == kind)
}

/// The `N` bytes at an offset; `None` if there are fewer.
pub fn field<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

/// Writes an attribute, padded.
pub fn written(kind: u16, value: &[u8]) -> Vec<u8> {
    let nla = DefaultNla::new(kind, value.to_vec());
    let mut bytes = vec![0; nla.buffer_len()];
    nla.emit(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_up_to_the_tear() {
        let bytes = [5, 0, 3, 0x80, 9, 0, 0, 0, 8, 0, 4, 0, 1, 0, 0, 0, 200, 0, 1, 0];
        let read: Vec<_> = attributes(&bytes).collect();
        let want = [Attribute { kind: 3, value: &[9] }, Attribute { kind: 4, value: &[1, 0, 0, 0] }];
        assert_eq!(read, want);
        assert_eq!(
            (read[0].u8(), read[0].u32(), read[1].u32()),
            (Some(9), None, Some(u32::from_ne_bytes([1, 0, 0, 0])))
        );
        assert_eq!(Attribute { kind: 1, value: b"eth0\0\0" }.text(), "eth0");
        assert_eq!(Attribute { kind: 1, value: &[10, 0, 0] }.ip(), None);
    }
}
