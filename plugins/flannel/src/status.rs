//! STATUS: whether flanneld has written the lease, and the delegate is ready.

use cni_core::error::{Code, Error, Failure};
use cni_core::request::{Command, Request};
use cni_plugin::host::Host;

use crate::config::Config;
use crate::delegate_config::DelegateConfig;
use crate::lease::{LeaseError, SubnetLease};

/// The lease is missing or invalid.
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
    let lease = SubnetLease::load(&config.subnet_file, host).map_err(NoLease)?;
    let composed = DelegateConfig::new(&config, &lease)?;
    let call = request.with_config(composed.text().into_bytes())?;
    host.delegate(&composed.plugin, Command::Status, Some(&call)).map(|_| ())
}
