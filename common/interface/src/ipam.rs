//! Calls the IPAM plugin, for each command of an interface plugin.
//!
//! If ADD fails, DEL of the IPAM plugin is called, even if the IPAM plugin itself failed (SPEC, section 4). It is not
//! called if the attachment may have had an address before: DEL would release that address, and cut off a container
//! that is still running. An address that such a container still has in an earlier namespace is refused.

use std::net::IpAddr;

use cni_core::error::{Code, Error};
use cni_core::fail;
use cni_core::json::Json;
use cni_core::names::Attachment;
use cni_core::request::{Command, Request};
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::removal::Removal;
use serde::Deserialize;

use crate::earlier::{self, AddressInUse};
use crate::keys::IpamKey;

/// Calls the IPAM plugin with ADD, and reads its result. The container's namespace is entered.
pub fn add(plugin: &str, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
    let at = request.attachment()?;
    let answer = journal.host().delegate(plugin, Command::Add, None).and_then(|output| {
        let result = parse_result(plugin, &output, request)?;
        refuse_in_use(plugin, &result, &at, journal.host())?;
        Ok(result)
    });
    if !answer.as_ref().is_err_and(|error| had_address(error, &at, journal.host())) {
        journal.release_delegate(plugin);
    }
    answer
}

/// Refuses an address that the attachment still has in the namespace of an earlier ADD. The plugin `host-local` does not give such an
/// address, and `static` cannot know. `dhcp` is exempt: its server has given the lease to the new interface by now.
fn refuse_in_use(plugin: &str, result: &CniResult, at: &Attachment, host: &mut dyn Host) -> Result<(), Error> {
    if speaks_by_link(plugin) {
        return Ok(());
    }
    let given: Vec<IpAddr> = result.ips.iter().map(|ip| ip.address.address()).collect();
    let found = earlier::find_recorded(at, &given, host).unwrap_or_else(|error| {
        log::warn!("an earlier namespace of {} cannot be examined: {}", at.container, error.in_full());
        None
    });
    let Some(AddressInUse { address, place }) = found else { return Ok(()) };
    let container = &at.container;
    Err(fail!(
        AddressHeld,
        "{plugin} has given {address}, which {container} already has in another network namespace",
        details: "the earlier namespace is {place}; delete the container, or end what keeps that namespace"
    ))
}

/// Parses the result of a delegate's ADD.
///
/// # Errors
/// If its output is not a result.
pub fn parse_result(plugin: &str, output: &[u8], request: &Request) -> Result<CniResult, Error> {
    let json = Json::parse(output)
        .map_err(|error| fail!(Decoding, "failed to unmarshal raw result of {plugin}", details: "{error}"))?;
    CniResult::parse_any(&json, request.version).map_err(|error| {
        let details = error.in_full();
        fail!(Decoding, "{plugin} returned an invalid result", details: "{details}")
    })
}

/// Whether the attachment may have had an address before its failed ADD: the IPAM plugin says so, or there was an ADD
/// without a DEL. An unknown answer counts as such an ADD.
fn had_address(error: &Error, at: &Attachment, host: &mut dyn Host) -> bool {
    error.code().number() == Code::AddressHeld.number()
        || was_added(at, host).unwrap_or_else(|unknown| {
            log::warn!("the IPAM plugin is not called with DEL: {}", unknown.in_full());
            true
        })
}

/// Whether an earlier ADD of the attachment is recorded, or its interface exists. Until the end of this ADD its own
/// record names no interface.
fn was_added(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let record = AttachmentRecord::find(at, host);
    Ok(record.is_some_and(|record| record.link.is_some()) || earlier::has_interface(at, host)?)
}

/// Has the IPAM plugin, if there is one, carry out a command other than ADD.
pub fn delegate(plugin: Option<&str>, command: Command, host: &mut dyn Host) -> Result<(), Error> {
    match plugin {
        Some(plugin) => host.delegate(plugin, command, None).map(|_| ()),
        None => Ok(()),
    }
}

/// Whether an IPAM plugin talks to a server through the container's interface. Such a plugin is called while the
/// interface exists. Others release addresses after the interface is removed, so that no address is assigned while it
/// is in use.
pub fn speaks_by_link(plugin: &str) -> bool {
    plugin == "dhcp"
}

/// DEL: removes the interface by `remove`, and has the IPAM plugin release its addresses, each at its turn. One that speaks
/// by the interface takes the addresses from it first. Another is not called if `remove` returns `None`: the interface may
/// still exist, with addresses that another container would get. The next DEL tries again.
pub fn del_with(request: &Request, removal: &mut Removal<'_>, remove: impl FnOnce(&mut Removal<'_>) -> Option<()>) {
    let first = is_called_first(request);
    if first {
        removal.attempt(|host| forward(request, Command::Del, host));
    }
    if remove(removal).is_some() && !first {
        removal.attempt(|host| forward(request, Command::Del, host));
    }
}

/// GC: the same for the interfaces of all attachments that are not valid. `remove` returns those whose interface could not be
/// removed: the IPAM plugin keeps their addresses. If it returns `None`, nothing is released.
pub fn gc_with(
    request: &Request,
    removal: &mut Removal<'_>,
    remove: impl FnOnce(&mut Removal<'_>) -> Option<Vec<Attachment>>,
) {
    let first = is_called_first(request);
    if first {
        removal.attempt(|host| forward(request, Command::Gc, host));
    }
    if let Some(kept) = remove(removal).filter(|_| !first) {
        removal.attempt(|host| collect(request, &kept, host));
    }
}

/// GC of the IPAM plugin, which keeps the addresses of these attachments as well.
fn collect(request: &Request, kept: &[Attachment], host: &mut dyn Host) -> Result<(), Error> {
    let (false, Some(plugin)) = (kept.is_empty(), plugin_of(request)) else {
        return forward(request, Command::Gc, host);
    };
    let config = ValidAttachments::extend_list(request.config(), kept)?;
    let call = request.with_config(config.to_string().into_bytes())?;
    host.delegate(&plugin, Command::Gc, Some(&call)).map(drop)
}

fn is_called_first(request: &Request) -> bool {
    plugin_of(request).is_some_and(|plugin| speaks_by_link(&plugin))
}

/// The IPAM plugin of a configuration; `None` if the key is missing or cannot be read.
pub(crate) fn plugin_of(request: &Request) -> Option<String> {
    request.decode::<IpamOnly>().ok()?.ipam.plugin()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IpamOnly {
    ipam: IpamKey,
}

/// As [`delegate`], even if the rest of the configuration is invalid: for DEL and GC.
///
/// # Errors
/// If `ipam` or its `type` has the wrong type, and as [`delegate`].
pub fn forward(request: &Request, command: Command, host: &mut dyn Host) -> Result<(), Error> {
    let IpamOnly { ipam } = request.decode()?;
    delegate(ipam.plugin().as_deref(), command, host)
}
