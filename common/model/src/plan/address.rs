//! Duplicate address detection of a new address.

/// Whether the kernel first checks that no other machine uses an IPv6 address: RFC 4862 section 5.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dad {
    /// The address may be used at once; IPAM guarantees that it is unique.
    Skip,
    /// The address is tentative for about a second.
    Perform,
}
