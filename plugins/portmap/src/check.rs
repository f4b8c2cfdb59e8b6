//! CHECK: reports the first missing rule of the mappings. `repair` restores all of them, and the protection of the host's loopback address;
//! `route_localnet` is not a rule, and is not restored.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_model::plan::{Ns, Plan, Step};
use cni_netfilter::flows::PortChange;
use cni_netfilter::{Backend, MissingRule, RulePosition, Ruleset, unless_absent};
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;

use crate::add::{lead, localnet_target, observe_link};
use crate::config::Config;
use crate::input::{Input, NO_RESULT};
use crate::{contested, iptables, localnet, nftables};

/// Looks for what ADD has made.
pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let input = Input::read(request, NO_RESULT, host)?;
    for target in input.mapped() {
        if let Some(missing) = observe_missing(host, &input, target)? {
            let (family, rule, proof) = (target.family().word(), words(&missing), missing.proof());
            return Err(fail!(CheckFailed, "could not check {family} dnat: {rule}", details: "{proof}"));
        }
    }
    Ok(())
}

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
    let Some(missing) = observe_missing(host, input, target)? else { return Ok(None) };
    let Input { config, at, .. } = input;
    let mut plan = Plan::default();
    if config.backend == Backend::Nftables
        && let Some(unwanted) = nftables::observe_superseded(host, config, at, target.family())?
    {
        plan.within(Step::remove_rules(unwanted));
    }
    lead(&mut plan, input, target, &contested::observe(input, host), PortChange::Restored);
    if config.backend == Backend::Iptables {
        let record = |part| Step::Record { at: input.at.clone(), namespace: None, parts: vec![part] };
        input.chains.claim().map(record).into_iter().for_each(|step| plan.owned(step));
    }
    Ok(Some(MissingPart { missing: missing.to_string(), plan }))
}

/// Looks for what a container needs in the family of its address: the first rule that is missing, unless the
/// container has all that the reference makes. Where the configuration names no back end, rules in either are enough: iptables may have
/// become usable since ADD, or unusable.
fn observe_missing(host: &mut dyn Host, input: &Input, target: Cidr) -> Result<Option<MissingRule>, Error> {
    let Config { backend, other, .. } = input.config;
    let Some(missing) = missing_by(backend, host, input, target)? else { return Ok(None) };
    if let Some(other) = other
        && missing_by(other, host, input, target).is_ok_and(|missing| missing.is_none())
    {
        return Ok(None);
    }
    Ok(Some(missing))
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
