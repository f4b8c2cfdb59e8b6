//! What is wrong with a container, and which command helps.

use std::borrow::Cow;

use cni_builtin::call_delegate;
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_linux::host::LinuxHost;
use cni_plugin::namespace::Life;
use cni_plugin::run::Plugin;

use super::super::{Finding, contested_port, loopback_down};
use crate::cache::{Cached, PluginConfig};
use crate::calls::PluginFolders;
use crate::contested;
use crate::inventory::{Attached, Inventory, Leftover};
use crate::output::error_line;
use crate::repair::{NamedPart, RepairOutcome};

const TOPIC: &str = "container";

/// What is wrong, or that nothing is.
pub fn findings(container: &str, found: &Inventory) -> Vec<Finding> {
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
    let Ok(request) = cached.check(config, plugin, folders) else { return Ok(()) };
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

    fn said(life: Life, outcome: RepairOutcome) -> Vec<String> {
        let at = cni_plugin::owner::parse(&mut "n1 c1 eth0".split(' ')).expect("an attachment");
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
