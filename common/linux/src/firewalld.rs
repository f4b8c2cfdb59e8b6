//! firewalld over D-Bus: the interface `org.fedoraproject.FirewallD1.zone` of firewalld.dbus(5).
//!
//! The connection is made at the first question, so what does not use firewalld never looks for a bus. A
//! firewalld that is not running holds no source: whatever it was told is forgotten.

use std::env;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use cni_core::cidr::Cidr;
use cni_core::error::{Code, Error, Failure};
use cni_netfilter::firewalld::{Firewalld, Zone};

use crate::dbus::{Answer, Bus, BusError, Call, MessageError, Start};

const NAME: &str = "org.fedoraproject.FirewallD1";

/// Where the system bus is unless the environment says otherwise: D-Bus specification, "Well-known Message
/// Bus Instances".
const SYSTEM_BUS: &str = "unix:path=/var/run/dbus/system_bus_socket";

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was asked of firewalld.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    method: Method,
    zone: Zone,
    source: Cidr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Add,
    Remove,
    Query,
}

/// Something that firewalld did not do.
#[derive(Debug, thiserror::Error)]
pub enum FirewalldError {
    /// It refuses, in its own words.
    #[error("failed to {attempt}: {text}")]
    Refused {
        /// What was asked.
        attempt: Attempt,
        /// The words.
        text: String,
    },
    /// It does not answer.
    #[error("failed to {attempt}")]
    Unanswered {
        /// What was asked.
        attempt: Attempt,
        /// What is wrong with the bus.
        #[source]
        source: Box<BusError>,
    },
    /// Its answer is not one to the question.
    #[error("failed to {attempt}: the answer is neither yes nor no")]
    Answer {
        /// What was asked.
        attempt: Attempt,
        /// What is wrong with the answer, if it is malformed.
        #[source]
        source: Option<MessageError>,
    },
}

impl Failure for FirewalldError {
    fn code(&self) -> Code {
        match self {
            Self::Refused { text, .. } if text.starts_with("ZONE_CONFLICT") => Code::Conflict,
            Self::Refused { text, .. } if text.starts_with("INVALID_ZONE") => Code::InvalidConfig,
            Self::Refused { .. } | Self::Answer { .. } => Code::Program,
            Self::Unanswered { source, .. } => source.code(),
        }
    }
}

impl Attempt {
    fn new(method: Method, zone: &Zone, address: IpAddr) -> Self {
        Self { method, zone: zone.clone(), source: Cidr::host(address) }
    }

    /// Without words, the name of the failure has to do.
    fn refused(self, name: String, text: String) -> FirewalldError {
        FirewalldError::Refused { attempt: self, text: if text.is_empty() { name } else { text } }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, zone, source } = self;
        match method {
            Method::Add => write!(f, "add the address {source} to {zone} zone"),
            Method::Remove => write!(f, "remove the address {source} from {zone} zone"),
            Method::Query => write!(f, "find the address {source} in {zone} zone"),
        }
    }
}

/// Whether a source is there because of this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It was not there before.
    Now,
    /// It was.
    Before,
}

/// firewalld on the system bus.
#[derive(Debug)]
pub struct SystemFirewalld {
    address: String,
    limit: Duration,
    bus: Option<Bus>,
}

impl SystemFirewalld {
    /// Will use the bus that the environment names.
    pub fn new() -> Self {
        let address = env::var("DBUS_SYSTEM_BUS_ADDRESS").ok().filter(|address| !address.is_empty());
        Self::at(address.unwrap_or_else(|| SYSTEM_BUS.to_owned()), PATIENCE)
    }

    const fn at(address: String, limit: Duration) -> Self {
        Self { address, limit, bus: None }
    }

    /// Makes an address a source of a zone.
    ///
    /// # Errors
    /// [`FirewalldError`]. What gets no answer is taken back as soon as firewalld can.
    pub fn add_source(&mut self, zone: &Zone, address: IpAddr) -> Result<Added, FirewalldError> {
        let attempt = Attempt::new(Method::Add, zone, address);
        match self.ask_to_add(&attempt) {
            Ok(Answer::Value(_)) => Ok(Added::Now),
            Ok(Answer::Error { text, .. }) if text.contains("ZONE_ALREADY_SET") => Ok(Added::Before),
            Ok(Answer::Error { name, text }) => Err(attempt.refused(name, text)),
            Err(source) => Err(FirewalldError::Unanswered { attempt, source: Box::new(source) }),
        }
    }

    fn ask_to_add(&mut self, attempt: &Attempt) -> Result<Answer, BusError> {
        let mut bus = self.connection()?;
        let answer = with_call(attempt, |call| bus.call(call));
        if answer.is_err() {
            take_back(&mut bus, attempt);
        } else {
            self.bus = Some(bus);
        }
        answer
    }

    /// Removes an address from the sources of a zone, if it is one.
    ///
    /// # Errors
    /// [`FirewalldError`].
    pub fn remove_source(&mut self, zone: &Zone, address: IpAddr) -> Result<(), FirewalldError> {
        let attempt = Attempt::new(Method::Remove, zone, address);
        match self.ask(&attempt) {
            Ok(Answer::Value(_)) => Ok(()),
            Ok(Answer::Error { name, text }) if is_absence(&name, &text) => {
                log::debug!("{address} is no source of zone {zone}: {text}");
                Ok(())
            }
            Ok(Answer::Error { name, text }) => Err(attempt.refused(name, text)),
            Err(error) if is_absent(&error) => {
                log::debug!("{address} is no source of zone {zone}: {error}");
                Ok(())
            }
            Err(source) => Err(FirewalldError::Unanswered { attempt, source: Box::new(source) }),
        }
    }

    fn ask(&mut self, attempt: &Attempt) -> Result<Answer, BusError> {
        with_call(attempt, |call| self.call(call))
    }

    /// A connection that has failed is not used again.
    fn call(&mut self, call: &Call<'_>) -> Result<Answer, BusError> {
        let mut bus = self.connection()?;
        let answer = bus.call(call)?;
        self.bus = Some(bus);
        Ok(answer)
    }

    fn connection(&mut self) -> Result<Bus, BusError> {
        self.bus.take().map_or_else(|| Bus::connect(&self.address, self.limit), Ok)
    }
}

impl Default for SystemFirewalld {
    fn default() -> Self {
        Self::new()
    }
}

impl Firewalld for SystemFirewalld {
    fn is_running(&mut self) -> bool {
        let owner = Call {
            destination: "org.freedesktop.DBus",
            path: "/org/freedesktop/DBus",
            interface: "org.freedesktop.DBus",
            member: "GetNameOwner",
            arguments: &[NAME],
            start: Start::Refused,
        };
        match self.call(&owner) {
            Ok(Answer::Value(_)) => true,
            Ok(Answer::Error { text, .. }) => {
                log::debug!("firewalld is not running: {text}");
                false
            }
            Err(error) if is_absent(&error) => {
                log::debug!("firewalld is not running: {error}");
                false
            }
            Err(error) => {
                log::warn!("firewalld is taken for not running: {error}: {}", error.details());
                false
            }
        }
    }

    fn has_source(&mut self, zone: &Zone, address: IpAddr) -> Result<bool, Error> {
        let attempt = Attempt::new(Method::Query, zone, address);
        let value = match self.ask(&attempt) {
            Ok(Answer::Value(value)) => value,
            Ok(Answer::Error { name, .. }) if is_stopped(&name) => return Ok(false),
            Ok(Answer::Error { name, text }) => return Err(attempt.refused(name, text).into()),
            Err(error) if is_absent(&error) => return Ok(false),
            Err(source) => return Err(FirewalldError::Unanswered { attempt, source: Box::new(source) }.into()),
        };
        match value.boolean() {
            Ok(Some(yes)) => Ok(yes),
            Ok(None) => Err(FirewalldError::Answer { attempt, source: None }.into()),
            Err(source) => Err(FirewalldError::Answer { attempt, source: Some(source) }.into()),
        }
    }
}

/// The bus carries out the calls of a connection in order, also when nobody is left to hear the answer.
fn take_back(bus: &mut Bus, attempt: &Attempt) {
    let removal = Attempt { method: Method::Remove, ..attempt.clone() };
    if let Err(error) = with_call(&removal, |call| bus.send(call)) {
        log::warn!("{} may stay behind in zone {}: {error}: {}", attempt.source, attempt.zone, error.details());
    }
}

/// Makes a call of an attempt. Only what is to become a source is worth a start of firewalld.
fn with_call<T>(attempt: &Attempt, work: impl FnOnce(&Call<'_>) -> T) -> T {
    let (member, start) = match attempt.method {
        Method::Add => ("addSource", Start::Allowed),
        Method::Remove => ("removeSource", Start::Refused),
        Method::Query => ("querySource", Start::Refused),
    };
    let source = attempt.source.to_string();
    work(&Call {
        destination: NAME,
        path: "/org/fedoraproject/FirewallD1",
        interface: "org.fedoraproject.FirewallD1.zone",
        member,
        arguments: &[attempt.zone.as_str(), &source],
        start,
    })
}

/// The bus's own words for a name that nobody has.
fn is_stopped(name: &str) -> bool {
    ["org.freedesktop.DBus.Error.NameHasNoOwner", "org.freedesktop.DBus.Error.ServiceUnknown"].contains(&name)
}

/// Whether a failed removal says that there is nothing to remove: an administrator may have moved the
/// address to another zone, or have removed the zone.
fn is_absence(name: &str, text: &str) -> bool {
    let codes = ["UNKNOWN_SOURCE", "ZONE_CONFLICT", "INVALID_ZONE"];
    is_stopped(name) || codes.iter().any(|code| text.starts_with(code))
}

const fn is_absent(error: &BusError) -> bool {
    matches!(error, BusError::Absent { .. } | BusError::NoAddress { .. })
}

#[cfg(test)]
mod tests;
