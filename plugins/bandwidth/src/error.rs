//! Errors of ADD, and differences that CHECK finds.

use cni_core::error::{Code, Failure};

use crate::config::ShapedDirection;

/// A request that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BandwidthError {
    /// The plugin stands first in its list.
    #[error("must be called as chained plugin")]
    NoPrevResult,
    /// The container has no such interface, or one that is no veth.
    #[error("container interface {ifname} has no veth peer: {reason}")]
    NoVeth { ifname: String, reason: String },
    /// The other end of the veth is not on the host.
    #[error("veth peer of container interface {ifname} is not in host ns")]
    NoPort { ifname: String },
    /// The result of the plugins before has no interfaces.
    #[error("no interfaces provided")]
    NoInterfaces,
    /// No earlier plugin has listed the host's link in the result, so its owner is unknown.
    #[error("no veth peer of container interface found in host ns")]
    UnknownPort { name: String },
    /// The bucket is smaller than a frame, which would never leave.
    #[error(
        "{direction}Burst of {} bits cannot pass a frame of {frame} bytes: {} bits are needed",
        u64::from(*burst) * 8,
        frame * 8
    )]
    SmallBurst { direction: ShapedDirection, burst: u32, frame: u64 },
    /// The kernel cannot count long enough for a frame.
    #[error("{direction}Rate of {} bits per second is too low for a frame of {frame} bytes", u128::from(*rate) * 8)]
    LowRate { direction: ShapedDirection, rate: u64, frame: u64 },
    /// Other links have the names of the ifb.
    #[error("adding link: file exists")]
    NoIfbName { names: [String; 2] },
}

impl Failure for BandwidthError {
    fn code(&self) -> Code {
        match self {
            Self::NoPrevResult | Self::NoInterfaces | Self::SmallBurst { .. } | Self::LowRate { .. } => {
                Code::InvalidConfig
            }
            Self::NoVeth { .. } | Self::NoPort { .. } | Self::UnknownPort { .. } => Code::UnsupportedField,
            Self::NoIfbName { .. } => Code::Conflict,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoPrevResult | Self::NoInterfaces => {
                "bandwidth limits the interface that a plugin before it in the list has made".to_owned()
            }
            Self::NoVeth { .. } | Self::NoPort { .. } => {
                "bandwidth works at the host's end of a veth, as bridge and ptp make one".to_owned()
            }
            Self::UnknownPort { name } => {
                format!("the other end is {name}, which prevResult does not have as an interface of the host")
            }
            Self::NoIfbName { names: [first, second] } => {
                format!("the links {first} and {second} of the host are somebody else's")
            }
            Self::SmallBurst { .. } | Self::LowRate { .. } => String::new(),
        }
    }
}

/// Differences that CHECK finds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// There is no token bucket.
    #[error("Failed to find qdisc: {link} sends without a limit")]
    NoShaper { link: String },
    /// Something else limits the link, such as what release 1.5 of the reference made.
    #[error("Failed to find qdisc: {link} sends by a qdisc of kind {kind}, and not by tbf")]
    OtherQdisc { link: String, kind: String },
    /// A number is another one.
    #[error("{what} doesn't match: {link} has {found}, and {wanted} was configured")]
    Number { what: &'static str, link: String, found: u64, wanted: u64 },
    /// The ifb on which packets of the container wait is missing.
    #[error("get ifb device: Link not found")]
    NoIfb { names: [String; 2] },
    /// The ifb exists, but packets are not redirected to it.
    #[error("what the container sends is not limited: nothing leads from {port} to {ifb}")]
    NoRedirect { port: String, ifb: String },
}

impl Failure for CheckError {
    fn code(&self) -> Code {
        match self {
            Self::NoShaper { .. }
            | Self::OtherQdisc { .. }
            | Self::Number { .. }
            | Self::NoIfb { .. }
            | Self::NoRedirect { .. } => Code::CheckFailed,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoIfb { names: [first, second] } => format!("the host has neither {first} nor {second}"),
            Self::NoShaper { .. } | Self::OtherQdisc { .. } | Self::Number { .. } | Self::NoRedirect { .. } => {
                String::new()
            }
        }
    }
}
