//! Every source file is compiled: an undeclared module or test would be ignored silently.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cni_repo::{files, read, top};

/// The files that begin a program or a library, by cargo's names.
const ROOTS: [&str; 3] = ["lib.rs", "main.rs", "build.rs"];

fn sources() -> Vec<PathBuf> {
    let below = ["common", "plugins", "conformance"].map(|folder| files(&top().join(folder)));
    below.concat().into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs")).collect()
}

/// The files that are named as paths in the manifests.
fn named_by_manifests() -> BTreeSet<PathBuf> {
    let manifests = files(&top()).into_iter().filter(|file| file.ends_with("Cargo.toml"));
    let named = |manifest: PathBuf| {
        let text = read(&manifest);
        let paths: Vec<PathBuf> = text
            .lines()
            .filter_map(|line| line.strip_prefix("path = \""))
            .map(|path| manifest.with_file_name(path.trim_end_matches('"')))
            .collect();
        paths
    };
    manifests.flat_map(named).collect()
}

/// Whether cargo takes a file for a program of its own.
fn is_root(file: &Path, named: &BTreeSet<PathBuf>) -> bool {
    let folder = file.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default();
    let found = || ["tests", "bin", "examples"].contains(&folder);
    named.contains(file) || ROOTS.iter().any(|root| file.ends_with(root)) || (found() && finds_tests(file))
}

/// Whether cargo looks for the tests of this file's crate itself.
fn finds_tests(file: &Path) -> bool {
    let manifest = file.ancestors().map(|folder| folder.join("Cargo.toml")).find(|manifest| manifest.exists());
    !read(&manifest.expect("a crate has a manifest")).contains("autotests = false")
}

/// The files that a file declares as modules. Those of a module that is not a folder's own are in the folder of its name.
fn declared_by(file: &Path, named: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let own = file.with_file_name("");
    let is_folders = file.ends_with("mod.rs") || is_root(file, named);
    let children = if is_folders { own.clone() } else { file.with_extension("") };
    let text = read(file);
    let mut path = None;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(named) = line.strip_prefix("#[path = \"") {
            path = named.strip_suffix("\"]");
        } else if let Some(name) =
            line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")).map(|(_, name)| name)
        {
            match path.take() {
                Some(path) => found.push(own.join(path)),
                None => found.extend([children.join(name).with_extension("rs"), children.join(name).join("mod.rs")]),
            }
        }
    }
    found
}

#[test]
fn every_source_file_is_compiled() {
    let (sources, named) = (sources(), named_by_manifests());
    let declared: BTreeSet<PathBuf> = sources.iter().flat_map(|file| declared_by(file, &named)).collect();
    let forgotten: Vec<&PathBuf> =
        sources.iter().filter(|file| !declared.contains(*file) && !is_root(file, &named)).collect();
    assert!(sources.len() > 500, "{}", sources.len());
    assert!(forgotten.is_empty(), "no module declares {forgotten:#?}");
}
