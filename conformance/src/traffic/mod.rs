//! Traffic between namespaces.
//!
//! [`Echo`] servers answer with the peer's address as they see it, [`ask`] asks them, and [`ping`] sends echo requests.
//! [`crowd`] opens many connections, which the kernel must search to find one.

mod client;
mod crowd;
mod echo;
mod ping;

use std::fmt;

pub use client::{ask, ask_by, ask_within};
pub use crowd::crowd;
pub use echo::Echo;
pub use ping::{ping, ping_until_answered};

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP
    Tcp,
    /// UDP
    Udp,
}

impl Transport {
    /// Both of them, for tests that must hold for each.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}
