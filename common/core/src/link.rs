//! What the kernel says of links, addresses and routes: facts for plans, never commands.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::cidr::Cidr;

/// Text that is no link-layer address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address {text}: invalid MAC address")]
pub struct MacError {
    text: String,
}

/// A link-layer address of 6, 8 or 20 bytes, printed in lower case with colons.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mac(Vec<u8>);

impl Mac {
    /// Wraps the bytes that the kernel reports; `None` for none or all zero, which means "no address".
    pub fn from_kernel(bytes: &[u8]) -> Option<Self> {
        if bytes.iter().all(|byte| *byte == 0) { None } else { Some(Self(bytes.to_vec())) }
    }

    /// A locally administered unicast address from six random bytes.
    pub fn local(mut random: [u8; 6]) -> Self {
        random[0] = (random[0] & 0xfe) | 0x02;
        Self(random.to_vec())
    }

    /// The bytes, most significant first.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for Mac {
    type Err = MacError;

    /// Accepts `aa:bb:…`, `aa-bb-…` and `aabb.ccdd.…` in any case, as Go's `net.ParseMAC` documents.
    fn from_str(text: &str) -> Result<Self, MacError> {
        let refused = || MacError { text: text.to_owned() };
        let (separator, group) = match text.chars().find(|c| matches!(c, ':' | '-' | '.')) {
            Some('.') => ('.', 4),
            Some(separator) => (separator, 2),
            None => return Err(refused()),
        };
        let mut bytes = Vec::new();
        for part in text.split(separator) {
            if part.len() != group || !part.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(refused());
            }
            for start in (0..group).step_by(2) {
                bytes.push(u8::from_str_radix(&part[start..start + 2], 16).map_err(|_| refused())?);
            }
        }
        if matches!(bytes.len(), 6 | 8 | 20) { Ok(Self(bytes)) } else { Err(refused()) }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ":" };
            write!(f, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The operational state of a link, RFC 2863 as in `linux/if.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperState {
    /// The driver does not say.
    #[default]
    Unknown,
    /// Components are missing.
    NotPresent,
    /// Down.
    Down,
    /// The link below is down.
    LowerLayerDown,
    /// In a test mode.
    Testing,
    /// Waiting for an external event.
    Dormant,
    /// Ready to pass packets.
    Up,
}

impl fmt::Display for OperState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::NotPresent => "not-present",
            Self::Down => "down",
            Self::LowerLayerDown => "lower-layer-down",
            Self::Testing => "testing",
            Self::Dormant => "dormant",
            Self::Up => "up",
        })
    }
}

/// A link as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// `IFLA_INFO_KIND`, such as `bridge` or `veth`; none for hardware and `lo`.
    pub kind: Option<String>,
    /// Link-layer address, if any that is not all zero.
    pub mac: Option<Mac>,
    /// MTU in bytes.
    pub mtu: u32,
    /// `IFF_UP`.
    pub up: bool,
    /// Operational state.
    pub oper_state: OperState,
    /// Index of the bridge (or bond) that the link is a port of.
    pub master: Option<u32>,
    /// `IFLA_LINK`: for a veth the index of its peer, in the peer's namespace.
    pub peer: Option<u32>,
    /// How many users have asked for promiscuous mode.
    pub promiscuity: u32,
    /// `IFLA_IFALIAS`.
    pub alias: Option<String>,
    /// For a bridge: whether VLAN filtering is on.
    pub vlan_filtering: Option<bool>,
}

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Address and prefix length.
    pub cidr: Cidr,
    /// `IFA_F_TENTATIVE`: duplicate address detection has not ended.
    pub tentative: bool,
    /// `IFA_F_DADFAILED`: another host has the address.
    pub dad_failed: bool,
}

/// A route as the kernel holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRoute {
    /// Destination; the default route is `0.0.0.0/0` or `::/0`.
    pub dst: Cidr,
    /// Next hops; more than one for a multipath route.
    pub gateways: Vec<IpAddr>,
    /// Index of the output link, if there is just one.
    pub link: Option<u32>,
    /// Routing table.
    pub table: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_are_read_in_every_spelling_and_printed_in_one() {
        for text in ["AA:bb:cc:00:11:22", "aa-bb-cc-00-11-22", "aabb.cc00.1122"] {
            assert_eq!(text.parse::<Mac>().map(|mac| mac.to_string()), Ok("aa:bb:cc:00:11:22".to_owned()));
        }
    }

    #[test]
    fn a_text_that_is_no_mac_is_named() {
        for text in
            ["", "zz", "aa:bb", "aa:bb:cc:00:11:2", "aa:bb:cc:00:11:zz", "aa:bb-cc:00:11:22", "aa:bb:cc:00:11:é"]
        {
            let error = text.parse::<Mac>().expect_err("refused");
            assert_eq!(error.to_string(), format!("address {text}: invalid MAC address"));
        }
    }

    #[test]
    fn a_local_mac_is_unicast() {
        assert_eq!(Mac::local([0xff; 6]).to_string(), "fe:ff:ff:ff:ff:ff");
    }
}
