//! Which module each module needs: where the items that it names are written.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Crate, Module};

/// From module to module, with the names that are needed.
pub type Edges = BTreeMap<(String, String), BTreeSet<String>>;

/// How often a name may be passed on before it is found.
const PASSES: usize = 8;

/// What a path leads to.
enum Target {
    Module(String),
    Item(String),
}

/// The edges of a crate.
pub fn edges(modules: &Crate) -> Edges {
    let mut edges = Edges::new();
    for (path, module) in &modules.modules {
        for named in named(module) {
            let mut through = Vec::new();
            if let Some(Target::Item(to)) = resolve(modules, path, &named, PASSES, &mut through) {
                for to in through.into_iter().chain([to]).filter(|to| to != path) {
                    edges.entry((path.clone(), to)).or_default().insert(named.join("::"));
                }
            }
        }
    }
    edges
}

/// The paths that a module names: those of `use`, also where it only passes a name on, and those in its code.
fn named(module: &Module) -> Vec<Vec<String>> {
    module.uses.iter().map(|one| one.path.clone()).chain(paths(&module.words)).collect()
}

/// The paths of two or more names in code.
fn paths(words: &[String]) -> Vec<Vec<String>> {
    let is_name = |word: &String| word.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let mut path: Vec<String> = words[at..].iter().take(1).filter(|word| is_name(word)).cloned().collect();
        at += 1;
        while !path.is_empty() && at + 1 < words.len() && words[at] == "::" && is_name(&words[at + 1]) {
            path.push(words[at + 1].clone());
            at += 2;
        }
        if path.len() > 1 {
            found.push(path);
        }
    }
    found
}

/// Follows a path that is written in a module; `None` when it leads out of the crate. `through` gets the modules that pass the
/// name on.
fn resolve(modules: &Crate, from: &str, path: &[String], passes: usize, through: &mut Vec<String>) -> Option<Target> {
    let (first, rest) = path.split_first()?;
    if passes == 0 {
        return None;
    }
    match first.as_str() {
        "crate" => walk(modules, "crate", rest, passes, through),
        "self" => walk(modules, from, rest, passes, through),
        "super" => walk(modules, Crate::parent(from), rest, passes, through),
        name => {
            let child = format!("{from}::{name}");
            if modules.modules.contains_key(&child) {
                return walk(modules, &child, rest, passes, through);
            }
            let used = modules.modules[from].uses.iter().find(|one| one.name == *name && one.path[0] != *name)?;
            match resolve(modules, from, &used.path, passes - 1, through)? {
                Target::Module(module) => walk(modules, &module, rest, passes, through),
                item @ Target::Item(_) => Some(item),
            }
        }
    }
}

/// Goes down from a module as far as modules go, and then to where the item is written.
fn walk(modules: &Crate, module: &str, rest: &[String], passes: usize, through: &mut Vec<String>) -> Option<Target> {
    let Some((name, below)) = rest.split_first() else { return Some(Target::Module(module.to_owned())) };
    let child = format!("{module}::{name}");
    match name.as_str() {
        "super" => walk(modules, Crate::parent(module), below, passes, through),
        _ if modules.modules.contains_key(&child) => walk(modules, &child, below, passes, through),
        _ => match modules.modules[module].uses.iter().find(|one| one.name == *name) {
            Some(used) => {
                through.push(module.to_owned());
                match resolve(modules, module, &used.path, passes.checked_sub(1)?, through)? {
                    Target::Module(module) => walk(modules, &module, below, passes - 1, through),
                    item @ Target::Item(_) => Some(item),
                }
            }
            None => Some(Target::Item(module.to_owned())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::imports::{circles, tokens, uses};

    fn module(source: &str) -> Module {
        let (uses, words) = uses::split(&tokens::of(source));
        Module { uses, words }
    }

    #[test]
    fn a_name_that_is_passed_on_is_no_way_out_of_a_circle() {
        let sources = [
            ("crate", "mod host; mod apply; mod lone;"),
            ("crate::lone", "use crate::apply;"),
            (
                "crate::host",
                "mod machine; // x\npub(crate) use machine::{self, Host as Machine,}; use crate::{apply::{apply}};",
            ),
            ("crate::host::machine", "pub struct Host;"),
            (
                "crate::apply",
                "use crate::host::Machine; #[cfg(test)] mod t { use crate::lone; } fn f<'a>(m: &'a Machine) { g(\"crate::lone \\\" {\", '\\''); }",
            ),
        ];
        let modules = sources.map(|(path, source)| (path.to_owned(), module(source)));
        let edges = edges(&Crate { modules: modules.into_iter().collect() });
        let circle = ["crate::apply", "crate::host"].map(str::to_owned);
        assert_eq!(circles::of(&edges), [BTreeSet::from(circle)]);
    }
}
