//! The subnet lease of this host, which flanneld writes to a file: the addresses of its containers.

use std::net::IpAddr;
use std::path::Path;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_core::result::CniResult;
use cni_plugin::host::Host;

/// The subnet lease of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubnetLease {
    /// The networks of all hosts, IPv4 first.
    pub networks: Vec<Cidr>,
    /// The subnets of this host's containers, each with the address of the gateway, IPv4 first.
    pub subnets: Vec<Cidr>,
    /// The MTU of the containers' interfaces.
    pub mtu: u32,
    /// Whether flanneld itself masquerades.
    pub ip_masq: bool,
}

/// The lease cannot be used. The message is the reference's, which users search for.
#[derive(Debug, thiserror::Error)]
#[error("failed to load flannel 'subnet.env' file: {cause}. Check the flannel pod log for this node.")]
pub struct LeaseError {
    /// The cause.
    #[source]
    pub cause: LeaseCause,
}

/// Why a lease file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LeaseCause {
    /// flanneld has not written it yet.
    #[error("open {path}: no such file or directory")]
    Absent { path: String },
    /// It cannot be read, a line is invalid, or keys are missing.
    #[error("{problem}")]
    Unusable { code: Code, problem: String },
}

impl Failure for LeaseError {
    fn code(&self) -> Code {
        match self.cause {
            LeaseCause::Absent { .. } => Code::TryAgain,
            LeaseCause::Unusable { code, .. } => code,
        }
    }

    fn details(&self) -> String {
        match self.cause {
            LeaseCause::Absent { .. } => "flanneld has not written the lease of this host yet".to_owned(),
            LeaseCause::Unusable { .. } => String::new(),
        }
    }
}

impl SubnetLease {
    /// Reads the lease file.
    ///
    /// # Errors
    /// [`LeaseError`]
    pub fn load(path: &str, host: &mut dyn Host) -> Result<Self, LeaseError> {
        let text = host.files().administrators_file(Path::new(path));
        let text = text.map_err(|error| LeaseCause::Unusable { code: Code::Io, problem: error.in_full() });
        let text = text.and_then(|text| text.ok_or_else(|| LeaseCause::Absent { path: path.to_owned() }));
        text.and_then(|text| Self::parse(path, &text)).map_err(|cause| LeaseError { cause })
    }

    /// Parses the text of a lease file; the path is for errors.
    ///
    /// # Errors
    /// `LeaseCause`
    pub fn parse(path: &str, text: &str) -> Result<Self, LeaseCause> {
        let unusable = |code, problem| LeaseCause::Unusable { code, problem };
        let lines = LeaseFile::parse(text)
            .map_err(|(line, problem)| unusable(Code::InvalidConfig, format!("{path}, line {line}: {problem}")))?;
        match (lines.missing(), lines.mtu, lines.ip_masq) {
            (missing, Some(mtu), Some(ip_masq)) if missing.is_empty() => Ok(Self {
                networks: lines.networks.concat(),
                subnets: lines.subnets.into_iter().flatten().collect(),
                mtu,
                ip_masq,
            }),
            (missing, _, _) => Err(unusable(Code::TryAgain, format!("{path} is missing {}", missing.join(", ")))),
        }
    }

    /// A lease with the subnets of the addresses in a result.
    pub fn of_result(result: &CniResult) -> Self {
        let mut lease = Self::default();
        for network in result.ips.iter().map(|ip| ip.address.network()) {
            if !lease.subnets.contains(&network) {
                lease.subnets.push(network);
            }
        }
        lease
    }

    /// Whether the lease contains an address.
    pub fn has(&self, address: IpAddr) -> bool {
        self.subnets.iter().any(|subnet| subnet.contains(address))
    }
}

/// The keys of a lease file. flanneld writes it in the syntax of the shell, and administrators write it by hand: blanks at the end and
/// one pair of quotes are not part of a value.
#[derive(Debug, Default)]
struct LeaseFile {
    /// `FLANNEL_NETWORK`, then `FLANNEL_IPV6_NETWORK`.
    networks: [Vec<Cidr>; 2],
    /// `FLANNEL_SUBNET`, then `FLANNEL_IPV6_SUBNET`: the network with the address of the gateway.
    subnets: [Option<Cidr>; 2],
    /// `FLANNEL_MTU`
    mtu: Option<u32>,
    /// `FLANNEL_IPMASQ`
    ip_masq: Option<bool>,
}

impl LeaseFile {
    /// Parses all lines; the last of repeated keys counts. Unknown keys, and lines that begin with a blank, are ignored.
    ///
    /// # Errors
    /// The number of the first line with an invalid value, and what is wrong with it.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = Self::default();
        for (index, line) in text.lines().enumerate() {
            lines.read(line).map_err(|problem| (index + 1, problem))?;
        }
        Ok(lines)
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key, Ok(unquoted(value))),
            None => (line.trim_end(), Err(format!("{} has no value", line.trim_end()))),
        };
        match key {
            "FLANNEL_NETWORK" => self.networks[0] = networks(value?)?,
            "FLANNEL_IPV6_NETWORK" => self.networks[1] = networks(value?)?,
            "FLANNEL_SUBNET" => self.subnets[0] = Some(cidr(value?)?),
            "FLANNEL_IPV6_SUBNET" => self.subnets[1] = Some(cidr(value?)?),
            "FLANNEL_MTU" => self.mtu = Some(mtu(value?)?),
            // As in the reference, every value but `true` is false.
            "FLANNEL_IPMASQ" => self.ip_masq = Some(value? == "true"),
            _ => {}
        }
        Ok(())
    }

    /// The required keys that are missing; of a pair for two families, one is enough.
    fn missing(&self) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if self.networks.iter().all(Vec::is_empty) {
            missing.extend(["FLANNEL_NETWORK", "FLANNEL_IPV6_NETWORK"]);
        }
        if self.subnets.iter().all(Option::is_none) {
            missing.extend(["FLANNEL_SUBNET", "FLANNEL_IPV6_SUBNET"]);
        }
        missing.extend(Some("FLANNEL_MTU").filter(|_| self.mtu.is_none()));
        missing.extend(Some("FLANNEL_IPMASQ").filter(|_| self.ip_masq.is_none()));
        missing
    }
}

fn unquoted(value: &str) -> &str {
    let value = value.trim_end();
    let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
    quoted.unwrap_or(value)
}

/// Networks separated by commas, without repetitions.
fn networks(value: &str) -> Result<Vec<Cidr>, String> {
    let mut networks: Vec<Cidr> = Vec::new();
    for text in value.split(',') {
        let network = cidr(text)?.network();
        if !networks.contains(&network) {
            networks.push(network);
        }
    }
    Ok(networks)
}

fn cidr(text: &str) -> Result<Cidr, String> {
    text.parse().map_err(|_| format!("invalid CIDR address: {text}"))
}

fn mtu(text: &str) -> Result<u32, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| format!("invalid MTU {text:?} (must be between 0 and {})", u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(cidrs: &[Cidr]) -> Vec<String> {
        cidrs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_lease_of_both_families_is_read() {
        let text = "FLANNEL_IPV6_NETWORK=fd00:42::/56\nFLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_IPV6_SUBNET=fd00:42:0:1::1/64\n\
             FLANNEL_SUBNET=10.42.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n";
        let lease = SubnetLease::parse("/l", text).expect("read");
        assert_eq!(texts(&lease.networks), ["10.42.0.0/16", "fd00:42::/56"]);
        assert_eq!(texts(&lease.subnets), ["10.42.1.1/24", "fd00:42:0:1::1/64"]);
        assert_eq!((lease.mtu, lease.ip_masq), (1450, true));
        assert!(lease.has("10.42.1.7".parse().expect("an address")));
        assert!(!lease.has("10.42.2.7".parse().expect("an address")));
    }

    #[test]
    fn the_last_line_of_a_key_counts_and_unknown_lines_are_ignored() {
        let text = "# a comment\n\nFLANNEL_MTU=1\n FLANNEL_MTU=2\nOTHER=x\nword\nFLANNEL_MTU=3\nFLANNEL_IPMASQ=TRUE\n";
        let lines = LeaseFile::parse(text).expect("read");
        assert_eq!((lines.mtu, lines.ip_masq), (Some(3), Some(false)));
    }

    #[test]
    fn line_ends_of_windows_blanks_and_quotes_are_accepted() {
        for mtu in ["FLANNEL_MTU=1450\r\n", "FLANNEL_MTU=1450 \t", "FLANNEL_MTU=\"1450\"", "FLANNEL_MTU='1450' \r\n"] {
            assert_eq!(LeaseFile::parse(mtu).expect("read").mtu, Some(1450), "{mtu:?}");
        }
        assert_eq!(LeaseFile::parse("FLANNEL_IPMASQ=\"true\"").expect("read").ip_masq, Some(true));
        assert_eq!(LeaseFile::parse("FLANNEL_IPMASQ=\"true").expect("read").ip_masq, Some(false));
    }

    #[test]
    fn networks_are_listed_once_without_host_bits() {
        let lines = LeaseFile::parse("FLANNEL_NETWORK=10.42.0.1/16,10.43.0.0/16,10.42.0.0/16").expect("read");
        assert_eq!(
            lines.networks[0].iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.42.0.0/16", "10.43.0.0/16"]
        );
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named_with_its_line() {
        for (text, line, problem) in [
            ("\nFLANNEL_MTU", 2, "FLANNEL_MTU has no value"),
            ("FLANNEL_NETWORK\r\n", 1, "FLANNEL_NETWORK has no value"),
            ("FLANNEL_MTU=-1", 1, "invalid MTU \"-1\" (must be between 0 and 4294967295)"),
            ("FLANNEL_MTU=+1", 1, "invalid MTU \"+1\" (must be between 0 and 4294967295)"),
            ("FLANNEL_MTU=4294967296", 1, "invalid MTU \"4294967296\" (must be between 0 and 4294967295)"),
            ("FLANNEL_MTU=", 1, "invalid MTU \"\" (must be between 0 and 4294967295)"),
            ("FLANNEL_NETWORK=10.42.0.0/16,", 1, "invalid CIDR address: "),
            ("FLANNEL_SUBNET=\"10.42.1.1\"", 1, "invalid CIDR address: 10.42.1.1"),
            ("FLANNEL_IPV6_SUBNET=\"fd00::1/64", 1, "invalid CIDR address: \"fd00::1/64"),
        ] {
            assert_eq!(LeaseFile::parse(text).expect_err("refused"), (line, problem.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn what_is_missing_is_listed() {
        let both =
            "FLANNEL_NETWORK, FLANNEL_IPV6_NETWORK, FLANNEL_SUBNET, FLANNEL_IPV6_SUBNET, FLANNEL_MTU, FLANNEL_IPMASQ";
        assert_eq!(LeaseFile::default().missing().join(", "), both);
        let text = "FLANNEL_IPV6_NETWORK=fd00::/56\nFLANNEL_IPV6_SUBNET=fd00::1/64\nFLANNEL_MTU=0\nFLANNEL_IPMASQ=";
        assert_eq!(LeaseFile::parse(text).expect("read").missing(), Vec::<&str>::new());
    }
}
