//! Network namespaces of containers: recorded so that a later process can tell whether they still exist.
//!
//! A path proves nothing: it may lead to another container by now, or exist only in another mount namespace. The
//! kernel knows: a namespace with an id in the host's namespace (`ip-netns(8)`, `nsid`) loses it when its last user
//! ends, and any process may ask about an id. So ADD gives the container's namespace an id and records it. There are
//! three answers, and only what is [`Life::Dead`] may be removed.

use cni_core::error::Error;
use cni_core::request::Request;

use crate::host::Host;
use cni_model::link::Address;
use cni_model::netns::NumberedLink;
use cni_model::plan::Ns;

/// The index of `lo`, which every namespace has (`LOOPBACK_IFINDEX` of `linux/netdevice.h`).
const LO: u32 = 1;

pub use cni_model::record::{RecordedLink, RecordedNamespace};

/// Whether a namespace still exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// It lives.
    Alive,
    /// It has ended. Nothing that belonged to it can be in use.
    Dead,
    /// Unknown, for this reason. It counts as living.
    Unknown(String),
}

/// What the host says of a recorded namespace.
pub trait OnHost {
    /// Tells whether the namespace still exists. `link` is a link that was in it, if one is known: it distinguishes the
    /// namespace from another one that has the same number by now.
    fn life(&self, link: Option<&RecordedLink>, host: &mut dyn Host) -> Life;

    /// Whether this is the entered namespace.
    fn is_entered(&self, host: &mut dyn Host) -> Result<bool, Error>;

    /// Does work in the namespace; `None` if it cannot be entered by its path. Afterwards the one that was entered before is entered again.
    fn within<T>(
        &self,
        host: &mut dyn Host,
        work: impl FnOnce(&mut dyn Host) -> Result<T, Error>,
    ) -> Result<Option<T>, Error>;

    /// The addresses in the namespace, which lives; `None` when they cannot be listed.
    fn addresses(&self, host: &mut dyn Host) -> Result<Option<Vec<Address>>, Error>;
}

impl OnHost for RecordedNamespace {
    fn life(&self, link: Option<&RecordedLink>, host: &mut dyn Host) -> Life {
        life_by_number(self, link, host).unwrap_or_else(|| life_by_path(self, host))
    }

    fn is_entered(&self, host: &mut dyn Host) -> Result<bool, Error> {
        Ok(host.namespaces().identity(Ns::Container)?.as_deref() == Some(self.identity.as_str()))
    }

    fn within<T>(
        &self,
        host: &mut dyn Host,
        work: impl FnOnce(&mut dyn Host) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        host.elsewhere(|host| {
            let is_there = host.enter(&self.path).is_ok() && self.is_entered(host)?;
            is_there.then(|| work(host)).transpose()
        })
    }

    fn addresses(&self, host: &mut dyn Host) -> Result<Option<Vec<Address>>, Error> {
        match self.number {
            Some(number) if number.is_unique => host.namespaces().numbered_addresses(number.value),
            Some(_) | None => self.within(host, |host| host.addresses(Ns::Container, None, None)),
        }
    }
}

/// Enters the namespace of a request's container, and gives it a number. Returns `None` if the request
/// has no namespace, or if it could not be identified later.
pub fn observe(request: &Request, host: &mut dyn Host) -> Result<Option<RecordedNamespace>, Error> {
    let Some(path) = request.netns().filter(|path| !path.is_empty()) else { return Ok(None) };
    if let Err(error) = host.enter(path) {
        log::debug!("the container's namespace is not recorded: {error}");
        return Ok(None);
    }
    of_entered(path, host)
}

/// The same for the namespace that is entered, to which a path leads. A record has no place for a path of several lines.
pub fn of_entered(path: &str, host: &mut dyn Host) -> Result<Option<RecordedNamespace>, Error> {
    if path.contains('\n') {
        return Ok(None);
    }
    let Some(identity) = host.namespaces().identity(Ns::Container)? else { return Ok(None) };
    let number = host.namespaces().number_container().unwrap_or_else(|error| {
        log::debug!("the container's namespace gets no number: {}", error.in_full());
        None
    });
    Ok(Some(RecordedNamespace { identity, number, path: path.to_owned() }))
}

/// `None` when the number does not decide it.
fn life_by_number(namespace: &RecordedNamespace, link: Option<&RecordedLink>, host: &mut dyn Host) -> Option<Life> {
    let number = namespace.number?;
    let asked = link.map_or(LO, |link| link.index);
    match host.namespaces().numbered_link(number.value, asked) {
        Ok(NumberedLink::NoNamespace) => Some(Life::Dead),
        Ok(NumberedLink::NoLink | NumberedLink::Link(_)) if number.is_unique => Some(Life::Alive),
        Ok(NumberedLink::Link(found)) if link.is_some_and(|link| link.is(&found)) => Some(Life::Alive),
        Ok(NumberedLink::NoLink | NumberedLink::Link(_)) => None,
        Err(error) => {
            log::debug!("{}", error.in_full());
            None
        }
    }
}

fn life_by_path(namespace: &RecordedNamespace, host: &mut dyn Host) -> Life {
    let found = host.elsewhere(|host| {
        host.enter(&namespace.path)?;
        namespace.is_entered(host)
    });
    let reason = match found {
        Ok(true) => return Life::Alive,
        Ok(false) => format!("{} leads to another namespace", namespace.path),
        Err(error) => error.in_full(),
    };
    match host.namespaces().path_by_process(&namespace.identity) {
        Ok(Some(_)) => Life::Alive,
        Ok(None) => Life::Unknown(format!("{reason}, and its number does not tell whether it lives on")),
        Err(error) => Life::Unknown(error.in_full()),
    }
}
