//! DEL: has the daemon give the address back. Where there is no daemon, what it has kept of the lease is removed, so that it
//! does not come back to it.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_model::plan::Step;
use cni_model::state_file::StateFile;
use cni_plugin::host::Host;

use crate::ask::{self, Presence};
use crate::config::{leases_of, socket_of};
use crate::key::LeaseKey;
use crate::protocol::Verb;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let socket = socket_of(request)?;
    let key = LeaseKey::of(&request.attachment()?);
    match ask::to_do_if_there(&ask::call(&socket, Verb::Del { key: key.clone() }), host)? {
        Presence::There => Ok(()),
        Presence::Absent => forget(&socket, &key, host),
    }
}

fn forget(socket: &str, key: &LeaseKey, host: &mut dyn Host) -> Result<(), Error> {
    let file = StateFile::new(&leases_of(socket), &key.file_name())?;
    if host.files().state_file(&file)?.is_some() {
        log::warn!("no daemon answers at {socket}, so the DHCP server keeps the lease of {key} until it ends");
        host.apply(&Step::RemoveStateFile { file, directories: Vec::new() })?;
    }
    Ok(())
}
