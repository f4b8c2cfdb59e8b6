//! GC: calls GC of the delegate, and removes the state files that belong to no valid attachment.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_core::valid::ValidAttachments;
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::config::{Config, data_dir_for_del};
use crate::delegate_config::DelegateConfig;
use crate::lease::SubnetLease;
use crate::state;

/// The key of the list of valid attachments, and its older name.
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
    let lease = SubnetLease::load(&config.subnet_file, host).ok();
    let mut composed = DelegateConfig::new(&config, lease.as_ref())?;
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
