//! Traffic between namespaces.
//!
//! [`Echo`] servers answer with the peer's address as they see it, [`ask`] asks them, [`ping`] sends echo requests,
//! and a [`Capture`] shows which addresses packets carry on a link. [`crowd`] opens many connections, which the kernel
//! must search to find one.

mod capture;
mod client;
mod crowd;
mod echo;
mod ping;
mod sctp;

use std::fmt;

pub use capture::{Capture, Packet};
pub use client::{ask, ask_within};
pub use crowd::{crowd, tracked};
pub use echo::Echo;
pub use ping::{ping, ping_until_answered};
pub use sctp::{SCTP, send_sctp};

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
