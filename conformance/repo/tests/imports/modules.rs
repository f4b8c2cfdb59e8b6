//! The modules of a crate, each with the words of its file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::tokens;
use super::uses::{self, Use};

/// One file of a crate.
#[derive(Default)]
pub struct Module {
    /// What it takes from elsewhere, by the name it has here.
    pub uses: Vec<Use>,
    /// The words of its file beside these.
    pub words: Vec<String>,
}

/// The modules of a crate by their paths: `crate`, `crate::a`, `crate::a::b`.
pub struct Crate {
    /// All of them.
    pub modules: BTreeMap<String, Module>,
}

impl Crate {
    /// Reads every module that is not for tests alone.
    pub fn read(source: &Path) -> Self {
        let mut modules = BTreeMap::new();
        let main = if source.join("lib.rs").exists() { "lib.rs" } else { "main.rs" };
        read(&source.join(main), source, "crate", &mut modules);
        Self { modules }
    }

    /// The module above one.
    pub fn parent(module: &str) -> &str {
        module.rsplit_once("::").map_or("crate", |(parent, _)| parent)
    }
}

fn read(file: &Path, folder: &Path, path: &str, modules: &mut BTreeMap<String, Module>) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("read {}: {error}", file.display()));
    let (uses, mut words) = uses::split(&tokens::of(&text));
    while let Some(at) = words.windows(3).position(|w| w[0] == "mod" && w[2] == ";") {
        let name = words.splice(at..at + 3, []).nth(1).unwrap_or_default();
        let (file, folder) = below(folder, &name);
        read(&file, &folder, &format!("{path}::{name}"), modules);
    }
    modules.insert(path.to_owned(), Module { uses, words });
}

/// The file of a module, and the folder of the modules in it.
fn below(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let own = folder.join(name);
    let file = folder.join(format!("{name}.rs"));
    (if file.exists() { file } else { own.join("mod.rs") }, own)
}
