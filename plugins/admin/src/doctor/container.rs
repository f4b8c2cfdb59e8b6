//! `cni-plugins doctor CONTAINER`: what one container has, where it is kept, and what is wrong with it.
//!
//! A container is meant by its ID, the beginning of it, or the name or path of its namespace.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use cni_builtin::call_delegate;
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_linux::host::LinuxHost;
use cni_plugin::namespace::Life;
use cni_plugin::run::Plugin;

use crate::cache::{Cached, PluginConfig};
use crate::calls::PluginFolders;
use crate::contested;
use crate::inventory::{Attached, Inventory, Leftover};
use crate::life::require_host;
use crate::output::{error_line, print, report, status};
use crate::repair::{NamedPart, RepairOutcome, Tools};
use crate::result_cache::Scope;

mod about;

use super::finding::{Finding, contested_port, has_problem, loopback_down};
use about::{About, json_text, plain_text};

const TOPIC: &str = "container";

/// Looks at the attachments of a container, and prints what was found.
pub fn run(name: &str, scope: &Scope, is_json: bool) -> Result<ExitCode, String> {
    require_host()?;
    let mut found = Inventory::observe(scope);
    report("cni-plugins doctor", &found.unknown);
    let container = find(name, &known(&found), is_same_file)?.to_owned();
    let tools = Tools::default();
    let own = found.attached.iter_mut().filter(|one| one.cached.at.container.as_str() == container);
    own.for_each(|one| one.examine(&tools));
    let about = About::observe(&container, &found)?;
    let mut findings = findings(&container, &found);
    findings.iter_mut().for_each(|one| one.cure = one.cure.as_ref().map(|cure| scope.advised(cure)));
    let printed = print(&if is_json { json_text(&about, &findings) } else { plain_text(&about, &findings) });
    Ok(status(printed, !found.unknown.is_empty(), has_problem(&findings)))
}

fn known(found: &Inventory) -> Vec<Known<'_>> {
    let attached = found.attached.iter().map(|one| &one.cached);
    let all = attached.chain(found.left.iter().map(|left| &left.cached));
    all.map(|cached| Known { container: cached.at.container.as_str(), netns: cached.netns.as_deref() }).collect()
}

/// How many containers an error names.
const MOST_NAMED: usize = 3;

/// A container, and where its namespace is.
#[derive(Clone, Copy, Debug)]
struct Known<'a> {
    container: &'a str,
    netns: Option<&'a str>,
}

/// Finds the container that is meant. A whole ID comes before a namespace, and that before the beginning of an ID.
///
/// # Errors
/// A sentence for the user, when no container or more than one matches.
fn find<'a>(word: &str, known: &[Known<'a>], is_same_file: impl Fn(&str, &str) -> bool) -> Result<&'a str, String> {
    let is_namespace = |one: &Known<'_>| {
        let matches = |path: &str| {
            let name = Path::new(path).file_name().and_then(|name| name.to_str());
            path == word || name == Some(word) || word.contains('/') && is_same_file(path, word)
        };
        one.netns.is_some_and(matches)
    };
    let by: [&dyn Fn(&Known<'_>) -> bool; 3] =
        [&|one| one.container == word, &is_namespace, &|one| !word.is_empty() && one.container.starts_with(word)];
    for is_meant in by {
        let meant: BTreeSet<&str> = known.iter().filter(|one| is_meant(one)).map(|one| one.container).collect();
        let mut all = meant.iter().copied();
        match (all.next(), meant.len()) {
            (None, _) => {}
            (Some(container), 1) => return Ok(container),
            (Some(_), count) => {
                let more = (count > MOST_NAMED).then_some("…");
                let named: Vec<&str> = meant.iter().copied().take(MOST_NAMED).chain(more).collect();
                return Err(format!("{word:?} means {count} containers: {}; write more of the ID", named.join(", ")));
            }
        }
    }
    Err(format!("no container has the ID or namespace {word:?}; cni-plugins list --full shows all"))
}

/// Whether two paths lead to the same file, as two paths to one namespace do.
fn is_same_file(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|path| fs::metadata(path).map(|file| (file.dev(), file.ino())).ok());
    one.is_some() && one == other
}

/// What is wrong, or that nothing is.
fn findings(container: &str, found: &Inventory) -> Vec<Finding> {
    let is_own = |at: &Attachment| at.container.as_str() == container;
    let own = || found.attached.iter().filter(|one| is_own(&one.cached.at));
    let attached = own().flat_map(of_attached).chain(loopback_down(own()));
    let left = found.left.iter().filter(|left| is_own(&left.cached.at)).map(of_left);
    let contested = contested::find(found).into_iter();
    let waiting = contested.filter(|port| port.waits(container)).map(|port| contested_port(&port));
    let findings: Vec<Finding> = attached.chain(left).chain(waiting).collect();
    if findings.is_empty() { vec![Finding::fine(TOPIC, "nothing is wrong with it")] } else { findings }
}

fn of_attached(one: &Attached) -> Vec<Finding> {
    let Attachment { network, ifname, .. } = &one.cached.at;
    let place = format!("{ifname} in network {network}");
    match &one.life {
        Life::Dead => vec![Finding::problem(
            TOPIC,
            format!("{place}: its network namespace has ended, and the runtime has not deleted it"),
            format!("cni-plugins gc --remove --network {network}"),
        )],
        Life::Unknown(reason) => vec![Finding::problem(
            TOPIC,
            format!("{place}: it is unclear whether it lives: {reason}"),
            "run this as root on the host itself, or delete the container by its runtime",
        )],
        Life::Alive => of_living(one, &place),
    }
}

fn of_living(one: &Attached, place: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let parts = of_outcome(&one.outcome, one, place, &mut findings);
    // The rules of flannel are those of the plugin that it has called; where that is not known, the outcome is a failure.
    let makers = one.cached.resolved().unwrap_or(Cow::Borrowed(&one.cached));
    let has_lost_rules = |maker: &PluginConfig| parts.iter().any(|part| part.plugin == maker.kind);
    let plugins = one.cached.plugins.iter().zip(&makers.plugins);
    let checked = plugins.filter(|(_, maker)| !has_lost_rules(maker));
    findings.extend(checked.filter_map(|(config, _)| of_check(&one.cached, config, place)));
    findings
}

/// Adds what `list` says of the rules. Returns what is missing of them.
fn of_outcome<'a>(
    outcome: &'a RepairOutcome,
    one: &Attached,
    place: &str,
    findings: &mut Vec<Finding>,
) -> &'a [NamedPart] {
    match outcome {
        RepairOutcome::Complete => &[],
        RepairOutcome::Unknown(_) => {
            let cure = "only the project of the plugin can tell";
            findings.push(Finding::note("rules", format!("{place}: the state of its rules is {outcome}"), cure));
            &[]
        }
        RepairOutcome::Missing(parts) => {
            let cure = format!("cni-plugins repair --network {}", one.cached.at.network);
            findings.extend(parts.iter().map(|part| {
                Finding::problem(
                    "rules",
                    format!("{place}: a rule of {} is missing: {}", part.plugin, part.missing),
                    &cure,
                )
            }));
            parts
        }
        RepairOutcome::Failed(errors, rest) => {
            findings.extend(errors.iter().map(|error| {
                let says = format!("{place}: its rules cannot be compared: {}", error_line(error));
                Finding::problem("rules", says, "cni-plugins doctor shows whether the host is in order")
            }));
            of_outcome(rest, one, place, findings)
        }
        RepairOutcome::Gone(reason) | RepairOutcome::Skipped(reason) => {
            let cure = "repeat this in a moment; if it stays, delete the container by its runtime, and add it again";
            findings.push(Finding::problem(TOPIC, format!("{place}: {reason}"), cure));
            &[]
        }
        RepairOutcome::Repaired(parts) => parts,
    }
}

/// What CHECK of a plugin of ours says. Only an ADD makes links, addresses and routes.
fn of_check(cached: &Cached, config: &PluginConfig, place: &str) -> Option<Finding> {
    let error = check(cached, config, cni_builtin::plugin(&config.kind)?).err()?;
    let says = format!("{place}: {} has lost something: {}", config.kind, error_line(&error));
    Some(Finding::problem("check", says, "delete the container by its runtime, and add it again"))
}

/// Calls CHECK. A version without CHECK, and a plugin whose IPAM plugin is not beside this program, have nothing to say.
fn check(cached: &Cached, config: &PluginConfig, plugin: &dyn Plugin) -> Result<(), Error> {
    let Ok(folders) = PluginFolders::new(None) else { return Ok(()) };
    let needed = config.ipam().filter(|ipam| !ipam.is_empty()).unwrap_or(plugin.kind());
    let Some(folders) = folders.with(needed) else { return Ok(()) };
    let Ok(request) = cached.request_of("CHECK", config, plugin, folders) else { return Ok(()) };
    plugin.check(&request, &mut LinuxHost::new(&request).with_contained(call_delegate))
}

fn of_left(left: &Leftover) -> Finding {
    let Attachment { network, ifname, .. } = &left.cached.at;
    let place = format!("{ifname} in network {network}");
    match &left.life {
        Life::Unknown(reason) => Finding::problem(
            TOPIC,
            format!("{place}: the runtime's cache does not have it, and it is unclear whether it lives: {reason}"),
            "run this as root on the host itself; cni-plugins gc keeps what is unclear",
        ),
        Life::Alive | Life::Dead => Finding::problem(
            TOPIC,
            format!("{place}: the runtime's cache does not have it, and it is left over"),
            format!("cni-plugins gc --remove --network {network}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Known<'_>; 4] = [
        Known { container: "web-1", netns: Some("/run/netns/blue") },
        Known { container: "web-1", netns: Some("/run/netns/blue") },
        Known { container: "web-12", netns: Some("/proc/7/ns/net") },
        Known { container: "db-1", netns: None },
    ];

    fn found(word: &str) -> Result<&'static str, String> {
        let is_same = |one: &str, other: &str| (one, other) == ("/run/netns/blue", "/var/run/netns/blue");
        find(word, &KNOWN, is_same)
    }

    #[test]
    fn an_id_its_beginning_and_a_namespace_mean_a_container() {
        for (word, container) in [
            ("web-1", "web-1"),
            ("web-12", "web-12"),
            ("d", "db-1"),
            ("blue", "web-1"),
            ("/run/netns/blue", "web-1"),
            ("/var/run/netns/blue", "web-1"),
            ("/proc/7/ns/net", "web-12"),
        ] {
            assert_eq!(found(word), Ok(container), "{word}");
        }
    }

    #[test]
    fn a_word_that_means_none_or_several_is_refused_in_a_sentence() {
        for word in ["", "x", "/run/netns/red"] {
            let says = format!("no container has the ID or namespace {word:?}; cni-plugins list --full shows all");
            assert_eq!(found(word), Err(says));
        }
        let says = "\"web\" means 2 containers: web-1, web-12; write more of the ID";
        assert_eq!(found("web"), Err(says.to_owned()));
        let many = ["a1", "a2", "a3", "a4"].map(|container| Known { container, netns: None });
        let error = find("a", &many, |_, _| false).expect_err("ambiguous");
        assert_eq!(error, "\"a\" means 4 containers: a1, a2, a3, …; write more of the ID");
    }

    #[test]
    fn paths_to_one_file_are_the_same() {
        assert!(is_same_file("/proc/self/ns/net", "/proc/self/ns/net"));
        assert!(!is_same_file("/proc/self/ns/net", "/proc/self/ns/mnt"));
        assert!(!is_same_file("/nowhere", "/nowhere"));
    }

    fn said(life: Life, outcome: RepairOutcome) -> Vec<String> {
        let at = cni_plugin::ledger::parse_attachment(&mut "n1 c1 eth0".split(' ')).expect("an attachment");
        let (cached, file) = (Cached::of_record(at, []), crate::result_cache::CacheFile::of_test());
        of_attached(&Attached { cached, file, life, outcome }).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_dead_or_unclear_has_a_remedy() {
        let dead = said(Life::Dead, RepairOutcome::Gone(String::new()));
        assert!(dead[0].ends_with("-> cni-plugins gc --remove --network n1\n"), "{dead:?}");
        let unclear = said(Life::Unknown("a gap".to_owned()), RepairOutcome::Skipped(String::new()));
        assert!(unclear[0].contains("it is unclear whether it lives: a gap\n"), "{unclear:?}");
    }
}
