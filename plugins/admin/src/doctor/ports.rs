//! Host ports that more than one container asks for.

use super::finding::Finding;
use crate::contested::{self, ContestedPort};
use crate::inventory::Inventory;

const TOPIC: &str = "ports";

/// Looks at the ports of all containers.
pub fn look(found: &Inventory) -> Vec<Finding> {
    contested::find(found).iter().map(finding).collect()
}

/// A port that a dead container keeps is one that nobody can reach.
pub fn finding(port: &ContestedPort<'_>) -> Finding {
    let of_kind = if port.is_lost() { Finding::problem } else { Finding::note };
    of_kind(TOPIC, port.to_string(), port.cure())
}
