//! DEL: asks the daemon to release the address. If there is no daemon, DEL removes the daemon's file of the lease, so
//! that a daemon that is started later does not continue with it.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_model::plan::Step;
use cni_model::state_file::StateFile;
use cni_plugin::host::Host;

use crate::ask::{self, DaemonPresence};
use crate::config::{leases_of, socket_of};
use crate::key::LeaseKey;
use crate::protocol::Operation;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let socket = socket_of(request)?;
    let key = LeaseKey::of(&request.attachment()?);
    match ask::to_do_if_there(&ask::call(&socket, Operation::Del { key: key.clone() }), host)? {
        DaemonPresence::There => Ok(()),
        DaemonPresence::Absent => forget(&socket, &key, host),
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
