//! Network namespaces of containers: recorded so that a later process can tell whether they still exist.
//!
//! A path proves nothing: it may lead to another container by now, or exist only in another mount namespace. The
//! kernel knows: a namespace with an id in the host's namespace (`ip-netns(8)`, `nsid`) loses it when its last user
//! ends, and any process may ask about an id. So ADD gives the container's namespace an id and records it. There are
//! three answers, and only what is [`Life::Dead`] may be removed.

use std::fmt;

use cni_core::error::Error;
use cni_core::request::Request;

use crate::host::Host;
use cni_model::link::{Address, Link};
use cni_model::netns::{NamespaceNumber, NumberedLink};
use cni_model::plan::Ns;

/// The index of `lo`, which every namespace has (`LOOPBACK_IFINDEX` of `linux/netdevice.h`).
const LO: u32 = 1;

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

/// A container's network namespace, as a record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedNamespace {
    /// A unique identifier of the namespace, never reused.
    pub identity: String,
    /// Its number; records of earlier versions have none.
    pub number: Option<NamespaceNumber>,
    /// `CNI_NETNS`
    pub path: String,
}

impl RecordedNamespace {
    /// Enters the namespace of a request's container, and gives it a number. Returns `None` if the request
    /// has no namespace, or if it could not be identified later.
    pub fn observe(request: &Request, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let Some(path) = request.netns().filter(|path| !path.is_empty() && !path.contains('\n')) else {
            return Ok(None);
        };
        if let Err(error) = host.enter(path) {
            log::debug!("the container's namespace is not recorded: {error}");
            return Ok(None);
        }
        Self::of_entered(path, host)
    }

    /// The same for the namespace that is entered, to which a path leads.
    pub fn of_entered(path: &str, host: &mut dyn Host) -> Result<Option<Self>, Error> {
        let Some(identity) = host.namespaces().identity(Ns::Container)? else { return Ok(None) };
        let number = host.namespaces().number_container().unwrap_or_else(|error| {
            log::debug!("the container's namespace gets no number: {}", error.in_full());
            None
        });
        Ok(Some(Self { identity, number, path: path.to_owned() }))
    }

    /// Reads what is displayed. The path may hold blanks.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, path) = text.split_once(' ')?;
        let numbered = |mark: char, is_unique: bool| {
            let (identity, number) = name.rsplit_once(mark)?;
            let value = number.parse().ok().filter(|value| *value >= 0)?;
            Some((identity, Some(NamespaceNumber { value, is_unique })))
        };
        let (identity, number) = numbered(UNIQUE, true).or_else(|| numbered(SHARED, false)).unwrap_or((name, None));
        Some(Self { identity: identity.to_owned(), number, path: path.to_owned() })
    }

    /// Tells whether the namespace still exists. `link` is a link that was in it, if one is known: it distinguishes the
    /// namespace from another one that has the same number by now.
    pub fn life(&self, link: Option<&RecordedLink>, host: &mut dyn Host) -> Life {
        self.life_by_number(link, host).unwrap_or_else(|| self.life_by_path(host))
    }

    /// Whether this is the entered namespace.
    pub fn is_entered(&self, host: &mut dyn Host) -> Result<bool, Error> {
        Ok(host.namespaces().identity(Ns::Container)?.as_deref() == Some(self.identity.as_str()))
    }

    /// Does work in the namespace; `None` if it cannot be entered by its path. Afterwards the one that was entered before is entered again.
    pub fn within<T>(
        &self,
        host: &mut dyn Host,
        work: impl FnOnce(&mut dyn Host) -> Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        host.elsewhere(|host| {
            let is_there = host.enter(&self.path).is_ok() && self.is_entered(host)?;
            is_there.then(|| work(host)).transpose()
        })
    }

    /// The addresses in the namespace, which lives; `None` when they cannot be listed.
    pub fn addresses(&self, host: &mut dyn Host) -> Result<Option<Vec<Address>>, Error> {
        match self.number {
            Some(number) if number.is_unique => host.namespaces().numbered_addresses(number.value),
            Some(_) | None => self.within(host, |host| host.addresses(Ns::Container, None, None)),
        }
    }

    /// `None` when the number does not decide it.
    fn life_by_number(&self, link: Option<&RecordedLink>, host: &mut dyn Host) -> Option<Life> {
        let number = self.number?;
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

    fn life_by_path(&self, host: &mut dyn Host) -> Life {
        let found = host.elsewhere(|host| {
            host.enter(&self.path)?;
            self.is_entered(host)
        });
        let reason = match found {
            Ok(true) => return Life::Alive,
            Ok(false) => format!("{} leads to another namespace", self.path),
            Err(error) => error.in_full(),
        };
        match host.namespaces().path_by_process(&self.identity) {
            Ok(Some(_)) => Life::Alive,
            Ok(None) => Life::Unknown(format!("{reason}, and its number does not tell whether it lives on")),
            Err(error) => Life::Unknown(error.in_full()),
        }
    }
}

/// The character before a number that no other namespace gets, and before one that may be reused.
const UNIQUE: char = '@';
const SHARED: char = '~';

impl fmt::Display for RecordedNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, number, path } = self;
        match number {
            Some(NamespaceNumber { value, is_unique }) => {
                write!(f, "{identity}{}{value} {path}", if *is_unique { UNIQUE } else { SHARED })
            }
            None => write!(f, "{identity} {path}"),
        }
    }
}

/// A link of a container, as a record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedLink {
    /// Its index, which it keeps when it is renamed.
    pub index: u32,
    /// The kernel's word for its kind; empty where it has none.
    pub kind: String,
    /// Its link-layer address when it was recorded; empty where it has none.
    pub mac: String,
    /// The index of its master on the host, for a link that has one there; records of earlier versions have none.
    pub parent: Option<u32>,
}

impl RecordedLink {
    /// The recorded properties of a link.
    pub fn of(link: &Link) -> Self {
        let mac = link.mac.as_ref().map(ToString::to_string).unwrap_or_default();
        // The host's end shows whose a veth is.
        let has_master = link.peer_netns.is_some() && link.kind.as_deref() != Some("veth");
        let parent = link.peer.filter(|_| has_master);
        Self { index: link.index, kind: link.kind.clone().unwrap_or_default(), mac, parent }
    }

    /// Whether a link of the container is this one, under any name. Its MAC address may have changed since, so index
    /// and kind decide.
    pub fn may_be(&self, link: &Link) -> bool {
        self.index == link.index && self.kind == link.kind.clone().unwrap_or_default()
    }

    /// Whether a link of any namespace is this one.
    pub fn is(&self, link: &Link) -> bool {
        self.may_be(link) && self.mac == Self::of(link).mac && !self.mac.is_empty()
    }

    /// Reads what is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (index, kind, mac) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        let parent = words.next().map(str::parse).transpose().ok()?;
        Some(Self { index, kind: kind.to_owned(), mac: mac.to_owned(), parent })
    }
}

impl fmt::Display for RecordedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, kind, mac, parent } = self;
        write!(f, "{index} {kind} {mac}")?;
        parent.map_or(Ok(()), |parent| write!(f, " {parent}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(number: Option<NamespaceNumber>) -> RecordedNamespace {
        RecordedNamespace { identity: "boot:17".to_owned(), number, path: "/run/a b".to_owned() }
    }

    #[test]
    fn a_namespace_is_read_back_with_its_number_and_the_blanks_of_its_path() {
        for number in [
            None,
            Some(NamespaceNumber { value: 1_073_741_841, is_unique: true }),
            Some(NamespaceNumber { value: 0, is_unique: false }),
        ] {
            let namespace = recorded(number);
            assert_eq!(RecordedNamespace::parse(&namespace.to_string()), Some(namespace));
        }
        assert_eq!(RecordedNamespace::parse("boot:17 /run/a b"), Some(recorded(None)), "as earlier versions wrote it");
        assert_eq!(RecordedNamespace::parse("boot"), None);
    }

    #[test]
    fn a_link_is_read_back() {
        for (kind, mac, parent) in [("veth", "0a:58:0a:01:02:03", None), ("", "", None), ("ipvlan", "", Some(3))] {
            let link = RecordedLink { index: 7, kind: kind.to_owned(), mac: mac.to_owned(), parent };
            assert_eq!(RecordedLink::parse(&link.to_string()), Some(link));
        }
        assert_eq!(["", "7", "7 veth", "x veth 0a", "7 veth 0a x"].map(RecordedLink::parse), [const { None }; 5]);
    }

    #[test]
    fn only_the_master_of_a_child_on_the_host_is_recorded() {
        let link = Link { index: 7, peer: Some(3), ..Link::default() };
        let parent = |kind: &str, peer_netns| {
            RecordedLink::of(&Link { kind: Some(kind.to_owned()), peer_netns, ..link.clone() }).parent
        };
        assert_eq!(
            [parent("macvlan", Some(0)), parent("macvlan", None), parent("veth", Some(0))],
            [Some(3), None, None]
        );
    }

    #[test]
    fn a_link_stays_the_same_under_another_name_and_mac_address() {
        let link = Link { index: 7, kind: Some("macvlan".to_owned()), ..Link::default() };
        let recorded = RecordedLink { mac: "0a:58:0a:01:02:03".to_owned(), ..RecordedLink::of(&link) };
        assert!(recorded.may_be(&link) && !recorded.is(&link));
        assert!(!recorded.may_be(&Link { index: 8, ..link.clone() }));
        assert!(!recorded.may_be(&Link { kind: None, ..link }));
    }
}
