//! Where a bus is: D-Bus specification, "Server Addresses".

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use nix::sys::socket::UnixAddr;

/// A place where a bus may listen on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A socket in the file system.
    Path(PathBuf),
    /// A socket with a name that is in no file system.
    Abstract(Vec<u8>),
}

impl Endpoint {
    /// The places in a list of addresses that lie on this machine, in order.
    pub fn parse_list(list: &str) -> Vec<Self> {
        list.split(';').filter_map(Self::parse).collect()
    }

    fn parse(address: &str) -> Option<Self> {
        let parameters = address.strip_prefix("unix:")?;
        parameters.split(',').find_map(|parameter| match parameter.split_once('=')? {
            ("path", value) => unescape(value).map(|bytes| Self::Path(OsString::from_vec(bytes).into())),
            ("abstract", value) => unescape(value).map(Self::Abstract),
            _ => None,
        })
    }

    pub(super) fn socket_address(&self) -> nix::Result<UnixAddr> {
        match self {
            Self::Path(path) => UnixAddr::new(path.as_os_str().as_bytes()),
            Self::Abstract(name) => UnixAddr::new_abstract(name),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
        }
    }
}

/// Bytes are written as `%` and two hexadecimal digits unless they are harmless.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        rest = others;
        match (first, rest) {
            (b'%', [high, low, others @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                rest = others;
            }
            (b'%', _) => return None,
            (byte, _) => bytes.push(*byte),
        }
    }
    (!bytes.is_empty()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> Vec<String> {
        Endpoint::parse_list(list).iter().map(Endpoint::to_string).collect()
    }

    #[test]
    fn places_on_this_machine_are_read() {
        assert_eq!(parse("unix:path=/run/dbus/system_bus_socket"), ["/run/dbus/system_bus_socket"]);
        assert_eq!(parse("unix:guid=0a,path=/run/a%20b"), ["/run/a b"]);
        assert_eq!(parse("tcp:host=h,port=1;unix:abstract=/x%2fy,guid=1;unix:path=/z"), ["@/x/y", "/z"]);
    }

    #[test]
    fn what_is_no_such_place_is_left_out() {
        for list in ["", "unix:", "unix:path=", "unix:path=/a%2", "unix:path=/a%zz", "unix:dir=/tmp", "/run/dbus"] {
            assert_eq!(parse(list), [""; 0], "{list}");
        }
    }
}
