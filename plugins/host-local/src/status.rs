//! STATUS: whether leases can be written. A full range set passes: a runtime reports the network as not ready otherwise, and Kubernetes
//! evicts what runs on the node. `doctor` and `metrics` show full range sets.

use cni_core::error::{Code, Error, Failure as _};
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::store::{MachineIdentity, Store, StoreError};

/// Verifies that leases can be written.
pub fn status(request: &Request, _host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let refused = |source: StoreError| match source {
        StoreError::Io { .. } => {
            let text = format!("leases cannot be written to {}", config.directory.display());
            Error::stated(Code::NotAvailable, text, format!("{source}: {}", source.details()))
        }
        StoreError::Locked { .. } => Error::from(source),
    };
    match Store::existing(&config.directory, MachineIdentity::this()).map_err(refused)? {
        Some(mut store) => store.probe().map_err(refused),
        None => Store::probe_creation(&config.directory).map_err(refused),
    }
}
