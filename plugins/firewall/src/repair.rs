//! What others have removed of an attachment's rules, whoever keeps them.
//!
//! Who that is was decided by ADD and is written down, and stays so: firewalld may be about to start, or to
//! end. An address that is another's by now is passed over.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::host::Host;
use cni_core::keeper::Keeper;
use cni_core::names::Attachment;
use cni_core::repair::{Lack, missing_in_nftables, missing_rule};
use cni_core::request::Request;

use crate::config::{Config, Keys};
use crate::plan::{self, Wanted};
use crate::{FirewallError, keepers};

/// The rules of an attachment that are not complete: one lack for each keeper.
///
/// # Errors
/// When a record or a packet filter cannot be read.
pub fn lacks(request: &Request, host: &mut dyn Host) -> Result<Vec<Lack>, Error> {
    let config = Config::try_from(request.decode::<Keys>()?)?;
    let prev_result = request.prev_result()?.ok_or(FirewallError::NoPrevResult)?;
    let owner = request.attachment()?;
    let addresses = not_of_others(plan::addresses(&prev_result), &owner, host)?;
    let mut lacks = Vec::new();
    for (keeper, addresses) in keepers::observe_kept(&config, &owner, &addresses, host)? {
        let wanted = plan::wanted(&config, &keeper, &addresses, &prev_result)?;
        if let Some(missing) = first_missing(&keeper, &addresses, &wanted, host)? {
            lacks.push(Lack { missing, plan: plan::let_through(&keeper, &owner, addresses, wanted) });
        }
    }
    Ok(lacks)
}

fn not_of_others(addresses: Vec<IpAddr>, owner: &Attachment, host: &mut dyn Host) -> Result<Vec<IpAddr>, Error> {
    let mut own = Vec::new();
    for address in addresses {
        match host.address_owner(address)? {
            Some(other) if other != *owner => {
                log::warn!("{address} belongs to container {} by now: its rules stay as they are", other.container);
            }
            Some(_) | None => own.push(address),
        }
    }
    Ok(own)
}

fn first_missing(
    keeper: &Keeper,
    addresses: &[IpAddr],
    wanted: &[Wanted],
    host: &mut dyn Host,
) -> Result<Option<String>, Error> {
    if let Keeper::Firewalld(zone) = keeper {
        for address in addresses {
            if !host.firewalld().has_source(zone, *address)? {
                return Ok(Some(format!("firewalld source {} of zone {zone}", Cidr::host(*address))));
            }
        }
    }
    for wanted in wanted {
        let missing = match wanted {
            Wanted::Iptables(want) => missing_rule(want, host)?,
            Wanted::Nftables(want) => missing_in_nftables(want, host)?,
        };
        if missing.is_some() {
            return Ok(missing);
        }
    }
    Ok(None)
}
