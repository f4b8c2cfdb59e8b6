//! The subnet lease of this host, which flanneld writes to a file: the addresses of its containers.

use std::net::IpAddr;
use std::path::Path;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::result::CniResult;
use cni_plugin::host::Host;

use crate::lease_file::{LeaseFile, LineError};

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
    /// It cannot be read.
    #[error("{problem}")]
    Unreadable { problem: String },
    /// A line is invalid.
    #[error("{path}, line {line}: {problem}")]
    Line { path: String, line: usize, problem: String },
    /// Keys are missing.
    #[error("{path} is missing {}", missing.join(", "))]
    Incomplete { path: String, missing: Vec<&'static str> },
}

impl Failure for LeaseError {
    fn code(&self) -> Code {
        match self.cause {
            LeaseCause::Absent { .. } | LeaseCause::Incomplete { .. } => Code::TryAgain,
            LeaseCause::Line { .. } => Code::InvalidConfig,
            LeaseCause::Unreadable { .. } => Code::Io,
        }
    }

    fn details(&self) -> String {
        match self.cause {
            LeaseCause::Absent { .. } => "flanneld has not written the lease of this host yet".to_owned(),
            LeaseCause::Incomplete { .. } | LeaseCause::Line { .. } | LeaseCause::Unreadable { .. } => String::new(),
        }
    }
}

impl SubnetLease {
    /// Reads the lease file.
    ///
    /// # Errors
    /// [`LeaseError`]
    pub fn load(path: &str, host: &mut dyn Host) -> Result<Self, LeaseError> {
        let text = host.files().administrators_file(Path::new(path)).map_err(|error| unreadable(&error))?;
        let text = text.ok_or_else(|| LeaseCause::Absent { path: path.to_owned() });
        text.and_then(|text| Self::parse(path, &text)).map_err(|cause| LeaseError { cause })
    }

    /// Parses the text of a lease file; the path is for errors.
    ///
    /// # Errors
    /// `LeaseCause`
    pub fn parse(path: &str, text: &str) -> Result<Self, LeaseCause> {
        let path = || path.to_owned();
        let lines = LeaseFile::parse(text).map_err(|LineError { line, problem }| LeaseCause::Line {
            path: path(),
            line,
            problem,
        })?;
        match (lines.missing(), lines.mtu, lines.ip_masq) {
            (missing, Some(mtu), Some(ip_masq)) if missing.is_empty() => Ok(Self {
                networks: lines.networks.concat(),
                subnets: lines.subnets.into_iter().flatten().collect(),
                mtu,
                ip_masq,
            }),
            (missing, _, _) => Err(LeaseCause::Incomplete { path: path(), missing }),
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

fn unreadable(error: &Error) -> LeaseError {
    LeaseError { cause: LeaseCause::Unreadable { problem: error.in_full() } }
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
}
