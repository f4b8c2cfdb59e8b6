//! Transport protocols with ports.

use std::fmt;

/// A transport protocol with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proto {
    Tcp,
    Udp,
    Sctp,
    Dccp,
}

impl Proto {
    /// Every protocol.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Udp, Self::Sctp, Self::Dccp];

    /// Reads a protocol's name in any case; `None` for one that the port matches do not know.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proto| proto.as_str().eq_ignore_ascii_case(name))
    }

    /// The name of the protocol, which is also that of its match extension.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Dccp => "dccp",
        }
    }
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
