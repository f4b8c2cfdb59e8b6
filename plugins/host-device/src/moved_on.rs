//! Finding a link that the container has moved on, into a network namespace that it has made itself.

use cni_core::error::Error;
use cni_model::link::Link;
use cni_model::netns::NetnsView;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::{AttachmentRecord, is_of_another};
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::namespace::Life;

use crate::link_to_return::{LinkToReturn, find_former_end, find_verdict};
use crate::moved_link::MovedLink;
use crate::proof::{FormerEnd, LinkIdentity, Proof};

/// Looks for a link, which is neither in its container nor on the host, in all namespaces of the machine but those that are
/// recorded for other containers. Only hardware and one end of a veth can be told from the links of others there. Once the
/// container's own namespace has ended, or is no longer recorded since a DEL has succeeded, the link is left where it is: plugins of
/// others may have given it to another container since, and these record nothing. Logs a warning if there is no such link.
pub fn find(loan: &MovedLink, host: &mut dyn Host) -> Result<Option<LinkToReturn>, Error> {
    if !host.links(Ns::Host, LinkQuery::Called(&loan.name))?.is_empty() {
        return Ok(None);
    }
    if let Some(evidence) = loan.evidence.as_ref()
        && may_live(loan, host)?
        && exists(evidence, host)?
    {
        let own = host.namespaces().identity(Ns::Host)?;
        for view in host.namespaces().survey(evidence.kind.as_deref()).iter().filter(|view| view.identity != own) {
            if let Some(found) = find_in(view, loan, evidence, host)? {
                return Ok(Some(found));
            }
        }
    }
    let hope = if loan.is_hardware() { "; the kernel gives it back when the namespace that has it ends" } else { "" };
    log::warn!("{} is not given back: it is neither in the container nor on the host{hope}", loan.name);
    Ok(None)
}

/// Whether the namespace in which the container got the link may live.
fn may_live(loan: &MovedLink, host: &mut dyn Host) -> Result<bool, Error> {
    let record = AttachmentRecord::find(&loan.attachment()?, host);
    Ok(record.is_some_and(|record| record.life(host) != Life::Dead))
}

/// Whether it is certain that the link exists, and that it can be recognized.
fn exists(evidence: &LinkIdentity, host: &mut dyn Host) -> Result<bool, Error> {
    Ok(match evidence.kind.as_deref() {
        None => evidence.device.is_some() || evidence.permanent_mac.is_some(),
        Some("veth") => find_former_end(evidence, host)? == FormerEnd::InPlace,
        Some(_) => false,
    })
}

fn find_in(
    view: &NetnsView,
    loan: &MovedLink,
    evidence: &LinkIdentity,
    host: &mut dyn Host,
) -> Result<Option<LinkToReturn>, Error> {
    let index = evidence.other_end.and_then(|end| end.index);
    let may_be = |link: &&Link| {
        let leads_there = link.kind.is_none() || link.peer == index;
        link.kind == evidence.kind && link.parent_device == evidence.device && leads_there
    };
    for seen in view.links.iter().filter(may_be) {
        let Some(path) = host.enter_view(view)? else { return Ok(None) };
        if is_of_another(&loan.attachment()?, host)? {
            return Ok(None);
        }
        let Some(link) = host.link_by_index(Ns::Container, seen.index)? else { continue };
        let verdict = find_verdict(Ns::Container, &link, loan, host)?;
        if verdict == Proof::Proven {
            log::warn!("the container has moved {} on: it is given back from {path}", loan.name);
            return Ok(Some(LinkToReturn { ns: Ns::Container, link, loan: loan.clone(), verdict }));
        }
    }
    Ok(None)
}
