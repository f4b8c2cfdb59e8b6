//! GC: removes the ifbs of attachments that are not valid. The limits of what containers receive are deleted with
//! their veths.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_interface::alias;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::namespace::Life;
use cni_plugin::removal::Removal;

use crate::del::removal_of;
use crate::ifb::{self, IfbNames};

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let links = host.links(Ns::Host, LinkQuery::Kind(ifb::KIND))?;
    let (noted, unsaid): (Vec<Link>, Vec<Link>) = links.into_iter().partition(is_noted);
    let mut stale = stale_by_alias(noted, request, valid);
    stale.extend(stale_without_alias(unsaid, request, valid, host)?);
    let mut removal = Removal::new(host);
    for ifb in stale {
        if let Some(plan) = removal.attempt(|host| removal_of(&ifb, None, host)) {
            removal.in_order(&plan);
        }
    }
    removal.finish()
}

fn is_noted(link: &Link) -> bool {
    link.alias.is_some()
}

fn stale_by_alias(mut links: Vec<Link>, request: &Request, valid: &ValidAttachments) -> Vec<Link> {
    let kept: Vec<Attachment> = valid.of_network(&request.network).collect();
    let is_stale = |alias: &String| alias::is_stale(alias, &request.network, &kept);
    links.retain(|link| link.alias.as_ref().is_some_and(is_stale));
    links
}

/// The ifbs of the reference that no packets are redirected to. The reference sets no alias, so their network is
/// unknown; but an ifb with such a name and without packets from any veth is of use to no network, unless an ADD in another network has
/// just made it.
fn stale_without_alias(
    mut links: Vec<Link>,
    request: &Request,
    valid: &ValidAttachments,
    host: &mut dyn Host,
) -> Result<Vec<Link>, Error> {
    links.retain(ifb::has_name);
    if links.is_empty() {
        return Ok(links);
    }
    let used = ifb::targets(host)?;
    let mut kept: Vec<Attachment> = valid.of_network(&request.network).collect();
    for record in AttachmentRecord::all(host.records())? {
        if record.at.network != request.network && record.life(host) != Life::Dead {
            kept.push(record.at);
        }
    }
    let kept = kept.iter().map(IfbNames::of).collect::<Result<Vec<_>, _>>()?;
    let is_kept = |link: &Link| {
        kept.iter().any(|names| [&names.shared, &names.own].iter().any(|name| name.as_str() == link.name))
    };
    links.retain(|link| !used.contains(&link.index) && !is_kept(link));
    Ok(links)
}
