//! The record that an attachment has masquerade rules. DEL needs it, since the configuration may have changed. Without
//! a record, DEL of every container would have to read a long chain, or start a program.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::{Attachment, NetworkName};
use cni_core::valid::ValidAttachments;
use cni_model::plan::Step;
use cni_model::record::{RecordKey, RecordKind};
use cni_plugin::host::Host;
use cni_plugin::owner;
use cni_plugin::removal::Removal;

use super::iptables;

/// The words of [`owner::text`].
const OWNER_WORDS: usize = 3;

const MASQUERADES: RecordKind = RecordKind::new("masquerades");

fn key(at: &Attachment) -> RecordKey {
    RecordKey::of_group(MASQUERADES, at.network.as_str(), &owner::text(at))
}

/// The step that writes the record: the names of the attachment, its addresses, and those of earlier ADDs without a DEL.
pub fn write(at: &Attachment, addresses: &[Cidr], earlier: &[IpAddr]) -> Step {
    let added: Vec<IpAddr> = addresses.iter().map(|cidr| cidr.address()).collect();
    let words = added.iter().chain(earlier.iter().filter(|one| !added.contains(one))).map(ToString::to_string);
    let text = [owner::text(at)].into_iter().chain(words).collect::<Vec<_>>().join(" ");
    Step::WriteRecord { key: key(at), text }
}

/// The addresses that ADD, and earlier ones without a DEL, have made rules for. None without a record.
pub fn addresses(at: &Attachment, host: &mut dyn Host) -> Result<Vec<IpAddr>, Error> {
    let text = host.records().read(&key(at))?.unwrap_or_default();
    Ok(text.split(' ').skip(OWNER_WORDS).filter_map(|word| word.parse().ok()).collect())
}

/// The step that removes the record.
pub fn forget(at: &Attachment) -> Step {
    Step::RemoveRecord { key: key(at) }
}

/// Whether a masquerade of the attachment is recorded.
pub fn is_recorded(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    Ok(host.records().read(&key(at))?.is_some())
}

/// Removes the records of a network that name no valid attachment, and the jumps to a chain that another interface of the container keeps.
///
/// # Errors
/// The first failure; one record does not keep the others.
pub fn remove_stale(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let group = RecordKey::group(network.as_str());
    let names = host.records().names(MASQUERADES)?;
    let mut removal = Removal::new(host);
    for name in names.iter().filter(|name| name.starts_with(&group)) {
        removal.attempt(|host| {
            let key = RecordKey::new(MASQUERADES, name)?;
            let owner = host.records().read(&key)?.and_then(|text| owner::parse(&mut text.split(' ')));
            let is_valid = |at: &Attachment| valid.contains(at.container.as_str(), Some(at.ifname.as_str()));
            if owner.as_ref().is_some_and(is_valid) {
                return Ok(());
            }
            if let Some(at) = owner.filter(|at| valid.contains(at.container.as_str(), None)) {
                let own = addresses(&at, host)?;
                for family in iptables::families_of(&own) {
                    host.apply(&Step::remove_rules(iptables::remove_listed(&at, family, &own)))?;
                }
            }
            host.apply(&Step::RemoveRecord { key }).map(drop)
        });
    }
    removal.finish()
}
