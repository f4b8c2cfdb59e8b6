//! The flannel plugin: it makes no interface itself. It reads the lease that `flanneld` has written for this host, composes the
//! configuration of another plugin from it, by default bridge, and calls that plugin. A state file keeps the composed
//! configuration for DEL.

use cni_core::error::{Code, Error, Failure as _};
use cni_core::fail;
use cni_core::json::Json;
use cni_core::names::Attachment;
use cni_core::request::{Command, Request};
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_interface::{earlier, ipam, verify};
use cni_model::plan::{Plan, Step};
use cni_plugin::host::Host;
use cni_plugin::journal::Journal;
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use config::{KIND, data_dir_for_del};
use delegate_config::BRIDGE;
use state::SavedState;

mod config;
mod delegate_config;
mod lease;
mod state;

pub use config::Config;
pub use delegate_config::DelegateConfig;
pub use lease::{LeaseCause, LeaseError, SubnetLease};

/// The plugin.
pub struct Flannel;

impl Plugin for Flannel {
    fn kind(&self) -> &'static str {
        KIND
    }

    /// Its delegate makes the interface, and this plugin holds the locks.
    fn share(&self) -> Share {
        Share::Interface
    }

    fn examine(&self, request: &Request) -> Result<(), Error> {
        Config::load(request).map(|_| ())
    }

    /// Saves the composed configuration, and calls the delegate, which adds the interface.
    fn add(&self, request: &Request, journal: &mut Journal<'_>) -> Result<CniResult, Error> {
        let config = Config::load(request)?;
        let lease = SubnetLease::load(&config.subnet_file, journal.host())?;
        let composed = DelegateConfig::new(&config, &lease)?;
        let call = request.with_config(composed.text().into_bytes())?;
        let at = request.attachment()?;
        let repeated = is_repeated(&config, &at, journal.host())?;
        journal.host().enter(request.netns().unwrap_or_default())?;
        let file = state::file_to_write(&config.data_dir, &at, journal.host())?;
        let mut plan = Plan::default();
        plan.owned(Step::WriteStateFile { file, text: composed.text() });
        journal.apply(&plan)?;
        let answer = journal.host().delegate(&composed.plugin, Command::Add, Some(&call));
        if !repeated && (answer.is_ok() || !interface_exists(request, &at, journal.host())) {
            journal.release_plugin(&composed.plugin, &call);
        }
        ipam::parse_result(&composed.plugin, &answer?, request)
    }

    /// Calls the delegate, which removes the interface, with the configuration that ADD has saved. This needs neither the lease nor the
    /// keys. If the state file is missing or torn, the configuration is composed again, from the lease or from `prevResult`.
    fn del(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let SavedState { composed, is_own: _, removable } =
            state::find(&data_dir_for_del(request), &request.attachment()?, host)?;
        match composed {
            // The result, which the saved configuration lacks, says which interface is the attachment's.
            Some(composed) => call(composed.with_result_of(request), Command::Del, request, host)?,
            None => del_without_state(request, host)?,
        }
        let mut removal = Removal::new(host);
        for file in removable {
            removal.step(&Step::RemoveStateFile { file, directories: Vec::new() });
        }
        removal.finish()
    }

    /// Compares the addresses with the lease, which may have changed, and calls the delegate, which checks the interface.
    fn check(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        let lease = SubnetLease::load(&config.subnet_file, host);
        let lost_state = |error: &LeaseError| {
            let Config { data_dir, subnet_file, .. } = &config;
            fail!(CheckFailed, "{data_dir} has no state of the container, and {subnet_file} no lease", details: "{error}")
        };
        let composed = match state::find(&config.data_dir, &request.attachment()?, host)?.composed {
            Some(composed) => composed,
            None => DelegateConfig::new(&config, lease.as_ref().map_err(lost_state)?)?,
        };
        let result = verify::prev_result(request)?;
        if let Ok(lease) = &lease {
            verify_lease(lease, &config.subnet_file, &composed, &result)?;
        }
        call(composed.with_result_of(request), Command::Check, request, host)
    }

    /// Checks that flanneld has written the lease, and that the delegate is ready.
    fn status(&self, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
        let config = Config::load(request)?;
        let unavailable = |error: LeaseError| Error::stated(Code::NotAvailable, error.to_string(), error.details());
        let lease = SubnetLease::load(&config.subnet_file, host).map_err(unavailable)?;
        call(DelegateConfig::new(&config, &lease)?, Command::Status, request, host)
    }

    /// Calls GC of the delegate, and removes the state files that belong to no valid attachment.
    fn gc(&self, request: &Request, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
        let mut removal = Removal::new(host);
        if removal.attempt(|host| gc_of_delegate(request, host)).is_some() {
            let directory = data_dir_for_del(request);
            let valid = valid.of_network(&request.network);
            let network = request.network.as_str();
            let stale = removal.attempt(|host| state::stale_files(&directory, network, valid, host));
            stale.unwrap_or_default().iter().for_each(|step| removal.step(step));
        }
        removal.finish()
    }
}

/// The configuration with which the delegate of an attachment was called, for `doctor`, `repair` and `trace`. If the state file is missing
/// or torn, it is composed from the lease. Without a lease it is unknown, since the lease says who masquerades.
///
/// # Errors
/// When a state file exists and cannot be read, or when it is missing and the configuration of the plugin cannot be used.
pub fn delegate_of(request: &Request, host: &mut dyn Host) -> Result<Option<DelegateConfig>, Error> {
    let found = state::find(&data_dir_for_del(request), &request.attachment()?, host)?;
    if found.composed.is_some() {
        return Ok(found.composed);
    }
    let config = Config::load(request)?;
    let Ok(lease) = SubnetLease::load(&config.subnet_file, host) else { return Ok(None) };
    DelegateConfig::new(&config, &lease).map(Some)
}

/// Has the delegate carry out a command other than ADD.
fn call(composed: DelegateConfig, command: Command, request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let call = request.with_config(composed.text().into_bytes())?;
    host.delegate(&composed.plugin, command, Some(&call)).map(|_| ())
}

/// Whether ADD was called before without DEL since. In that case DEL would remove the interface of a running container.
fn is_repeated(config: &Config, at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    let SavedState { composed, is_own, removable: _ } = state::find(&config.data_dir, at, host)?;
    Ok(state::has_add_record(at, host) || (is_own && composed.is_some()))
}

/// Whether the interface of an earlier ADD exists after the delegate has failed; true if that is unknown. Without one the delegate's DEL
/// is called, since not every delegate undoes its work.
fn interface_exists(request: &Request, at: &Attachment, host: &mut dyn Host) -> bool {
    let entered = host.enter(request.netns().unwrap_or_default()).map_err(Error::from);
    entered.and_then(|()| earlier::has_interface(at, host)).unwrap_or_else(|unknown| {
        log::warn!("the delegate is not called with DEL: {}", unknown.in_full());
        true
    })
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
    match call(composed.with_result_of(request), Command::Del, request, host) {
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

/// Refuses an address that the delegate had from an earlier lease.
fn verify_lease(
    lease: &SubnetLease,
    subnet_file: &str,
    composed: &DelegateConfig,
    result: &CniResult,
) -> Result<(), Error> {
    let given = composed.subnets();
    let addresses = result.ips.iter().map(|ip| ip.address.address());
    let mut from_lease = addresses.filter(|address| given.iter().any(|subnet| subnet.contains(*address)));
    let Some(address) = from_lease.find(|address| !lease.has(*address)) else { return Ok(()) };
    let subnets: Vec<String> = lease.subnets.iter().map(|subnet| subnet.network().to_string()).collect();
    let text = format!("{address} is not in the lease of this host any more; {subnet_file} has {}", subnets.join(", "));
    Err(fail!(CheckFailed, "{text}", details: "flanneld has got another subnet: create the container again"))
}

fn gc_of_delegate(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let lease = SubnetLease::load(&config.subnet_file, host).ok();
    let mut composed = DelegateConfig::new(&config, lease.as_ref())?;
    // The list of valid attachments, and its older name.
    for key in ["cni.dev/valid-attachments", "cni.dev/attachments"] {
        if request.config().has_key(key) {
            composed = composed.with(key, request.config().get(key).cloned().unwrap_or(Json::Null));
        }
    }
    call(composed, Command::Gc, request, host)
}
