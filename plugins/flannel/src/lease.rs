//! The lease: which addresses the containers of this host have, as flanneld has written it to a file.

use std::net::IpAddr;
use std::path::Path;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::result::CniResult;
use cni_plugin::host::Host;

use crate::lines::{LineProblem, Lines};

/// A lease of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// The networks of all hosts, IPv4 first.
    pub networks: Vec<Cidr>,
    /// The addresses of this host's containers, each with the address of their gateway, IPv4 first.
    pub subnets: Vec<Cidr>,
    /// The MTU of the containers' interfaces.
    pub mtu: u32,
    /// Whether flanneld itself masquerades.
    pub ip_masq: bool,
}

/// Why there is no lease. The message is the reference's, by which people look for it.
#[derive(Debug, thiserror::Error)]
#[error("failed to load flannel 'subnet.env' file: {cause}. Check the flannel pod log for this node.")]
pub struct LeaseError {
    /// What is wrong.
    #[source]
    pub cause: LeaseCause,
}

/// What is wrong with a lease file.
#[derive(Debug, thiserror::Error)]
pub enum LeaseCause {
    /// flanneld has not written it yet.
    #[error("open {path}: no such file or directory")]
    Absent { path: String },
    /// It is there and cannot be read.
    #[error("{problem}")]
    Unreadable { problem: String },
    /// A line cannot be used.
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

impl Lease {
    /// Reads the lease file.
    ///
    /// # Errors
    /// [`LeaseError`]
    pub fn load(path: &str, host: &mut dyn Host) -> Result<Self, LeaseError> {
        let text = host.files().administrators_file(Path::new(path)).map_err(|error| unreadable(&error))?;
        let text = text.ok_or_else(|| LeaseCause::Absent { path: path.to_owned() });
        text.and_then(|text| Self::parse(path, &text)).map_err(|cause| LeaseError { cause })
    }

    /// Reads the text of the file at a path.
    ///
    /// # Errors
    /// `LeaseCause`
    pub fn parse(path: &str, text: &str) -> Result<Self, LeaseCause> {
        let path = || path.to_owned();
        let lines = Lines::parse(text).map_err(|LineProblem { line, problem }| LeaseCause::Line {
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

    /// What is known of a lease from the addresses that it has given.
    pub fn of_result(result: &CniResult) -> Self {
        let mut lease = Self::default();
        for network in result.ips.iter().map(|ip| ip.address.network()) {
            if !lease.subnets.contains(&network) {
                lease.subnets.push(network);
            }
        }
        lease
    }

    /// Whether a container of this host can have an address.
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
    use cni_testkit::{FakeHost, told};

    fn load(text: Option<&str>) -> Result<Lease, (u32, String, String)> {
        let mut host = FakeHost::new();
        if let Some(text) = text {
            host.administrators_files.insert("/l".into(), text.to_owned());
        }
        Lease::load("/l", &mut host).map_err(told)
    }

    fn texts(cidrs: &[Cidr]) -> Vec<String> {
        cidrs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_lease_of_both_families_is_read() {
        let lease = load(Some(
            "FLANNEL_IPV6_NETWORK=fd00:42::/56\nFLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_IPV6_SUBNET=fd00:42:0:1::1/64\n\
             FLANNEL_SUBNET=10.42.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
        ))
        .expect("read");
        assert_eq!(texts(&lease.networks), ["10.42.0.0/16", "fd00:42::/56"]);
        assert_eq!(texts(&lease.subnets), ["10.42.1.1/24", "fd00:42:0:1::1/64"]);
        assert_eq!((lease.mtu, lease.ip_masq), (1450, true));
        assert!(lease.has("10.42.1.7".parse().expect("an address")));
        assert!(!lease.has("10.42.2.7".parse().expect("an address")));
    }

    #[test]
    fn a_lease_that_is_missing_may_come_later_and_a_wrong_one_names_its_line() {
        let text = |cause: &str| {
            format!("failed to load flannel 'subnet.env' file: {cause}. Check the flannel pod log for this node.")
        };
        for (file, code, cause) in [
            (None, 11, "open /l: no such file or directory"),
            (
                Some("FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.1.1/24\n"),
                11,
                "/l is missing FLANNEL_MTU, FLANNEL_IPMASQ",
            ),
            (Some("\nFLANNEL_MTU"), 7, "/l, line 2: FLANNEL_MTU has no value"),
        ] {
            let (found, message, _) = load(file).expect_err("no lease");
            assert_eq!((found, message), (code, text(cause)));
        }
    }
}
