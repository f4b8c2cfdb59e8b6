//! DEL: calls the delegate, which removes the interface, with the configuration that ADD has saved.
//!
//! This needs neither the lease nor the keys. If the state file is missing or torn, the configuration is composed again, from the
//! lease or from `prevResult`.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_model::plan::Step;
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::config::{Config, data_dir_for_del};
use crate::delegate_config::{BRIDGE, DelegateConfig};
use crate::lease::SubnetLease;
use crate::state::{self, SavedState};

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let SavedState { composed, is_own: _, removable } =
        state::find(&data_dir_for_del(request), &request.attachment()?, host)?;
    match composed {
        Some(composed) => call(composed, request, host)?,
        None => del_without_state(request, host)?,
    }
    let mut removal = Removal::new(host);
    for file in removable {
        removal.step(&Step::RemoveStateFile { file, directories: Vec::new() });
    }
    removal.finish()
}

/// The result of ADD, which the saved configuration lacks, says which interface is the attachment's.
fn call(composed: DelegateConfig, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let composed = composed.with_result_of(request);
    let call = request.with_config(composed.text().into_bytes())?;
    host.delegate(&composed.plugin, Command::Del, Some(&call)).map(|_| ())
}

/// An invalid configuration has added nothing, since ADD refuses it. If both the lease and the addresses are unknown, only bridge is
/// called, which finds by names what it has made, and its failure is not reported: there may be nothing to remove, and the runtime would
/// repeat DEL forever.
fn del_without_state(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let Ok(config) = Config::load(request).inspect_err(|error| log::info!("nothing was added: {}", error.in_full()))
    else {
        return Ok(());
    };
    let lease = lease_or_result(&config, request, host);
    let composed = match DelegateConfig::new(&config, lease.as_ref()) {
        Ok(composed) if lease.is_none() && composed.plugin != BRIDGE => {
            log::info!("{} is not called: nothing is known of what it was called with", composed.plugin);
            return Ok(());
        }
        Ok(composed) => composed,
        Err(error) => {
            log::info!("nothing was added: {error}");
            return Ok(());
        }
    };
    match call(composed, request, host) {
        Err(error) if lease.is_none() => {
            log::warn!("{BRIDGE} was called without addresses and failed: {}", error.in_full());
            Ok(())
        }
        done => done,
    }
}

/// The lease, or one with the subnets of `prevResult`.
fn lease_or_result(config: &Config, request: &Request, host: &mut dyn Host) -> Option<SubnetLease> {
    let lease = SubnetLease::load(&config.subnet_file, host);
    lease.ok().or_else(|| request.prev_result().ok().flatten().map(|result| SubnetLease::of_result(&result)))
}
