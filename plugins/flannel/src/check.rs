//! CHECK: compares the addresses with the lease, which may have changed, and calls the delegate, which checks the interface.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::{Command, Request};
use cni_interface::verify;
use cni_plugin::host::Host;

use crate::config::Config;
use crate::delegate_config::DelegateConfig;
use crate::lease::{LeaseError, SubnetLease};
use crate::state;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let lease = SubnetLease::load(&config.subnet_file, host);
    let lost_state = |error: &LeaseError| {
        let Config { data_dir, subnet_file, .. } = &config;
        fail!(CheckFailed, "{data_dir} has no state of the container, and {subnet_file} no lease", details: "{error}")
    };
    let composed = match state::saved(&config.data_dir, &request.attachment()?, host)? {
        Some(composed) => composed,
        None => DelegateConfig::new(&config, lease.as_ref().map_err(lost_state)?)?,
    };
    let result = verify::prev_result(request)?;
    if let Ok(lease) = &lease {
        let given = composed.subnets();
        let addresses = result.ips.iter().map(|ip| ip.address.address());
        let mut from_lease = addresses.filter(|address| given.iter().any(|subnet| subnet.contains(*address)));
        if let Some(address) = from_lease.find(|address| !lease.has(*address)) {
            let subnets: Vec<String> = lease.subnets.iter().map(|subnet| subnet.network().to_string()).collect();
            let has = format!("{} has {}", config.subnet_file, subnets.join(", "));
            let details = "flanneld has got another subnet: create the container again";
            let text = format!("{address} is not in the lease of this host any more");
            return Err(fail!(CheckFailed, "{text}; {has}", details: "{details}"));
        }
    }
    let composed = composed.with_result_of(request);
    let call = request.with_config(composed.text().into_bytes())?;
    host.delegate(&composed.plugin, Command::Check, Some(&call)).map(|_| ())
}
