//! Host ports that more than one container asks for.

use super::finding::Finding;
use crate::contested::{self, ContestedPort};
use crate::inventory::{Depth, Inventory, Scope};

const TOPIC: &str = "ports";

/// A cache that cannot be read is reported by `list`.
pub fn look() -> Vec<Finding> {
    let Ok(found) = Inventory::observe(&Scope::default(), Depth::Lives) else { return Vec::new() };
    contested::find(&found).iter().map(finding).collect()
}

/// A port that a dead container keeps is one that nobody can reach.
pub fn finding(port: &ContestedPort<'_>) -> Finding {
    let of_kind = if port.is_lost() { Finding::problem } else { Finding::note };
    of_kind(TOPIC, port.to_string(), port.cure())
}
