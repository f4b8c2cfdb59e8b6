//! GC: asks the daemon to release the network's leases that belong to no valid attachment. Without a daemon there are
//! none.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;

use crate::ask;
use crate::config::socket_of;
use crate::protocol::Operation;

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let socket = socket_of(request)?;
    let kept = valid.of_network(&request.network).map(|at| (at.container.to_string(), at.ifname.to_string()));
    let verb = Operation::Gc { network: request.network.to_string(), valid: kept.collect() };
    ask::to_do_if_there(&ask::call(&socket, verb), host)?;
    Ok(())
}
