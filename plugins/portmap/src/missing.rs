//! Finds missing rules of a container's port mappings, and of the protection of the host's loopback address: CHECK
//! reports them, and `repair` restores them. `route_localnet` is not a rule, and is not restored.

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_model::plan::{Ns, Plan, Step};
use cni_netfilter::flows::PortChange;
use cni_netfilter::{Backend, MissingRule, RulePosition, Ruleset, unless_absent};
use cni_plugin::host::Host;
use cni_plugin::missing::{MissingPart, MissingRecords};

use crate::add::{lead, localnet_target, observe_link};
use crate::config::Config;
use crate::input::{Input, NO_RESULT};
use crate::{contested, iptables, localnet, nftables};

/// The rules of an attachment that are not complete, and the guard if it needs one.
pub fn find_missing(request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
    let input = Input::read(request, NO_RESULT, host)?;
    let mut parts = Vec::new();
    if let Some(target) = localnet_target(&input)
        && let Some(guard) = missing_guard(host)?
        && observe_link(host, target)?.is_some()
    {
        parts.push(guard);
    }
    for target in input.mapped() {
        parts.extend(missing_mapping(&input, target, host)?);
    }
    Ok(parts)
}

/// The records of the ports. They come after the rules, which are restored even if records cannot be written.
pub fn find_missing_records(
    request: &Request,
    is_next: &dyn Fn(&Attachment) -> bool,
    host: &mut dyn Host,
) -> Result<MissingRecords, Error> {
    let input = Input::read(request, NO_RESULT, host)?;
    contested::find_missing_records(request, &input, is_next, host)
}

/// As in ADD, a host without nf_tables has no guard.
fn missing_guard(host: &mut dyn Host) -> Result<Option<MissingPart>, Error> {
    let guard = Ruleset::from(localnet::guard());
    let Some(missing) = unless_absent(guard.missing(host.netfilter(Ns::Host)?))? else {
        log::warn!(
            "containers can reach what listens on the host's loopback: \
             the kernel has no nf_tables, which would prevent it"
        );
        return Ok(None);
    };
    Ok(missing.map(|missing| {
        let mut plan = Plan::default();
        plan.shared(Step::ensure_rules(guard));
        MissingPart { missing: missing.to_string(), plan }
    }))
}

/// The missing rules of a mapping, and the record of the chain. Rules of the reference count as complete, as in CHECK, and are replaced
/// if incomplete.
fn missing_mapping(input: &Input, target: Cidr, host: &mut dyn Host) -> Result<Option<MissingPart>, Error> {
    let Some(MissingMapping { missing, family }) = observe_missing(host, input, target)? else { return Ok(None) };
    let Input { config, at, .. } = input;
    let mut plan = Plan::default();
    if config.backend == Backend::Nftables
        && let Some(unwanted) = nftables::observe_superseded(host, config, at, family)?
    {
        plan.within(Step::remove_rules(unwanted));
    }
    lead(&mut plan, input, target, &contested::observe(input, host), PortChange::Restored);
    if config.backend == Backend::Iptables {
        input.chains.claim().into_iter().for_each(|step| plan.owned(step));
    }
    Ok(Some(MissingPart { missing: missing.to_string(), plan }))
}

/// Looks for what a container needs in the family of its address: the first rule that is missing, unless the
/// container has all that the reference makes. Where the configuration names no back end, rules in either are enough: iptables may have
/// become usable since ADD, or unusable.
pub fn observe_missing(host: &mut dyn Host, input: &Input, target: Cidr) -> Result<Option<MissingMapping>, Error> {
    let Config { backend, other, .. } = input.config;
    let Some(missing) = missing_by(backend, host, input, target)? else { return Ok(None) };
    if let Some(other) = other
        && missing_by(other, host, input, target).is_ok_and(|missing| missing.is_none())
    {
        return Ok(None);
    }
    Ok(Some(MissingMapping { family: target.family(), missing }))
}

fn missing_by(
    backend: Backend,
    host: &mut dyn Host,
    input: &Input,
    target: Cidr,
) -> Result<Option<MissingRule>, Error> {
    let Input { config, at, chains, .. } = input;
    Ok(match backend {
        Backend::Iptables => Ruleset::from(iptables::ensure(config, at, &chains.chain(), target, RulePosition::Back))
            .missing(host.netfilter(Ns::Host)?)?,
        Backend::Nftables => nftables::observe_missing(host, config, at, target)?,
    })
}

/// The first missing rule.
#[derive(Debug, thiserror::Error)]
#[error("could not check {} dnat: {}", family.word(), words(missing))]
pub struct MissingMapping {
    family: Family,
    missing: MissingRule,
}

impl Failure for MissingMapping {
    fn code(&self) -> Code {
        Code::CheckFailed
    }

    fn details(&self) -> String {
        self.missing.proof()
    }
}

/// The rule in the reference's words, without its chain in those of the rule itself.
fn words(missing: &MissingRule) -> String {
    match missing {
        MissingRule::Iptables { family: _, table, rule } => {
            let specification = rule.specification();
            let (chain, words) = specification.split_once(' ').unwrap_or((&specification, ""));
            format!("rule [{words}] in chain {chain} not found in table {table}")
        }
        MissingRule::Nftables(rule) => format!("rule [{rule}] not found in chain {}", rule.chain),
        MissingRule::Elements(elements) => format!("element [{elements}] not found"),
    }
}
