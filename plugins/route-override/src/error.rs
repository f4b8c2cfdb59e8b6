//! Errors of changing routes, and differences that CHECK finds.

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Failure};
use cni_model::plan::UnfitRouteError;

/// A request that cannot be carried out, or a difference that CHECK finds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The plugin is the first in its list.
    #[error("Required prevResult missing: route-override must follow the plugin that makes the interface")]
    NoPrevResult,
    /// The kernel cannot hold a route.
    #[error("addroutes: route to {dst}")]
    Unfit { dst: Cidr, source: UnfitRouteError },
    /// The container has no such interface.
    #[error("Cannot find network interface {ifname}: Link not found")]
    NoLink { ifname: String },
    /// A route that ADD added does not exist.
    #[error("the route to {dst} on {ifname} is missing")]
    Missing { dst: Cidr, ifname: String },
    /// A route that ADD removed exists.
    #[error("the route to {dst} on {ifname} is not removed")]
    NotRemoved { dst: Cidr, ifname: String },
}

impl Failure for RouteError {
    fn code(&self) -> Code {
        match self {
            Self::NoPrevResult | Self::Unfit { .. } => Code::InvalidConfig,
            Self::NoLink { .. } => Code::Kernel,
            Self::Missing { .. } | Self::NotRemoved { .. } => Code::CheckFailed,
        }
    }
}
