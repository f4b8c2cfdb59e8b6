//! CHECK: reports the first thing that is missing of what lets the container's traffic through, in any back end. `repair` restores all.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_model::plan::{Ns, Sharing};
use cni_netfilter::{MissingRule, Ruleset};
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;
use cni_plugin::namespace;

use crate::add::{let_through, rulesets};
use crate::claims::{self, RuleBackend};
use crate::config::Config;
use crate::locate::{self, addresses, prev_result};

/// Looks for what ADD has made.
pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let prev_result = prev_result(request)?;
    let (own, addresses) = (host.ledger().entry(&request.attachment()?)?, addresses(&prev_result));
    for (backend, addresses) in locate::observe_backends(&config, own.as_ref(), &addresses, host)? {
        let rulesets = rulesets(&config, &backend, &addresses, &prev_result)?;
        if let Some(missing) = observe_missing(&backend, &addresses, &rulesets, host)? {
            return Err(missing.error);
        }
    }
    Ok(())
}

/// The rules of an attachment that are not complete: one part for each back end. Which it is was decided by ADD and
/// is recorded, and stays so: firewalld may be about to start, or to end. An address that only another has claimed
/// is skipped, unless that one is gone: the reference's DEL leaves our claim, and its ADD makes none.
pub fn find_missing(request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
    let config = Config::load(request)?;
    let prev_result = prev_result(request)?;
    let owner = request.attachment()?;
    let own = host.ledger().entry(&owner)?;
    let addresses = not_of_others(addresses(&prev_result), &owner, host)?;
    let mut parts = Vec::new();
    for (backend, addresses) in locate::observe_backends(&config, own.as_ref(), &addresses, host)? {
        let rulesets = rulesets(&config, &backend, &addresses, &prev_result)?;
        if let Some(missing) = observe_missing(&backend, &addresses, &rulesets, host)? {
            let home = namespace::observe(request, host)?;
            let claim = claims::write(&owner, home.as_ref(), own.as_ref(), &addresses, &backend);
            let plan = let_through(claim, &backend, &addresses, rulesets);
            parts.push(MissingPart { missing: missing.made, plan });
        }
    }
    Ok(parts)
}

fn not_of_others(addresses: Vec<IpAddr>, owner: &Attachment, host: &mut dyn Host) -> Result<Vec<IpAddr>, Error> {
    let mut own = Vec::new();
    for address in addresses {
        let claimants = locate::observe_claimants(address, owner, host)?.staying;
        match claimants.first() {
            Some(other) if claimants.iter().all(|one| one.at != *owner) => {
                let other = &other.at.container;
                log::warn!("{address} belongs to container {other} now; its rules stay as they are");
            }
            Some(_) | None => own.push(address),
        }
    }
    Ok(own)
}

/// The first missing thing.
struct MissingAccess {
    /// What `repair` restores, in the words that an administrator would use to look for it.
    made: String,
    /// In the reference's words where it has some.
    error: Error,
}

/// The rule, as the reference prints it: its chain if it is everybody's, and no quotes.
fn words(missing: &MissingRule, sharing: Sharing) -> String {
    match missing {
        MissingRule::Iptables { rule, .. } => {
            let specification = rule.specification().replace('"', "");
            let (chain, words) = specification.split_once(' ').unwrap_or((&specification, ""));
            match sharing {
                Sharing::Shared => format!("{chain} rule [{words}]"),
                Sharing::Owned | Sharing::Within => format!("rule [{words}]"),
            }
        }
        MissingRule::Nftables(rule) => format!("{} rule [{rule}]", rule.chain),
        MissingRule::Elements(elements) => format!("element [{elements}]"),
    }
}

/// Whether other containers share the rule.
fn sharing(wanted: &Ruleset, missing: &MissingRule) -> Sharing {
    match (wanted, missing) {
        (Ruleset::Iptables(want), MissingRule::Iptables { rule, .. }) if want.rules.contains(rule) => Sharing::Owned,
        (Ruleset::Iptables(_) | Ruleset::Nftables(_), _) => Sharing::Shared,
    }
}

/// Looks for the sources and the rules that a back end is to hold for some addresses.
///
/// # Errors
/// When they cannot be looked for.
fn observe_missing(
    backend: &RuleBackend,
    addresses: &[IpAddr],
    wanted: &[Ruleset],
    host: &mut dyn Host,
) -> Result<Option<MissingAccess>, Error> {
    if let RuleBackend::Firewalld(zone) = backend {
        for address in addresses {
            if !host.firewalld().has_source(zone, *address)? {
                let address = Cidr::host(*address);
                let proof = format!("this fails: firewall-cmd --zone={zone} --query-source={address}");
                let text = format!("failed to find the address {address} in {zone} zone");
                let error = fail!(CheckFailed, "{text}", details: "{proof}");
                return Ok(Some(MissingAccess { made: format!("firewalld source {address} of zone {zone}"), error }));
            }
        }
    }
    for wanted in wanted {
        if let Some(missing) = wanted.missing(host.netfilter(Ns::Host)?)? {
            let (rule, proof) = (words(&missing, sharing(wanted, &missing)), missing.proof());
            let error = fail!(CheckFailed, "expected {rule} not found", details: "{proof}");
            return Ok(Some(MissingAccess { made: missing.to_string(), error }));
        }
    }
    Ok(None)
}
