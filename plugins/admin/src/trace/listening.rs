//! Whether a program listens on a port, by `/proc/net/tcp` and its like (proc(5)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::packet::UDP;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// A program listens, also for others than the machine itself.
    Yes,
    /// It listens on the loopback address alone.
    OnLoopback,
    /// It listens on another address.
    Elsewhere(IpAddr),
    No,
}

/// `TCP_LISTEN`, and the state of an open socket of UDP, which is `TCP_CLOSE`.
const LISTEN: &str = "0A";
const OPEN: &str = "07";

/// The files that list the sockets of a protocol.
pub const fn files(protocol: u8) -> [&'static str; 2] {
    match protocol {
        UDP => ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"],
        _ => ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"],
    }
}

/// Judges the lines of those files. `address` is where packets go.
pub fn judge(lines: &str, protocol: u8, address: IpAddr, port: u16) -> Listening {
    let state = if protocol == UDP { OPEN } else { LISTEN };
    let mut found = Listening::No;
    for (local, number) in lines.lines().filter_map(|line| socket(line, state)) {
        if number != port {
            continue;
        }
        let reaches = local == address || local.is_unspecified() && (local.is_ipv6() || address.is_ipv4());
        if reaches {
            return Listening::Yes;
        }
        found = if local.is_loopback() { Listening::OnLoopback } else { Listening::Elsewhere(local) };
    }
    found
}

/// The local end of a socket in a state.
fn socket(line: &str, state: &str) -> Option<(IpAddr, u16)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, _, is) = (fields.next()?, fields.next()?, fields.next()?);
    if is != state {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    Some((parse(address)?, u16::from_str_radix(port, 16).ok()?))
}

/// Words of 32 bits in the byte order of the host.
fn parse(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (n, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(n * 8)?);
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::packet::TCP;

    /// A line as the kernel writes it on this machine.
    fn line(address: IpAddr, port: u16, state: &str) -> String {
        let words = |bytes: &[u8]| -> String {
            let word = |part: &[u8]| u32::from_ne_bytes(part.try_into().expect("four bytes"));
            bytes.chunks(4).map(|part| format!("{:08X}", word(part))).collect()
        };
        let text = match address {
            IpAddr::V4(address) => words(&address.octets()),
            IpAddr::V6(address) => words(&address.octets()),
        };
        format!("   0: {text}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0\n")
    }

    #[test]
    fn a_listener_is_judged_by_its_address() {
        let address: IpAddr = "10.0.0.2".parse().expect("an address");
        let judged = |local: &str, state: &str| {
            let lines = format!("  sl  local_address\n{}", line(local.parse().expect("an address"), 80, state));
            judge(&lines, TCP, address, 80)
        };
        assert_eq!(judged("0.0.0.0", LISTEN), Listening::Yes);
        assert_eq!(judged("10.0.0.2", LISTEN), Listening::Yes);
        assert_eq!(judged("::", LISTEN), Listening::Yes);
        assert_eq!(judged("127.0.0.1", LISTEN), Listening::OnLoopback);
        assert_eq!(judged("::1", LISTEN), Listening::OnLoopback);
        assert_eq!(judged("10.0.0.3", LISTEN), Listening::Elsewhere("10.0.0.3".parse().expect("an address")));
        assert_eq!(judged("0.0.0.0", "01"), Listening::No);
        assert_eq!(judge("", TCP, address, 80), Listening::No);
        let udp = line("0.0.0.0".parse().expect("an address"), 80, OPEN);
        assert_eq!(judge(&udp, UDP, address, 80), Listening::Yes);
        assert_eq!(judge(&udp, UDP, address, 81), Listening::No);
    }

    #[test]
    fn lines_of_another_form_are_left_out() {
        for text in ["", "0:", "0: 00:1 2 0A", "0: 000000é0:0050 0 0A", "0: 00000000:zz 0 0A"] {
            assert_eq!(judge(text, TCP, "10.0.0.2".parse().expect("an address"), 80), Listening::No, "{text}");
        }
    }
}
