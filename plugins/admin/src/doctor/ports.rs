//! Host ports that more than one container asks for.

use super::finding::Finding;
use crate::contested;
use crate::inventory::{Depth, Inventory, Scope};

const TOPIC: &str = "ports";

/// A cache that cannot be read is reported by `list`.
pub fn look() -> Vec<Finding> {
    let Ok(found) = Inventory::observe(&Scope::default(), Depth::Lives) else { return Vec::new() };
    let cure = "it gets the port when the other container is deleted; publish another port if both are to be reached";
    contested::find(&found).iter().map(|port| Finding::note(TOPIC, port.to_string(), cure)).collect()
}
