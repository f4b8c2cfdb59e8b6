//! How an address comes into use.

/// Whether the kernel looks for another user of an IPv6 address first: RFC 4862 section 5.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dad {
    /// The address may be used at once; IPAM guarantees that it is unique.
    Skip,
    /// The address is tentative for about a second.
    Perform,
}
