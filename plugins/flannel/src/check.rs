//! CHECK: compares the addresses with the lease, which may have changed, and calls the delegate, which checks the interface.

use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure};
use cni_core::request::{Command, Request};
use cni_interface::verify;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::delegate_config::DelegateConfig;
use crate::lease::SubnetLease;
use crate::state;

/// The lease has changed: other hosts no longer send the container's packets to this host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is not in the lease of this host any more; {path} has {}", subnets.join(", "))]
pub struct StaleLease {
    address: IpAddr,
    path: String,
    subnets: Vec<String>,
}

impl Failure for StaleLease {
    fn code(&self) -> Code {
        Code::CheckFailed
    }

    fn details(&self) -> String {
        "flanneld has got another subnet: create the container again".to_owned()
    }
}

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let lease = SubnetLease::load(&config.subnet_file, host);
    let composed = match state::saved(&config.data_dir, &request.attachment()?, host)? {
        Some(composed) => composed,
        None => DelegateConfig::new(&config, lease.as_ref().map_err(|_| lost_state(&config))?)?,
    };
    let result = verify::prev_result(request)?;
    if let Ok(lease) = &lease {
        let given = composed.subnets();
        let addresses = result.ips.iter().map(|ip| ip.address.address());
        let mut from_lease = addresses.filter(|address| given.iter().any(|subnet| subnet.contains(*address)));
        if let Some(address) = from_lease.find(|address| !lease.has(*address)) {
            let subnets = lease.subnets.iter().map(|subnet| subnet.network().to_string()).collect();
            return Err(StaleLease { address, path: config.subnet_file, subnets }.into());
        }
    }
    let composed = match request.config().get("prevResult") {
        Some(result) => composed.with("prevResult", result.clone()),
        None => composed,
    };
    let call = request.with_config(composed.text().into_bytes())?;
    host.delegate(&composed.plugin, Command::Check, Some(&call)).map(|_| ())
}

/// Both the state file and the lease are missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{data_dir} has no state of the container, and {subnet_file} no lease")]
pub struct LostState {
    data_dir: String,
    subnet_file: String,
}

impl Failure for LostState {
    fn code(&self) -> Code {
        Code::CheckFailed
    }
}

fn lost_state(config: &Config) -> LostState {
    LostState { data_dir: config.data_dir.clone(), subnet_file: config.subnet_file.clone() }
}
