//! DEL: has the delegate remove the interface, with the configuration that ADD has kept.
//!
//! Neither the lease nor the keys are needed for that. If the file is lost or torn, the configuration is composed again, from
//! the lease or from `prevResult`.

use cni_core::error::Error;
use cni_core::request::{Command, Request};
use cni_model::plan::Step;
use cni_plugin::host::Host;
use cni_plugin::removal::Removal;

use crate::compose::Composed;
use crate::config::{Config, data_dir_for_del};
use crate::lease::Lease;
use crate::state::{self, Found};

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let Found { composed, is_own: _, removable } =
        state::find(&data_dir_for_del(request), &request.attachment()?, host)?;
    match composed {
        Some(composed) => call(&composed, request, host)?,
        None => del_without_state(request, host)?,
    }
    let mut removal = Removal::new(host);
    for file in removable {
        removal.step(&Step::RemoveStateFile { file, directories: Vec::new() });
    }
    removal.finish()
}

fn call(composed: &Composed, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let call = request.with_config(composed.text().into_bytes())?;
    host.delegate(&composed.plugin, Command::Del, Some(&call)).map(|_| ())
}

/// A configuration that no ADD can have used has added nothing. If neither the lease nor the addresses are known, the delegate's
/// failure is not reported: there may be nothing to remove, and the runtime would try for ever.
fn del_without_state(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let Ok(config) = Config::load(request).inspect_err(|error| log::info!("nothing was added: {}", error.in_full()))
    else {
        return Ok(());
    };
    let lease = known_lease(&config, request, host);
    let composed = match Composed::new(&config, &lease.clone().unwrap_or_default()) {
        Ok(composed) => composed,
        Err(error) => {
            log::info!("nothing was added: {error}");
            return Ok(());
        }
    };
    match call(&composed, request, host) {
        Err(error) if lease.is_none() => {
            log::warn!("{} is called without addresses, and fails: {}", composed.plugin, error.in_full());
            Ok(())
        }
        done => done,
    }
}

/// The lease, or else what is known of it by the addresses of ADD.
fn known_lease(config: &Config, request: &Request, host: &mut dyn Host) -> Option<Lease> {
    let lease = Lease::load(&config.subnet_file, host);
    lease.ok().or_else(|| request.prev_result().ok().flatten().map(|result| Lease::of_result(&result)))
}
