//! Errors of the plugin.

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_model::plan::TapOptions;

/// Errors of ADD and CHECK.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// There was no plugin before.
    #[error("no previous result was found, was this plugin chained with a previous one?")]
    NoPrevResult,
    /// The container has no interface to redirect.
    #[error("failed to find redirect interface {ifname:?}: did not find expected network device with name {ifname:?}")]
    NoInterface { ifname: String },
    /// Another device has its frames already.
    #[error("failed to redirect interface {ifname:?}: its frames go to {to:?} already")]
    Redirected { ifname: String, to: String },
    /// An address of the earlier plugins is of an interface that their result does not have.
    #[error("prevResult has no interface {index} of address {address}")]
    NoIndex { address: Cidr, index: i64 },
}

impl Failure for RedirectError {
    fn code(&self) -> Code {
        match self {
            Self::NoPrevResult | Self::NoInterface { .. } | Self::NoIndex { .. } => Code::InvalidConfig,
            Self::Redirected { .. } => Code::Conflict,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoPrevResult | Self::NoInterface { .. } => {
                "tc-redirect-tap comes after the plugin that makes the interface".to_owned()
            }
            Self::Redirected { .. } => "call DEL before ADD is repeated".to_owned(),
            Self::NoIndex { .. } => String::new(),
        }
    }
}

/// Differences that CHECK finds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// `prevResult` has no entry of the virtual machine.
    #[error("prevResult has no interface with sandbox {container:?}, which is the virtual machine's")]
    NoGuest { container: String },
    /// It has several.
    #[error("expected to find at most 1 interface in sandbox {container:?}")]
    SeveralGuests { container: String },
    /// It does not say which device the virtual machine uses.
    #[error("prevResult has no tap device of the virtual machine {container:?}")]
    NoTap { container: String },
    /// The device is not a tap device.
    #[error("interface {name} is not a tap device")]
    NotTap { name: String },
    /// The device has other users or another number of queues.
    #[error("tap device {name} is {found}, and not {wanted}")]
    Settings { name: String, found: TapOptions, wanted: TapOptions },
    /// Its MTU is less than that of the interface.
    #[error("tap device {name} has MTU {found}, and not {wanted}")]
    Mtu { name: String, found: u32, wanted: u32 },
    /// The virtual machine uses another MAC address than the interface.
    #[error("the virtual machine has MAC address {reported:?}, and interface {ifname} has {found:?}")]
    Mac { ifname: String, reported: String, found: String },
    /// Frames do not get through.
    #[error("frames that {from} receives are not redirected to {to}")]
    NoRedirect { from: String, to: String },
}

impl Failure for CheckError {
    fn code(&self) -> Code {
        match self {
            Self::NoGuest { .. } | Self::SeveralGuests { .. } | Self::NoTap { .. } => Code::InvalidConfig,
            Self::NotTap { .. }
            | Self::Settings { .. }
            | Self::Mtu { .. }
            | Self::Mac { .. }
            | Self::NoRedirect { .. } => Code::CheckFailed,
        }
    }

    /// The command that shows it, to be run in the container's namespace.
    fn details(&self) -> String {
        match self {
            Self::NoGuest { .. } | Self::SeveralGuests { .. } | Self::NoTap { .. } => {
                "it must be the result of the whole list".to_owned()
            }
            Self::NotTap { name } | Self::Settings { name, .. } | Self::Mtu { name, .. } => {
                format!("see ip -details link show {name}")
            }
            Self::Mac { ifname, .. } => format!("see ip link show {ifname}"),
            Self::NoRedirect { from, .. } => format!("see tc filter show dev {from} ingress"),
        }
    }
}
