//! Questions about routes and rules of a network namespace.

use cni_core::error::Error;
use cni_core::family::Family;
use cni_model::link::KernelRoute;
use cni_model::plan::Ns;
use cni_model::routing::{FullRoute, KernelRule};

/// Questions about the routing of packets.
pub trait Routing {
    /// The routes of a family: of one table, or of all.
    fn routes(&mut self, ns: Ns, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, Error>;

    /// The unicast routes of a family in one table, with everything that the kernel holds of them.
    fn full_routes(&mut self, ns: Ns, family: Family, table: u32) -> Result<Vec<FullRoute>, Error>;

    /// The rules by which the kernel chooses a table for a packet of a family, in order.
    fn rules(&mut self, ns: Ns, family: Family) -> Result<Vec<KernelRule>, Error>;
}
