//! STATUS: whether flanneld has written the lease, and the delegate is ready.

use cni_core::error::{Code, Error, Failure as _};
use cni_core::request::{Command, Request};
use cni_plugin::host::Host;

use crate::config::Config;
use crate::delegate_config::DelegateConfig;
use crate::lease::{LeaseError, SubnetLease};

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let unavailable = |error: LeaseError| Error::stated(Code::NotAvailable, error.to_string(), error.details());
    let lease = SubnetLease::load(&config.subnet_file, host).map_err(unavailable)?;
    let composed = DelegateConfig::new(&config, &lease)?;
    let call = request.with_config(composed.text().into_bytes())?;
    host.delegate(&composed.plugin, Command::Status, Some(&call)).map(|_| ())
}
