//! DEL: removes the chains from a namespace that lives on. It needs neither the argument, which Nomad does not send
//! then, nor `prevResult`.

use cni_core::error::Error;
use cni_core::names::ChainName;
use cni_core::request::Request;
use cni_netfilter::iptables::IptablesRule;
use cni_netfilter::{RuleRemoval, unless_absent};
use cni_plugin::host::{Host, NetnsError};
use cni_plugin::plan::{Ns, Step};

use crate::entry::FAMILY;
use crate::rules::{CHAINS, PARENTS, TABLE, removal};

/// Removes what the container has.
///
/// # Errors
/// What could not be removed.
pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    match host.enter(request.netns().unwrap_or_default()) {
        Ok(()) => remove(host),
        Err(NetnsError::Gone { .. }) => Ok(()),
        Err(error @ NetnsError::Failed { .. }) => Err(error.into()),
    }
}

/// The reference makes its chains first of all, so without one there is nothing.
fn remove(host: &mut dyn Host) -> Result<(), Error> {
    for chain in CHAINS {
        if list(host, chain)?.is_some() {
            let removal = RuleRemoval::from(removal(entries(host)?)).known();
            host.apply(&Step::RemoveRules { ns: Ns::Container, removal })?;
            return Ok(());
        }
    }
    Ok(())
}

/// What leads to our chains. Listed, it goes in the first batch.
fn entries(host: &mut dyn Host) -> Result<Vec<IptablesRule>, Error> {
    let is_ours = |rule: &IptablesRule| CHAINS.iter().any(|chain| rule.jumps_to(&ChainName::fixed(chain)));
    let mut entries = Vec::new();
    for parent in PARENTS {
        entries.extend(list(host, parent)?.unwrap_or_default().into_iter().filter(is_ours));
    }
    Ok(entries)
}

/// The rules of a chain that may not be there.
fn list(host: &mut dyn Host, chain: &'static str) -> Result<Option<Vec<IptablesRule>>, Error> {
    let listed = host.netfilter(Ns::Container)?.iptables().list(FAMILY, TABLE, &ChainName::fixed(chain));
    Ok(unless_absent(listed)?.flatten())
}
