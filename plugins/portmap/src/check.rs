//! CHECK: looks whether all rules of a container are there, and changes nothing.

use std::collections::HashSet;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::firewall::{Ensure, FilterError, Rule, Tables, missing};
use cni_core::host::Host;
use cni_core::names::Attachment;

use crate::config::{Backend, Config};
use crate::{PortmapError, nftables, plan};

/// Up to so many rules are asked for one by one. The nft flavour of iptables answers each time by a walk
/// through the chain: 6000 rules take it more than half a minute, and one listing of them a tenth of a second.
const FEW: usize = 200;

/// Verifies what a container needs in the family of its address.
///
/// # Errors
/// When a rule is missing, which it names.
pub fn verify(host: &mut dyn Host, config: &Config, at: &Attachment, target: Cidr) -> Result<(), Error> {
    let family = target.family();
    let found = match config.backend {
        Backend::Iptables => {
            let wanted = without_listed(host.tables(), plan::ensure(config, at, target))?;
            missing(host.tables(), &wanted)?.map(|rule| PortmapError::Missing { family, rule: rule.clone() })
        }
        Backend::Nftables => nftables::observe_missing(host, config, at, target)?
            .map(|rule| PortmapError::MissingNftables { family, rule }),
    };
    found.map_or(Ok(()), |missing| Err(missing.into()))
}

/// Leaves out what a listing of the container's own chain shows, if that has many rules.
///
/// # Errors
/// When the chain cannot be read.
pub fn without_listed(tables: &mut dyn Tables, mut want: Ensure) -> Result<Ensure, FilterError> {
    if let Some(chain) = want.chain.as_mut().filter(|chain| chain.rules.len() > FEW) {
        let listed = tables.list(want.family, want.table, &chain.name)?.unwrap_or_default();
        let listed: HashSet<Rule> = listed.into_iter().collect();
        chain.rules.retain(|rule| !listed.contains(&rule.canonical()));
    }
    Ok(want)
}
