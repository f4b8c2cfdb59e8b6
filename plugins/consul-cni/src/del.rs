//! DEL: removes the chains from a namespace that still exists. It needs neither `prevResult` nor the argument, which
//! Nomad does not send on DEL.

use cni_core::error::Error;
use cni_core::names::ChainName;
use cni_core::request::Request;
use cni_interface::alias::LinkOwner;
use cni_interface::veth;
use cni_model::plan::{Ns, Step};
use cni_netfilter::iptables::IptablesRule;
use cni_netfilter::{RuleRemoval, unless_absent};
use cni_plugin::host::Host;

use crate::entry::FAMILY;
use crate::rules::{CHAINS, PARENTS, TABLE, removal};

/// Removes the rules and chains. What remains is logged, and deleted with the namespace.
pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    if !host.enter_if_exists(request.netns().unwrap_or_default())? {
        return Ok(());
    }
    match is_anothers(request, host) {
        Ok(true) => {}
        Ok(false) => {
            if let Err(error) = remove(host) {
                log::warn!("chains stay in the container's namespace: {}", error.in_full());
            }
        }
        Err(error) => log::warn!("the redirection stays, since its owner is not known: {}", error.in_full()),
    }
    Ok(())
}

/// Whether the path of the namespace leads to another container by now, according to the host's end of its interface.
fn is_anothers(request: &Request, host: &mut dyn Host) -> Result<bool, Error> {
    let at = request.attachment()?;
    let Some(link) = host.link(Ns::Container, &at.ifname)? else { return Ok(false) };
    let end = veth::host_end(&link, host)?;
    Ok(end.is_some_and(|end| LinkOwner::of(&end, &at) == LinkOwner::Another))
}

/// Removes everything in one batch. The reference makes its chains first, so without a chain there is nothing to
/// remove. A user inside the container may jump to our chains from other rules: then all stay, empty.
fn remove(host: &mut dyn Host) -> Result<(), Error> {
    for chain in CHAINS {
        if list(host, chain)?.is_some() {
            let mut listed = Vec::new();
            for parent in PARENTS {
                listed.extend(entries(parent, host)?);
            }
            let removal = RuleRemoval::from(removal(listed)).known();
            return host.apply(&Step::RemoveRules { ns: Ns::Container, removal }).map(drop);
        }
    }
    Ok(())
}

/// The rules of a chain that jump to ours.
fn entries(parent: &'static str, host: &mut dyn Host) -> Result<Vec<IptablesRule>, Error> {
    let mut rules = list(host, parent)?.unwrap_or_default();
    rules.retain(|rule| CHAINS.iter().any(|chain| rule.jumps_to(&ChainName::fixed(chain))));
    Ok(rules)
}

/// The rules of a chain; `None` if it does not exist.
fn list(host: &mut dyn Host, chain: &'static str) -> Result<Option<Vec<IptablesRule>>, Error> {
    let listed = host.netfilter(Ns::Container)?.iptables().list(FAMILY, TABLE, &ChainName::fixed(chain));
    Ok(unless_absent(listed)?.flatten())
}
