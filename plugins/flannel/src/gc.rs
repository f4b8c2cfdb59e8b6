//! GC: has the delegate remove what belongs to no valid attachment, and removes the state files of those.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::compose::Composed;
use crate::config::{Config, data_dir_for_del};
use crate::lease::Lease;
use crate::state;

/// The list of valid attachments, and its older name.
const LISTS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

pub fn gc(request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    if removal.attempt(|host| call(request, host)).is_some() {
        let directory = data_dir_for_del(request);
        let valid = valid.of_network(&request.network);
        let network = request.network.as_str();
        let stale = removal.attempt(|host| state::stale_files(&directory, network, valid, host));
        stale.unwrap_or_default().iter().for_each(|step| removal.step(step));
    }
    removal.finish()
}

fn call(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let lease = Lease::load(&config.subnet_file, host).unwrap_or_default();
    let mut composed = Composed::new(&config, &lease)?;
    for key in LISTS {
        if let Some(list) = request.config().get(key) {
            composed = composed.with(key, list.clone());
        } else if request.config().has_key(key) {
            composed = composed.with(key, cni_core::json::Json::Null);
        }
    }
    let call = request.with_config(composed.text().into_bytes())?;
    host.delegate(&composed.plugin, Command::Gc, Some(&call)).map(|_| ())
}
