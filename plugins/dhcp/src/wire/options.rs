//! Options of a message (RFC 2132): each has a code, a length and data.

use std::collections::BTreeMap;

/// The codes that are used here, by the names of RFC 2132 and RFC 3442.
pub mod code {
    pub const PAD: u8 = 0;
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTER: u8 = 3;
    pub const DOMAIN_NAME_SERVER: u8 = 6;
    pub const HOST_NAME: u8 = 12;
    pub const DOMAIN_NAME: u8 = 15;
    pub const INTERFACE_MTU: u8 = 26;
    pub const STATIC_ROUTE: u8 = 33;
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const MESSAGE_TYPE: u8 = 53;
    pub const SERVER_IDENTIFIER: u8 = 54;
    pub const PARAMETER_REQUEST_LIST: u8 = 55;
    pub const MAXIMUM_MESSAGE_SIZE: u8 = 57;
    pub const RENEWAL_TIME: u8 = 58;
    pub const REBINDING_TIME: u8 = 59;
    pub const VENDOR_CLASS: u8 = 60;
    pub const CLIENT_IDENTIFIER: u8 = 61;
    pub const USER_CLASS: u8 = 77;
    pub const DOMAIN_SEARCH: u8 = 119;
    pub const CLASSLESS_ROUTE: u8 = 121;
    pub const END: u8 = 255;
}

/// The longest value that one option holds.
const LONGEST: usize = 255;

/// Options by their codes. The parts of an option that occurs several times are joined (RFC 3396).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DhcpOptions(BTreeMap<u8, Vec<u8>>);

impl DhcpOptions {
    /// Sets an option, in place of an earlier one.
    pub fn set(&mut self, code: u8, value: &[u8]) {
        self.0.insert(code, value.to_vec());
    }

    /// The value of an option.
    pub fn get(&self, code: u8) -> Option<&[u8]> {
        self.0.get(&code).map(Vec::as_slice)
    }

    /// A value of so many bytes, or the first so many of a longer one.
    pub fn array<const N: usize>(&self, code: u8) -> Option<[u8; N]> {
        self.get(code)?.first_chunk().copied()
    }

    /// Adds the options in a field of a message; returns whether the field was complete.
    pub(super) fn read(&mut self, mut field: &[u8]) -> bool {
        loop {
            match *field {
                [code::PAD, ref rest @ ..] => field = rest,
                [code::END, ..] => return true,
                [code, length, ref rest @ ..] => {
                    let Some((value, rest)) = rest.split_at_checked(length.into()) else { return false };
                    self.0.entry(code).or_default().extend(value);
                    field = rest;
                }
                [_] | [] => return false,
            }
        }
    }

    /// The bytes of all options, in the order of their codes, with their end.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, value) in &self.0 {
            let parts = if value.is_empty() { vec![&[][..]] } else { value.chunks(LONGEST).collect() };
            for part in parts {
                bytes.extend([*code, u8::try_from(part.len()).unwrap_or(u8::MAX)]);
                bytes.extend(part);
            }
        }
        bytes.push(code::END);
        bytes
    }
}
