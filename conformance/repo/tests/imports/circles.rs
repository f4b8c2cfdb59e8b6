//! Circles in a graph: groups of modules that all depend on each other.

use std::collections::{BTreeMap, BTreeSet};

/// The groups of two and more.
pub fn of<T>(edges: &BTreeMap<(String, String), T>) -> Vec<BTreeSet<String>> {
    let starts: BTreeSet<&String> = edges.keys().map(|(from, _)| from).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for start in starts {
        let back = |other: &String| reached(edges, other).contains(start);
        let group: BTreeSet<String> = reached(edges, start).into_iter().filter(back).collect();
        if !group.is_empty() && !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

/// Every module that one needs, directly or by way of others.
fn reached<T>(edges: &BTreeMap<(String, String), T>, start: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start.to_owned()];
    while let Some(next) = open.pop() {
        let further = edges.keys().filter(|(from, _)| *from == next).map(|(_, to)| to.clone());
        open.extend(further.filter(|to| reached.insert(to.clone())));
    }
    reached
}
