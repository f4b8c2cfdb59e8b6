//! What others have removed of an attachment's rules, whoever keeps them.
//!
//! Who that is was decided by ADD and is written down, and stays so: firewalld may be about to start, or to
//! end. An address that is another's by now is passed over.

use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;

use crate::config::{Config, Keys};
use crate::missing::observe_missing;
use crate::{FirewallError, keepers, plan};

/// The rules of an attachment that are not complete: one part for each keeper.
///
/// # Errors
/// When a record or a packet filter cannot be read.
pub fn find_missing(request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
    let config = Config::try_from(request.decode::<Keys>()?)?;
    let prev_result = request.prev_result()?.ok_or(FirewallError::NoPrevResult)?;
    let owner = request.attachment()?;
    let addresses = not_of_others(plan::addresses(&prev_result), &owner, host)?;
    let mut parts = Vec::new();
    for (keeper, addresses) in keepers::observe_kept(&config, &owner, &addresses, host)? {
        let wanted = plan::wanted(&config, &keeper, &addresses, &prev_result)?;
        if let Some(missing) = observe_missing(&keeper, &addresses, &wanted, host)? {
            let plan = plan::let_through(&keeper, &owner, addresses, wanted);
            parts.push(MissingPart { missing: missing.made(), plan });
        }
    }
    Ok(parts)
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
