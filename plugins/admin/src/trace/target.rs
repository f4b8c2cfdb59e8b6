//! What a trace is asked to follow: the words of its command line.

use std::net::{IpAddr, SocketAddr};

use super::packet::{TCP, UDP};

/// What to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceTarget {
    /// Packets to a port of the host.
    Port { port: u16, protocol: u8 },
    /// Packets to and from a container.
    Container(String),
    /// Packets from a container to an address.
    From { container: String, to: IpAddr, port: Option<u16>, protocol: Option<u8> },
}

/// Reads `PORT[/udp]`, `CONTAINER` or `CONTAINER to ADDRESS[:PORT][/udp]`.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse(words: &[String]) -> Result<TraceTarget, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [word] => Ok(port(word)?.unwrap_or_else(|| TraceTarget::Container(word.to_owned()))),
        [container, "to", address] => from(container, address),
        _ => Err("write PORT, PORT/udp, CONTAINER, or CONTAINER to ADDRESS:PORT".to_owned()),
    }
}

/// A word that begins as a port does is one if it is a number; `None` for any other word.
fn port(word: &str) -> Result<Option<TraceTarget>, String> {
    let (number, protocol) = split(word)?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return if protocol.is_some() { Err(format!("{number:?} is not the number of a port")) } else { Ok(None) };
    }
    // The names of containers may be numbers, but a long one is not a port.
    match number.parse() {
        Ok(port) if port > 0 => Ok(Some(TraceTarget::Port { port, protocol: protocol.unwrap_or(TCP) })),
        Ok(_) | Err(_) if number.len() <= 5 => Err(format!("{number} is not a port: write 1 to 65535")),
        Ok(_) | Err(_) => Ok(None),
    }
}

fn from(container: &str, address: &str) -> Result<TraceTarget, String> {
    let (text, protocol) = split(address)?;
    let refused =
        || format!("{text:?} is not an address: write 192.0.2.1, 192.0.2.1:80, 2001:db8::1 or [2001:db8::1]:80");
    let plain = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let (to, port) = match plain.parse::<IpAddr>() {
        Ok(address) => (address, None),
        Err(_) => text.parse::<SocketAddr>().map(|end| (end.ip(), Some(end.port()))).map_err(|_| refused())?,
    };
    if port == Some(0) {
        return Err("0 is not a port: write 1 to 65535".to_owned());
    }
    if port.is_none() && protocol.is_some() {
        return Err(format!("{address} names a protocol and no port"));
    }
    let protocol = port.map(|_| protocol.unwrap_or(TCP));
    Ok(TraceTarget::From { container: container.to_owned(), to, port, protocol })
}

/// A word without the protocol at its end, and the protocol.
fn split(word: &str) -> Result<(&str, Option<u8>), String> {
    match word.rsplit_once('/') {
        None => Ok((word, None)),
        Some((rest, name)) if name.eq_ignore_ascii_case("tcp") => Ok((rest, Some(TCP))),
        Some((rest, name)) if name.eq_ignore_ascii_case("udp") => Ok((rest, Some(UDP))),
        Some((_, name)) => Err(format!("{name:?} is not a protocol that trace knows: write tcp or udp")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<TraceTarget, String> {
        parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn ports_containers_and_addresses_are_told_apart() {
        let from = |to: &str, port, protocol| {
            let to = to.parse().expect("an address");
            TraceTarget::From { container: "web".to_owned(), to, port, protocol }
        };
        for (line, want) in [
            ("8080", TraceTarget::Port { port: 8080, protocol: TCP }),
            ("53/UDP", TraceTarget::Port { port: 53, protocol: UDP }),
            ("web", TraceTarget::Container("web".to_owned())),
            ("1234567890", TraceTarget::Container("1234567890".to_owned())),
            ("web to 192.0.2.1", from("192.0.2.1", None, None)),
            ("web to 192.0.2.1:53/udp", from("192.0.2.1", Some(53), Some(UDP))),
            ("web to 2001:db8::1", from("2001:db8::1", None, None)),
            ("web to [2001:db8::1]:80", from("2001:db8::1", Some(80), Some(TCP))),
        ] {
            assert_eq!(read(line), Ok(want), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_refused_with_what_to_write() {
        for (line, says) in [
            ("0", "0 is not a port"),
            ("70000", "70000 is not a port"),
            ("53/sctp", "\"sctp\" is not a protocol that trace knows"),
            ("web/udp", "\"web\" is not the number of a port"),
            ("web to", "write PORT, PORT/udp"),
            ("web to nowhere", "\"nowhere\" is not an address"),
            ("web to 192.0.2.1:0", "0 is not a port"),
            ("web to 192.0.2.1/udp", "192.0.2.1/udp names a protocol and no port"),
            ("web from 192.0.2.1", "write PORT, PORT/udp"),
        ] {
            let error = read(line).expect_err(line);
            assert!(error.starts_with(says), "{line}: {error}");
        }
    }
}
