//! Drawn histories: cases whose scripts are drawn, about the examples of the plugins' pages. What two sets of plugins say in one must be the
//! same.

use cni_conformance::case::{Variant, variants};
use cni_conformance::numbers::Numbers;
use serde_json::{Map, Value};

use crate::embedded::cases;
use crate::report::Done;

/// How many calls a history has.
const LENGTH: usize = 10;

/// What is looked at after each call.
const LOOKS: [&str; 4] = ["rules nat", "rules filter", "rules nat6", "rules filter6"];

/// This many histories, the same ones for a seed.
pub fn histories(seed: u64, count: usize) -> Vec<Variant> {
    (seed..).take(count).flat_map(|seed| named(&format!("drawn/{seed}"))).collect()
}

/// The history of a name, `drawn/SEED`.
pub fn named(name: &str) -> Option<Variant> {
    let seed = name.strip_prefix("drawn/")?.parse::<u64>().ok()?;
    let mut numbers = Numbers::of(seed);
    let mut examples: Vec<_> = cases().into_iter().filter(|case| case.name.ends_with("/example")).collect();
    examples.retain(|case| case.needs().is_none_or(cni_conformance::Feature::is_here));
    let case = examples.swap_remove(numbers.below(examples.len()));
    let has_ports = case.lists().iter().any(|list| list.to_string().contains("portMappings"));
    let mut lines = case.preparation();
    let mut added = [false; 3];
    for _ in 0..LENGTH {
        let at = numbers.below(added.len());
        let container = ["a", "b", "c"][at];
        let ports = if has_ports { format!(" ports=808{at}:80") } else { String::new() };
        lines.push(if added[at] { format!("del {container}") } else { format!("add {container}{ports}") });
        added[at] = !added[at];
        lines.extend(LOOKS.map(str::to_owned));
        lines.push(format!("routes {container}"));
    }
    variants(vec![case.with_script(name.to_owned(), lines)], &[]).into_iter().next()
}

/// The first line in which two sets say different things, and these.
pub fn difference(one: &Done, other: &Done) -> Option<String> {
    let script = one.variant.case.script();
    let said = one.said.iter().zip(&other.said).zip(script).find(|((one, other), _)| !is_same(one, other));
    said.map(|((one, other), line)| format!("{line}\n  the first says:\n{one}\n  the second says:\n{other}"))
}

fn is_same(one: &str, other: &str) -> bool {
    match (result(one), result(other)) {
        (Some(one), Some(other)) => one == other,
        (_, _) => one == other,
    }
}

/// A result without what says the same in two ways: no `dns` is an empty one, and a bridge has an address of its own or one of its ports'.
fn result(text: &str) -> Option<Value> {
    let mut result: Value = serde_json::from_str(text).ok()?;
    if result["dns"] == Value::Object(Map::default()) {
        result.as_object_mut()?.remove("dns");
    }
    for interface in result["interfaces"].as_array_mut().into_iter().flatten() {
        let is_bridge =
            interface["sandbox"].is_null() && !interface["name"].as_str().unwrap_or_default().starts_with('$');
        interface.as_object_mut()?.retain(|key, _| !is_bridge || key != "mac");
    }
    Some(result)
}
