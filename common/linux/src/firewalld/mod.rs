//! firewalld over D-Bus.
//!
//! Nothing connects to the bus unless firewalld is used. If firewalld does not run, it has no sources: it forgets them
//! when it ends.

mod bus;
#[cfg(test)]
mod fake;

use std::cell::Cell;
use std::env;
use std::net::IpAddr;
use std::time::Duration;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure as _};
use cni_netfilter::firewalld::{Firewalld, Zone};
use zbus::fdo::DBusProxy;
use zbus::names::BusName;
use zbus::proxy;

use bus::{Bus, BusAnswer, BusError, OpenBus};

/// Where the system bus is, unless the environment names another place: D-Bus specification, "Well-known Message
/// Bus Instances".
const SYSTEM_BUS: &str = "unix:path=/var/run/dbus/system_bus_socket";

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// firewalld on the system bus.
#[derive(Debug)]
pub struct SystemFirewalld {
    bus: Bus,
    /// Whether it has refused a change by this user, as of a user without root's rights on the host.
    is_forbidden: Cell<bool>,
}

impl SystemFirewalld {
    /// Will use the bus that the environment names.
    pub fn new() -> Self {
        let address = env::var("DBUS_SYSTEM_BUS_ADDRESS").ok().filter(|address| !address.is_empty());
        Self::at(address.unwrap_or_else(|| SYSTEM_BUS.to_owned()), PATIENCE)
    }

    const fn at(addresses: String, limit: Duration) -> Self {
        Self { bus: Bus { addresses, limit: Cell::new(limit) }, is_forbidden: Cell::new(false) }
    }

    /// Makes an address a source of a zone. Returns whether it was none before.
    pub fn add_source(&self, zone: &Zone, address: IpAddr) -> Result<bool, Error> {
        let (source, is_asked) = (Cidr::host(address), Cell::new(false));
        let attempt = || format!("add the address {source} to {zone} zone");
        let answer = self.bus.ask(async |bus| {
            is_asked.set(true);
            add(bus, zone.as_str(), &source.to_string()).await
        });
        match answer {
            Ok(BusAnswer::Value(_)) => Ok(true),
            Ok(BusAnswer::Error { text, .. }) if text.contains("ZONE_ALREADY_SET") => Ok(false),
            Ok(BusAnswer::Error { name, text }) => {
                self.is_forbidden.set(is_lack_of_rights(&name, &text));
                Err(refused(&attempt(), name, text))
            }
            Err(error) => {
                // The connection is lost, and firewalld may have carried out the call: it is undone over another one.
                if is_asked.get()
                    && matches!(error, BusError::Failed { .. })
                    && let Err(error) = self.remove_source(zone, address)
                {
                    log::warn!("{address} may remain in zone {}: {error}: {}", zone.as_str(), error.details());
                }
                Err(unanswered(&attempt(), error))
            }
        }
    }

    /// Removes an address from the sources of a zone, if it is one.
    pub fn remove_source(&self, zone: &Zone, address: IpAddr) -> Result<(), Error> {
        let (zone, source) = (zone.as_str(), Cidr::host(address).to_string());
        let attempt = || format!("remove the address {source} from {zone} zone");
        let answer =
            self.bus.ask(async |bus| bus.answer(async { zones(bus).await?.remove_source(zone, &source).await }).await);
        match answer {
            Ok(BusAnswer::Value(_)) => Ok(()),
            Ok(BusAnswer::Error { name, text }) if is_absence(&name, &text) => {
                log::debug!("{source} is not a source of zone {zone}: {text}");
                Ok(())
            }
            Err(error @ BusError::Absent { .. }) => {
                log::debug!("{source} is not a source of zone {zone}: {error}");
                Ok(())
            }
            Ok(BusAnswer::Error { name, text }) => Err(refused(&attempt(), name, text)),
            Err(error) => Err(unanswered(&attempt(), error)),
        }
    }
}

impl Firewalld for SystemFirewalld {
    fn is_running(&mut self) -> bool {
        if self.is_forbidden.get() {
            return false;
        }
        match self.bus.ask(async |bus| bus.answer(owner(bus)).await) {
            Ok(BusAnswer::Value(())) => true,
            Ok(BusAnswer::Error { text, .. }) => {
                log::debug!("firewalld is not running: {text}");
                false
            }
            Err(error @ BusError::Absent { .. }) => {
                log::debug!("firewalld is not running: {error}");
                false
            }
            Err(error @ (BusError::Silent { .. } | BusError::Failed { .. })) => {
                log::warn!("cannot query firewalld; treating it as not running: {error}");
                false
            }
        }
    }

    fn has_source(&mut self, zone: &Zone, address: IpAddr) -> Result<bool, Error> {
        let (zone, source) = (zone.as_str(), Cidr::host(address).to_string());
        let attempt = || format!("find the address {source} in {zone} zone");
        let answer =
            self.bus.ask(async |bus| bus.answer(async { zones(bus).await?.query_source(zone, &source).await }).await);
        match answer {
            Ok(BusAnswer::Value(yes)) => Ok(yes),
            Ok(BusAnswer::Error { name, .. }) if is_stopped(&name) => Ok(false),
            Err(BusError::Absent { .. }) => Ok(false),
            Ok(BusAnswer::Error { name, text }) => Err(refused(&attempt(), name, text)),
            Err(error) => Err(unanswered(&attempt(), error)),
        }
    }
}

/// Asks the bus whether firewalld is connected to it.
async fn owner(bus: &OpenBus) -> zbus::Result<()> {
    let name = BusName::try_from(NAME)?;
    DBusProxy::new(&bus.connection).await?.get_name_owner(name).await?;
    Ok(())
}

async fn zones(bus: &OpenBus) -> zbus::Result<ZonesProxy<'_>> {
    ZonesProxy::new(&bus.connection).await
}

/// Adds a source, and removes it again if firewalld does not answer in time. The bus carries out the calls of a connection in
/// order, even after the connection is closed.
async fn add(bus: &OpenBus, zone: &str, source: &str) -> Result<BusAnswer<String>, BusError> {
    let answer = bus.answer(async { zones(bus).await?.add_source(zone, source).await }).await;
    if matches!(answer, Err(BusError::Silent { .. }))
        && let Err(error) = bus.answer(async { zones(bus).await?.remove_source_later(zone, source).await }).await
    {
        log::warn!("{source} may remain in zone {zone}: {error}");
    }
    answer
}

/// The bus's own words for a name that nobody has.
fn is_stopped(name: &str) -> bool {
    ["org.freedesktop.DBus.Error.NameHasNoOwner", "org.freedesktop.DBus.Error.ServiceUnknown"].contains(&name)
}

/// Whether firewalld, or the bus before it, does not let this user change anything.
fn is_lack_of_rights(name: &str, text: &str) -> bool {
    text.starts_with("Not Authorized") || name == "org.freedesktop.DBus.Error.AccessDenied"
}

/// Whether a removal failed because there is nothing to remove: an administrator may have moved the address to another
/// zone, or removed the zone.
fn is_absence(name: &str, text: &str) -> bool {
    let codes = ["UNKNOWN_SOURCE", "ZONE_CONFLICT", "INVALID_ZONE"];
    is_stopped(name) || codes.iter().any(|code| text.starts_with(code))
}

/// The name that firewalld has on the bus.
const NAME: &str = "org.fedoraproject.FirewallD1";

/// Calls to firewalld's zones (firewalld.dbus(5)). Only adding a source may start firewalld.
#[proxy(
    interface = "org.fedoraproject.FirewallD1.zone",
    default_service = "org.fedoraproject.FirewallD1",
    default_path = "/org/fedoraproject/FirewallD1"
)]
trait Zones {
    #[zbus(name = "addSource")]
    async fn add_source(&self, zone: &str, source: &str) -> zbus::Result<String>;

    #[zbus(name = "removeSource", no_autostart)]
    async fn remove_source(&self, zone: &str, source: &str) -> zbus::Result<String>;

    /// A call without answer. The bus carries out the calls of a connection in order.
    #[zbus(name = "removeSource", no_autostart, no_reply)]
    async fn remove_source_later(&self, zone: &str, source: &str) -> zbus::Result<()>;

    #[zbus(name = "querySource", no_autostart)]
    async fn query_source(&self, zone: &str, source: &str) -> zbus::Result<bool>;
}

/// If the text is empty, the name of the failure is used.
fn refused(attempt: &str, name: String, text: String) -> Error {
    let text = if text.is_empty() { name } else { text };
    let code = match text.as_str() {
        text if text.starts_with("ZONE_CONFLICT") => Code::Conflict,
        text if text.starts_with("INVALID_ZONE") => Code::InvalidConfig,
        _ => Code::Program,
    };
    Error::stated(code, format!("failed to {attempt}: {text}"), String::new())
}

fn unanswered(attempt: &str, source: BusError) -> Error {
    Error::stated(source.code(), format!("failed to {attempt}"), Error::from(source).in_full())
}

#[cfg(test)]
mod tests;
