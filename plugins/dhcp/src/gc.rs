//! GC: has the daemon give back what the network's valid attachments do not have. Without a daemon there is nothing.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;

use crate::ask;
use crate::config::socket_of;
use crate::protocol::Verb;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let socket = socket_of(request)?;
    let kept = valid.of_network(&request.network).map(|at| (at.container.to_string(), at.ifname.to_string()));
    let verb = Verb::Gc { network: request.network.to_string(), valid: kept.collect() };
    ask::to_do_if_there(&ask::call(&socket, verb), host)?;
    Ok(())
}
