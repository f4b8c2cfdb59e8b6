//! STATUS: whether flanneld has written the lease, and the delegate is ready.

use cni_core::error::{Code, Error, Failure};
use cni_core::request::{Command, Request};
use cni_plugin::host::Host;

use crate::compose::Composed;
use crate::config::Config;
use crate::lease::{Lease, LeaseError};

/// There is no lease yet, or none that can be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoLease(LeaseError);

impl Failure for NoLease {
    fn code(&self) -> Code {
        Code::NotAvailable
    }

    fn details(&self) -> String {
        self.0.details()
    }
}

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let lease = Lease::load(&config.subnet_file, host).map_err(NoLease)?;
    let composed = Composed::new(&config, &lease)?;
    let call = request.with_config(composed.text().into_bytes())?;
    host.delegate(&composed.plugin, Command::Status, Some(&call)).map(|_| ())
}
