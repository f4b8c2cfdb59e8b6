//! No module of a crate depends on itself through others, so a reader needs only the modules that it names.
//!
//! Modules that name each other's items are one module in several files. Read are `use` declarations and paths, of all crates but
//! this one, without tests. A module that passes a name on (`pub use`) needs it, and so does everything that takes the name from there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

mod circles;
mod modules;
mod resolve;
mod tokens;
mod uses;

use modules::Crate;

/// The folders with a `src` below a folder of the repository.
fn crates(below: &str) -> Vec<PathBuf> {
    let folder = cni_repo::top().join(below);
    let list = fs::read_dir(&folder).unwrap_or_else(|error| panic!("list {}: {error}", folder.display()));
    let mut found: Vec<PathBuf> = list.map(|entry| entry.expect("read a list").path().join("src")).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

#[test]
fn no_module_needs_itself_by_way_of_others() {
    let sources: Vec<PathBuf> = ["common", "plugins", "plugins/dhcp"].into_iter().flat_map(crates).collect();
    assert!(sources.len() >= 10, "{sources:#?}");
    let found: Vec<String> = sources.iter().flat_map(|source| reported(source)).collect();
    assert!(found.is_empty(), "import cycles:\n{}", found.join("\n"));
}

/// The circles in a crate, each with the names by which it is closed.
fn reported(source: &Path) -> Vec<String> {
    let modules = Crate::read(source);
    let edges = resolve::edges(&modules);
    let crate_name = source.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    circles::of(&edges).iter().map(|circle| format!("{crate_name}: {}", shown(circle, &edges))).collect()
}

fn shown(circle: &BTreeSet<String>, edges: &BTreeMap<(String, String), BTreeSet<String>>) -> String {
    let within = edges.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
    let lines = within.map(|((from, to), names)| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        format!("\n    {from} -> {to}: {}", names.join(" "))
    });
    format!("{} modules{}", circle.len(), lines.collect::<String>())
}
