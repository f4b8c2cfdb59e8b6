//! Link-layer addresses.

/// A link-layer address of Ethernet.
pub type Hardware = [u8; 6];
