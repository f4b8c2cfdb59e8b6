//! A link to be moved back, and the proof that it is the one that ADD moved.

use cni_core::error::Error;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use crate::moved_link::MovedLink;
use crate::proof::{FormerEnd, LinkIdentity, Proof, judge};

/// A link to be moved back.
pub struct LinkToReturn {
    pub ns: Ns,
    pub link: Link,
    pub loan: MovedLink,
    pub verdict: Proof,
}

/// Compares a link with the record.
pub fn find_verdict(ns: Ns, link: &Link, loan: &MovedLink, host: &mut dyn Host) -> Result<Proof, Error> {
    let Some(recorded) = &loan.evidence else { return Ok(Proof::Unproven) };
    let found = LinkIdentity::observe(ns, link, host)?;
    Ok(judge(recorded, &found, find_former_end(recorded, host)?))
}

/// Examines the former other end of the link. The kernel does not reuse indices of the host.
pub fn find_former_end(recorded: &LinkIdentity, host: &mut dyn Host) -> Result<FormerEnd, Error> {
    let place = recorded.other_end.filter(|end| end.netns.is_none()).and_then(|end| end.index);
    let Some(index) = place else { return Ok(FormerEnd::Unknown) };
    Ok(host.link_by_index(Ns::Host, index)?.map_or(FormerEnd::Unknown, |_| FormerEnd::InPlace))
}
