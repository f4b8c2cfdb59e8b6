//! The page of keys, `plugins/KEYS.md`, is made from the rows.

use std::fmt::Write as _;
use std::{env, fs};

use cni_catalog::{Entry, Key, PluginKind, entries};

use super::{read, top};

const PAGE: &str = "plugins/KEYS.md";
const HEAD: &str = "| plugin | does | keys |\n|---|---|---|\n";

/// `UPDATE_PAGES=1` writes the page instead.
#[test]
fn the_page_of_keys_is_that_of_the_rows() {
    let page = read(PAGE);
    let (start, _) = page.split_once(HEAD).expect("the head of the table");
    let wanted = format!("{start}{HEAD}{}", table());
    if env::var_os("UPDATE_PAGES").is_some() {
        fs::write(top().join(PAGE), &wanted).expect("write the page");
    }
    let command = "UPDATE_PAGES=1 cargo test -p cni-builtin keys";
    assert!(read(PAGE) == wanted, "{PAGE} is not that of the rows; make it by: {command}");
}

fn table() -> String {
    use PluginKind::{Chained, Interface, Ipam, Loopback};
    let mut table = String::new();
    for kind in [Loopback, Interface, Ipam, Chained] {
        for entry in entries().iter().filter(|entry| entry.kind == kind) {
            let (name, does) = (&entry.name, &entry.does);
            writeln!(table, "| [{name}]({name}/README.md) | {does} | {} |", keys(entry))
                .expect("a string takes everything");
        }
    }
    table
}

/// The keys of a plugin in a line; those inside lists stand in parentheses behind their list.
fn keys(entry: &Entry) -> String {
    let mut shown: Vec<(String, Vec<&str>)> = Vec::new();
    for key in entry.keys.iter().filter(|key| key.key != "prevResult") {
        let (outer, inner) = parts(entry, key);
        match shown.iter_mut().find(|(name, _)| *name == outer) {
            Some((_, list)) => list.extend(inner),
            None => shown.push((outer, inner.into_iter().collect())),
        }
    }
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ");
    let listed = shown.iter().map(|(name, inner)| match inner[..] {
        [] => format!("`{name}`"),
        _ => format!("`{name}` ({})", quoted(inner)),
    });
    let listed = listed.collect::<Vec<_>>().join(" ");
    let args = quoted(&entry.args.iter().map(String::as_str).collect::<Vec<_>>());
    match (listed.is_empty(), args.is_empty()) {
        (true, true) => "–".to_owned(),
        (false, true) => listed,
        (true, false) => format!("CNI_ARGS {args}"),
        (false, false) => format!("{listed}; CNI_ARGS {args}"),
    }
}

/// The name under which a key is listed, and its name in the list's elements.
fn parts<'a>(entry: &Entry, key: &'a Key) -> (String, Option<&'a str>) {
    let own = if entry.kind == PluginKind::Ipam { key.key.strip_prefix("ipam.") } else { None };
    let path = own.unwrap_or(if key.key == "ipam.type" { "ipam" } else { &key.key });
    match path.split_once("[]") {
        Some((list, rest)) => (
            list.to_owned(),
            Some(rest.trim_start_matches("[]").trim_start_matches('.')).filter(|name| !name.is_empty()),
        ),
        None => (path.to_owned(), None),
    }
}
