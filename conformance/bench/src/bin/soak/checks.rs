//! What must hold while nobody works.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Sandbox, State};

use crate::guest::Guest;
use crate::leases;
use crate::stage::Stage;

/// How long the kernel may take to remove what was in namespaces that have ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// No address is used twice in a network, also by containers that were deleted and live on.
pub fn no_address_twice<'g, 'n: 'g>(guests: impl Iterator<Item = &'g Guest<'n>>, stage: &Stage<'_>) {
    let mut users: BTreeMap<(&str, IpAddr), &str> = BTreeMap::new();
    for guest in guests {
        for address in guest.addresses(stage) {
            if let Some(other) = users.insert((guest.network.name, address), &guest.id) {
                let text = format!("{address} of {} is used by {other} and by {}", guest.network.name, guest.id);
                stage.violation(&[other, &guest.id], &text);
            }
        }
    }
}

/// Each has its addresses, rules, ports and traffic.
pub fn all_work<'g, 'n: 'g>(guests: impl Iterator<Item = &'g Guest<'n>>, stage: &Stage<'_>) {
    for guest in guests {
        if let Err(said) = guest.look_closely(stage) {
            stage.violation(&[&guest.id], &said);
        }
    }
}

/// The administrator's tool puts back what is missing, and removes what is left, without a complaint.
pub fn tool_is_content(stage: &Stage<'_>) {
    for words in [&["repair"][..], &["gc", "--remove"]] {
        let said = stage.tool(words);
        if said.code != Some(0) {
            let told: Vec<_> = said.stdout.lines().filter(|line| !line.ends_with(": complete")).collect();
            let told = told.join("\n    ");
            stage.violation(&[], &format!("{words:?} ends with {:?}: {told}\n    {}", said.code, said.stderr));
        }
    }
}

/// Lines of the host's state that do not tell of chance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remains(BTreeSet<String>);

impl Remains {
    pub fn observe(sandbox: &Sandbox) -> Self {
        Self(State::of_host(sandbox).without("cache").lines().iter().filter_map(|line| settled(line)).collect())
    }

    /// What is here and was not, or is not any more.
    fn differences(&self, after: &Self) -> Vec<String> {
        let [gone, new] = [(self, after, '-'), (after, self, '+')]
            .map(|(here, there, mark)| here.0.difference(&there.0).map(move |line| format!("\n    {mark} {line}")));
        gone.chain(new).collect()
    }
}

/// Without MAC addresses, where the next address is looked for, the age and number of indexes, locks, and the files of the
/// runtimes and daemons themselves.
fn settled(line: &str) -> Option<String> {
    const OF_CHANCE: [&str; 6] =
        ["last_reserved_ip", "/.cni-plugins-rs/stamp", ".lock ", "/lock ", "/.cni-plugins-rs/index", "/dhcp.sock"];
    let is_file = line.starts_with("files: ");
    // The daemon of dhcp renews its leases, and an index may list them in any order.
    if line.starts_with("files: /run/cni/dhcp/") || line.contains("#host-local leases") {
        return line.split(' ').nth(1).map(str::to_owned);
    }
    if is_file && OF_CHANCE.iter().any(|part| line.contains(part)) {
        return None;
    }
    Some(line.split(" mac ").next().unwrap_or(line).to_owned())
}

/// Nothing is left of containers that are gone: the host is as it was.
pub fn nothing_is_left(before: &Remains, sandbox: &Sandbox, stage: &Stage<'_>) {
    let started = Instant::now();
    let mut said = String::new();
    loop {
        let differences = before.differences(&Remains::observe(sandbox));
        if differences.is_empty() {
            return;
        }
        if started.elapsed() > PATIENCE {
            let about: Vec<&str> = differences.iter().flat_map(|line| ids(line)).collect();
            let lines: Vec<String> = differences.iter().take(60).map(|line| line.chars().take(300).collect()).collect();
            let lines = lines.concat();
            return stage.violation(&about, &format!("the host is not as it was:{lines}\n    gc --remove: {said}"));
        }
        thread::sleep(Duration::from_millis(200));
        said = stage.tool(&["gc", "--remove"]).stdout;
    }
}

/// The containers of workers that a line names.
fn ids(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').filter(|word| is_id(word))
}

fn is_id(word: &str) -> bool {
    word.strip_prefix('w').is_some_and(|rest| rest.len() == 7 && rest.as_bytes()[1] == b'-')
}

/// Makes all leases but those of the residents look old, so that `gc` need not wait.
pub fn age_leases(stage: &Stage<'_>) {
    for network in stage.networks {
        leases::age(network, |holder| !holder.starts_with("resident"));
    }
}
