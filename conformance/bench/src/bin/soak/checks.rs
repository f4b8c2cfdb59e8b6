//! The checks between two minutes, while no worker runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Sandbox, State};

use crate::container::SoakContainer;
use crate::context::Context;
use crate::leases;

/// How long the kernel may take to delete the contents of ended namespaces.
const PATIENCE: Duration = Duration::from_secs(20);

/// No address is used twice in a network, not even by a deleted container whose process still runs.
pub fn no_address_twice<'g, 'n: 'g>(containers: impl Iterator<Item = &'g SoakContainer<'n>>, context: &Context<'_>) {
    let mut users: BTreeMap<(&str, IpAddr), &str> = BTreeMap::new();
    for container in containers {
        for address in container.addresses(context) {
            if let Some(other) = users.insert((container.network.name, address), &container.id) {
                let text =
                    format!("{address} of {} is used by {other} and by {}", container.network.name, container.id);
                context.violation(&[other, &container.id], &text);
            }
        }
    }
}

/// Each container has its addresses, rules, ports and traffic.
pub fn all_containers_work<'g, 'n: 'g>(containers: impl Iterator<Item = &'g SoakContainer<'n>>, context: &Context<'_>) {
    for container in containers {
        if let Err(error) = container.verify_all(context) {
            context.violation(&[&container.id], &error);
        }
    }
}

/// `repair` and `gc --remove` of the administrator's tool succeed.
pub fn tool_succeeds(context: &Context<'_>) {
    for words in [&["repair"][..], &["gc", "--remove"]] {
        let output = context.tool(words);
        if output.code != Some(0) {
            let lines: Vec<_> = output.stdout.lines().filter(|line| !line.ends_with(": complete")).collect();
            let lines = lines.join("\n    ");
            context.violation(&[], &format!("{words:?} ends with {:?}: {lines}\n    {}", output.code, output.stderr));
        }
    }
}

/// The host's state without what differs between two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StableState(BTreeSet<String>);

impl StableState {
    pub fn observe(sandbox: &Sandbox) -> Self {
        Self(State::of_host(sandbox).lasting().iter().filter_map(|line| stable_line(line)).collect())
    }

    /// The lines that only one of the two has.
    fn differences(&self, after: &Self) -> Vec<String> {
        let [gone, new] = [(self, after, '-'), (after, self, '+')]
            .map(|(here, there, mark)| here.0.difference(&there.0).map(move |line| format!("\n    {mark} {line}")));
        gone.chain(new).collect()
    }
}

/// A line without MAC addresses; nothing for locks and sockets.
fn stable_line(line: &str) -> Option<String> {
    const VARIABLE: [&str; 3] = [".lock ", "/lock ", "/dhcp.sock"];
    let is_file = line.starts_with("files: ");
    // dhcp's daemon renews its leases, and an index lists leases in any order.
    if line.starts_with("files: /run/cni/dhcp/") || line.contains("#host-local leases") {
        return line.split(' ').nth(1).map(str::to_owned);
    }
    if is_file && VARIABLE.iter().any(|part| line.contains(part)) {
        return None;
    }
    Some(line.split(" mac ").next().unwrap_or(line).to_owned())
}

/// The host is as before: nothing is left of the removed containers.
pub fn nothing_is_left(before: &StableState, sandbox: &Sandbox, context: &Context<'_>) {
    let started = Instant::now();
    let mut output = String::new();
    loop {
        let differences = before.differences(&StableState::observe(sandbox));
        if differences.is_empty() {
            return;
        }
        if started.elapsed() > PATIENCE {
            let about: Vec<&str> = differences.iter().flat_map(|line| ids(line)).collect();
            let lines: Vec<String> = differences.iter().take(60).map(|line| line.chars().take(300).collect()).collect();
            let lines = lines.concat();
            return context.violation(&about, &format!("the host has changed:{lines}\n    gc --remove: {output}"));
        }
        thread::sleep(Duration::from_millis(200));
        output = context.tool(&["gc", "--remove"]).stdout;
    }
}

/// The containers of workers named in a line.
fn ids(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').filter(|word| is_id(word))
}

fn is_id(word: &str) -> bool {
    word.strip_prefix('w').is_some_and(|rest| rest.len() == 7 && rest.as_bytes()[1] == b'-')
}

/// Backdates all leases except those of permanent containers, so that `gc` does not wait.
pub fn age_leases(context: &Context<'_>) {
    for network in context.networks {
        leases::age(network, |holder| !holder.starts_with("resident"));
    }
}
