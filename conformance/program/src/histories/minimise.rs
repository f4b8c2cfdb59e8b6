//! Makes a history with a difference as small as possible: first fewer steps, then a smaller configuration. The result
//! shows a difference of the same [`DifferenceKind`]: a smaller history may show another difference, which says
//! nothing about the first.
//!
//! Each trial runs the whole history with both sets, so their number is limited.

use serde_json::Value;

use super::difference::{Comparison, Difference};
use super::history::History;
use super::kind::DifferenceKind;

/// A way of trying what a history shows, and how often that may be asked.
pub struct Trials<'t> {
    live: &'t mut dyn FnMut(&History) -> Comparison,
    left: usize,
}

impl<'t> Trials<'t> {
    /// Allows so many trials.
    pub fn new(limit: usize, live: &'t mut dyn FnMut(&History) -> Comparison) -> Self {
        Self { live, left: limit }
    }
}

/// The kind of difference to keep, and the last difference that the smallest history has shown.
struct MinimisingSearch<'s, 't> {
    trials: &'s mut Trials<'t>,
    kind: DifferenceKind,
    last: Difference,
}

impl MinimisingSearch<'_, '_> {
    fn show(&mut self, history: &History) -> bool {
        if self.trials.left == 0 {
            return false;
        }
        self.trials.left -= 1;
        match (self.trials.live)(history) {
            Comparison::Different(found) if DifferenceKind::of(history, &found) == self.kind => {
                self.last = found;
                true
            }
            Comparison::Different(_) | Comparison::Same | Comparison::Ended { .. } => false,
        }
    }
}

/// Returns the smallest history that was found, and the difference that it shows.
pub fn minimise(history: History, difference: Difference, trials: &mut Trials<'_>) -> (History, Difference) {
    let mut search = MinimisingSearch { trials, kind: DifferenceKind::of(&history, &difference), last: difference };
    let fewer = fewer_steps(history, &mut search).without_the_unused();
    let plain = plainer(fewer, &mut search);
    let small = fewer_steps(plain, &mut search).without_the_unused();
    (small, search.last)
}

/// Delta debugging: leaves out halves, then quarters, down to single steps.
fn fewer_steps(mut history: History, search: &mut MinimisingSearch<'_, '_>) -> History {
    let mut chunk = history.steps.len().div_ceil(2);
    while chunk > 0 {
        let mut start = 0;
        let mut progress = false;
        while start < history.steps.len() {
            let mut candidate = history.clone();
            candidate.steps.drain(start..(start + chunk).min(history.steps.len()));
            if search.show(&candidate) {
                history = candidate;
                progress = true;
            } else {
                start += chunk;
            }
        }
        if chunk == 1 && progress {
            continue;
        }
        chunk /= 2;
    }
    history
}

/// Tries everything that makes a history simpler, until nothing does.
fn plainer(mut history: History, search: &mut MinimisingSearch<'_, '_>) -> History {
    'again: loop {
        for candidate in candidates(&history) {
            if search.show(&candidate) {
                history = candidate;
                continue 'again;
            }
        }
        return history;
    }
}

/// Every history that is simpler in one thing, the largest change first.
fn candidates(history: &History) -> Vec<History> {
    let mut found = Vec::new();
    for (name, list) in &history.networks {
        for smaller in smaller_lists(list, name) {
            let mut candidate = history.clone();
            candidate.networks.insert(name.clone(), smaller);
            found.push(candidate);
        }
    }
    for (name, member) in &history.containers {
        let mut change = |change: &dyn Fn(&mut super::NetworkMember)| {
            let mut candidate = history.clone();
            candidate.containers.entry(name.clone()).and_modify(change);
            if candidate != *history {
                found.push(candidate);
            }
        };
        change(&|member| member.ports = Value::Array(Vec::new()));
        for smaller in smaller_values(&member.ports) {
            change(&|member| member.ports = smaller.clone());
        }
        change(&|member| member.beside = None);
        change(&|member| member.args.clear());
        change(&|member| "eth0".clone_into(&mut member.ifname));
        change(&|member| name.clone_into(&mut member.id));
    }
    found
}

/// The list with another name, and without each of its plugins, keys and elements.
fn smaller_lists(list: &Value, name: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let plugins = list["plugins"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut with_plugins = |plugins: Vec<Value>| {
        let mut smaller = list.clone();
        smaller["plugins"] = Value::Array(plugins);
        found.push(smaller);
    };
    for at in 0..plugins.len() {
        if plugins.len() > 1 {
            with_plugins(without(plugins, at));
        }
    }
    for (at, plugin) in plugins.iter().enumerate() {
        for smaller in smaller_values(plugin) {
            let mut plugins = plugins.to_vec();
            plugins[at] = smaller;
            with_plugins(plugins);
        }
    }
    if list["name"] != name {
        let mut renamed = list.clone();
        renamed["name"] = Value::String(name.to_owned());
        found.push(renamed);
    }
    found
}

/// The value without each of its keys and elements, at any depth; types of plugins stay.
fn smaller_values(value: &Value) -> Vec<Value> {
    match value {
        Value::Object(keys) => {
            let shorter = keys.keys().filter(|key| *key != "type").map(|key| {
                let mut keys = keys.clone();
                keys.remove(key);
                Value::Object(keys)
            });
            let deeper = keys.iter().flat_map(|(key, inner)| {
                smaller_values(inner).into_iter().map(move |inner| {
                    let mut keys = keys.clone();
                    keys.insert(key.clone(), inner);
                    Value::Object(keys)
                })
            });
            shorter.chain(deeper).collect()
        }
        Value::Array(elements) => {
            let shorter = (0..elements.len()).map(|at| Value::Array(without(elements, at)));
            let deeper = elements.iter().enumerate().flat_map(|(at, inner)| {
                smaller_values(inner).into_iter().map(move |inner| {
                    let mut elements = elements.clone();
                    elements[at] = inner;
                    Value::Array(elements)
                })
            });
            shorter.chain(deeper).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

fn without(elements: &[Value], at: usize) -> Vec<Value> {
    let others = elements.iter().enumerate().filter(|(other, _)| *other != at);
    others.map(|(_, element)| element.clone()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Trials, minimise};
    use crate::histories::{Comparison, Difference, History};

    /// Two networks, three containers and eight steps, with keys and ports that nobody needs.
    fn large() -> History {
        let plugins = json!([
            {"type": "loopback"},
            {"type": "bridge", "mtu": 1400, "ipam": {"type": "host-local", "routes": [{"dst": "a"}, {"dst": "b"}]}},
            {"type": "portmap", "snat": true},
        ]);
        let network = json!({"cniVersion": "1.0.0", "name": "a-long-name", "plugins": plugins});
        let member = |network: &str| json!({"network": network, "id": "long", "ifname": "net1", "args": "IP=10.1.2.3", "ports": [1, 2, 3]});
        let steps = ["ADD c0", "CHECK c0", "ADD c1", "run nft flush ruleset", "ADD c2", "DEL c0", "CHECK c1", "DEL c2"];
        let history = json!({
            "iptables": "nft",
            "networks": {"n0": network, "n1": network},
            "containers": {"c0": member("n0"), "c1": member("n1"), "c2": member("n0")},
            "steps": steps,
        });
        History::parse(&history.to_string()).expect("a history")
    }

    fn steps(history: &History) -> Vec<String> {
        history.steps.iter().map(ToString::to_string).collect()
    }

    fn difference(step: usize, change: &str) -> Difference {
        Difference { step, changes: vec![change.to_owned()] }
    }

    /// What [`large`] shows at its last step.
    fn first() -> Difference {
        difference(7, "+ files: a")
    }

    /// A difference of its kind, at the last step.
    fn shown(history: &History) -> Comparison {
        Comparison::Different(difference(history.steps.len() - 1, "+ files: b"))
    }

    #[test]
    fn what_does_not_matter_goes() {
        let mut live = |history: &History| {
            let text = history.to_line();
            let needs = ["ADD c1", "DEL c2", "snat", "\"b\""].into_iter().all(|needed| text.contains(needed));
            if needs { shown(history) } else { Comparison::Same }
        };
        let (small, last) = minimise(large(), first(), &mut Trials::new(1000, &mut live));
        assert_eq!(last, difference(1, "+ files: b"));
        assert_eq!(steps(&small), ["ADD c1", "DEL c2"]);
        assert_eq!(small.containers.keys().collect::<Vec<_>>(), ["c1", "c2"]);
        let text = small.to_line();
        for gone in ["loopback", "mtu", "\"a\"", "a-long-name", "net1", "IP=", "long", "[1", "c0"] {
            assert!(!text.contains(gone), "{gone}: {text}");
        }
    }

    #[test]
    fn another_difference_is_none() {
        let mut live = |history: &History| match history.steps.last().map(ToString::to_string) {
            None => Comparison::Same,
            // Less shows more, but at another step, or of another thing.
            Some(step) if step != "DEL c2" => shown(history),
            Some(_) if !history.to_line().contains("bridge") => {
                Comparison::Different(difference(0, "- portmap prints in 1.0.0: \"version\": \"\","))
            }
            Some(_) => shown(history),
        };
        let (small, last) = minimise(large(), first(), &mut Trials::new(1000, &mut live));
        assert_eq!(last, difference(0, "+ files: b"));
        assert_eq!(steps(&small), ["DEL c2"]);
        assert_eq!(small.networks["n0"]["plugins"], json!([{"type": "bridge"}]));
    }

    #[test]
    fn without_trials_nothing_goes_but_what_no_step_is_about() {
        assert_eq!(minimise(large(), first(), &mut Trials::new(0, &mut shown)), (large(), first()));
    }

    #[test]
    fn trials_are_counted() {
        let mut asked = 0;
        let mut live = |_: &History| {
            asked += 1;
            Comparison::Same
        };
        minimise(large(), first(), &mut Trials::new(5, &mut live));
        assert_eq!(asked, 5);
    }
}
