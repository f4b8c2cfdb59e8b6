//! A packet as the trace shows it: addresses, ports, and what kind of message it is.

use std::fmt;
use std::net::IpAddr;

use cni_kernel::netlink::attribute::field;
use cni_kernel::nftables::trace::event::Headers;

/// `IPPROTO_*`.
const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
const ICMP_V6: u8 = 58;

/// A bit of the flags in a TCP header.
const RST: u8 = 4;

/// A packet at one point of its way: translation changes its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedPacket {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// `IPPROTO_*`.
    pub protocol: u8,
    /// Source and destination, where the protocol has ports.
    pub ports: Option<[u16; 2]>,
    /// The flags of TCP.
    flags: u8,
}

impl TracedPacket {
    /// Reads the beginning of a packet; `None` for one that is not IP.
    pub fn read(headers: &Headers) -> Option<Self> {
        let Headers { network, transport, .. } = headers;
        let [first] = field(network, 0)?;
        let (source, destination, protocol) = match first >> 4 {
            4 => {
                let [protocol] = field(network, 9)?;
                (field::<4>(network, 12)?.into(), field::<4>(network, 16)?.into(), protocol)
            }
            6 => {
                let [protocol] = field(network, 6)?;
                (field::<16>(network, 8)?.into(), field::<16>(network, 24)?.into(), protocol)
            }
            _ => return None,
        };
        let number = |offset| field(transport, offset).map(u16::from_be_bytes);
        let has_ports = [TCP, UDP, 132].contains(&protocol);
        let ports = if has_ports { number(0).zip(number(2)).map(|(source, to)| [source, to]) } else { None };
        let [flags] = field(transport, 13).filter(|_| protocol == TCP).unwrap_or_default();
        Some(Self { source, destination, protocol, ports, flags })
    }

    /// Whether it refuses a connection.
    pub const fn is_refusal(&self) -> bool {
        self.flags & RST != 0
    }

    /// Where it goes, with the port if it has one.
    pub fn to(&self) -> String {
        end(self.destination, self.ports.map(|[_, port]| port))
    }

    /// Where it comes from, with the port if it has one.
    pub fn from(&self) -> String {
        end(self.source, self.ports.map(|[port, _]| port))
    }

    #[cfg(test)]
    pub fn tcp(source: &str, destination: &str, ports: [u16; 2], flags: u8) -> Self {
        let [source, destination] = [source, destination].map(|text| text.parse().expect("an address"));
        Self { source, destination, protocol: TCP, ports: Some(ports), flags }
    }
}

/// An address, with a port behind it.
pub fn end(address: IpAddr, port: Option<u16>) -> String {
    match (address, port) {
        (address, None) => address.to_string(),
        (IpAddr::V4(address), Some(port)) => format!("{address}:{port}"),
        (IpAddr::V6(address), Some(port)) => format!("[{address}]:{port}"),
    }
}

/// The name of a transport protocol.
pub fn protocol_name(protocol: u8) -> String {
    match protocol {
        ICMP => "icmp".to_owned(),
        TCP => "tcp".to_owned(),
        UDP => "udp".to_owned(),
        ICMP_V6 => "icmpv6".to_owned(),
        132 => "sctp".to_owned(),
        other => format!("protocol {other}"),
    }
}

impl fmt::Display for TracedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} -> {}", protocol_name(self.protocol), self.from(), self.to())?;
        if self.is_refusal() {
            f.write_str(" (refusal)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(network: Vec<u8>, transport: Vec<u8>) -> Headers {
        Headers { network, transport, input: None, output: None }
    }

    fn v4() -> Vec<u8> {
        let mut bytes = vec![0; 20];
        bytes[0] = 0x45;
        bytes[9] = TCP;
        bytes[12..16].copy_from_slice(&[192, 0, 2, 1]);
        bytes[16..20].copy_from_slice(&[10, 0, 0, 2]);
        bytes
    }

    #[test]
    fn ipv6_and_packets_without_ports_are_read() {
        let mut bytes = vec![0; 40];
        bytes[0] = 0x60;
        bytes[6] = ICMP_V6;
        bytes[23] = 1;
        bytes[39] = 2;
        let packet = TracedPacket::read(&headers(bytes.clone(), vec![128, 0, 0, 0])).expect("a packet");
        assert_eq!(packet.to_string(), "icmpv6 ::1 -> ::2");
        bytes[6] = UDP;
        let packet = TracedPacket::read(&headers(bytes, vec![0, 53, 0, 54])).expect("a packet");
        assert_eq!(packet.to_string(), "udp [::1]:53 -> [::2]:54");
        let mut reset = vec![0; 20];
        reset[13] = RST;
        let refusal = TracedPacket::read(&headers(v4(), reset)).expect("a packet");
        assert_eq!(refusal.to_string(), "tcp 192.0.2.1:0 -> 10.0.0.2:0 (refusal)");
    }

    #[test]
    fn what_is_cut_off_is_no_packet() {
        for length in 0..20 {
            assert_eq!(TracedPacket::read(&headers(v4()[..length].to_vec(), Vec::new())), None, "{length}");
        }
        let cut = TracedPacket::read(&headers(v4(), vec![0, 1])).expect("a packet");
        assert_eq!(cut.ports, None);
        assert_eq!(TracedPacket::read(&headers(vec![0x10; 40], Vec::new())), None);
    }
}
