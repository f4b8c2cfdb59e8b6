//! The master of a link: finds it, and bounds the MTU by it.

use cni_core::error::{Code, Error};
use cni_core::fail;
use cni_core::family::Family;
use cni_model::link::{KernelRoute, Link};
use cni_model::plan::{ChildKind, LinkKind, MasterLink, Ns};
use cni_model::routing::MAIN_TABLE;
use cni_plugin::host::{Host, LinkQuery};

use crate::verify;

/// The configured master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterChoice {
    /// `master`, a name or alternative name; the link of the default route if none.
    pub name: Option<String>,
    /// `linkInContainer`: the namespace of the master.
    pub ns: Ns,
}

impl MasterChoice {
    /// The choice by the keys `master`, which is absent if empty, as podman and nerdctl write it, and
    /// `linkInContainer`.
    pub fn of_keys(master: String, link_in_container: bool) -> Self {
        let ns = if link_in_container { Ns::Container } else { Ns::Host };
        Self { name: Some(master).filter(|name| !name.is_empty()), ns }
    }

    /// Finds the master.
    ///
    /// # Errors
    /// With [`Code::InvalidConfig`] when no link is the master, or when the kernel does not answer.
    pub fn find(&self, host: &mut dyn Host) -> Result<Link, Error> {
        let Some(name) = &self.name else { return find_by_default_route(self.ns, host) };
        let found = host.links(self.ns, LinkQuery::Called(name))?.pop();
        found.ok_or_else(|| {
            let details = format!("the {} has no link of this name; linkInContainer says where it is", self.ns);
            fail!(InvalidConfig, "failed to lookup master {name:?}: Link not found", details: "{details}")
        })
    }

    /// A new link on the found master.
    pub fn child(&self, master: &Link, kind: ChildKind) -> LinkKind {
        LinkKind::Child { master: MasterLink { ns: self.ns, index: master.index, name: master.name.clone() }, kind }
    }

    /// Requires, for STATUS, that the kernel has such links, and that the master exists and is up. Skips a master in the
    /// container, since STATUS has no container.
    pub fn require(&self, kind: &'static str, host: &mut dyn Host) -> Result<(), Error> {
        verify::known_kind(kind, host)?;
        if self.ns == Ns::Container {
            return Ok(());
        }
        let Link { name, up, .. } = self.find(host).map_err(|error| {
            if error.code() == Code::InvalidConfig {
                return Error::stated(Code::NotAvailable, error.to_string(), error.details());
            }
            error
        })?;
        if up {
            return Ok(());
        }
        let text = format!("master {name:?} is down, so that nothing reaches the links on it");
        Err(fail!(LimitedConnectivity, "{text}; \"ip link set {name} up\" sets it up"))
    }
}

/// The link of the first default route that leads to an Ethernet link: IPv4 before IPv6, and the lowest metric first,
/// which is the kernel's order. Of several next hops the first such counts.
fn find_by_default_route(ns: Ns, host: &mut dyn Host) -> Result<Link, Error> {
    let mut unusable = Vec::new();
    for family in Family::ALL {
        let routes = host.routing().routes(ns, family, Some(MAIN_TABLE))?;
        for route in routes.iter().filter(|route| route.dst == family.default_route()) {
            match link_of(route, ns, host)? {
                Ok(link) => return Ok(link),
                Err(reason) => unusable.push(format!("the default route of IP{family} {reason}")),
            }
        }
    }
    let why = match &unusable[..] {
        [] => format!("and the {ns} has no default route"),
        unusable => format!("and on the {ns} {}", unusable.join(", and ")),
    };
    Err(fail!(InvalidConfig, "no default route interface found", details: "master is not given, {why}"))
}

/// The Ethernet link of a route, or why it has none. Tunnels have other addresses, and `lo` has one of zeros.
fn link_of(route: &KernelRoute, ns: Ns, host: &mut dyn Host) -> Result<Result<Link, String>, Error> {
    if !route.unicast {
        return Ok(Err("rejects packets".to_owned()));
    }
    let is_ethernet = |link: &Link| link.mac.as_ref().is_some_and(|mac| mac.bytes().len() == 6);
    let mut names = Vec::new();
    for index in &route.links {
        match host.link_by_index(ns, *index)? {
            Some(link) if is_ethernet(&link) => return Ok(Ok(link)),
            other => names.extend(other.map(|link| link.name)),
        }
    }
    Ok(Err(format!("leads to no Ethernet link but {}", names.join(" and "))))
}

/// The MTU in bytes that `mtu` asks for; 0 means that of the master, and more than that is refused.
///
/// ```
/// use cni_interface::child::within_master;
/// use cni_model::link::Link;
///
/// let master = Link { mtu: 1500, ..Link::default() };
/// assert_eq!(within_master(1500, &master).ok(), Some(Some(1500)));
/// assert_eq!(within_master(0, &master).ok(), Some(None));
/// assert_eq!(
///     within_master(1501, &master).expect_err("too much").to_string(),
///     "invalid MTU 1501, must be [0, master MTU(1500)]"
/// );
/// ```
pub fn within_master(mtu: i64, master: &Link) -> Result<Option<u32>, Error> {
    match u32::try_from(mtu) {
        Ok(0) => Ok(None),
        Ok(mtu) if mtu <= master.mtu => Ok(Some(mtu)),
        Ok(_) | Err(_) => {
            let limit = master.mtu;
            Err(fail!(InvalidConfig, "invalid MTU {mtu}, must be [0, master MTU({limit})]"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_masters_mtu_is_the_limit() {
        let master = Link { name: "eno1".to_owned(), mtu: 1500, ..Link::default() };
        for (mtu, want) in [(0, None), (1, Some(1)), (1500, Some(1500))] {
            assert_eq!(within_master(mtu, &master).ok(), Some(want));
        }
        for mtu in [-100, 1501, i64::MAX, i64::MIN] {
            within_master(mtu, &master).expect_err("out of range");
        }
    }
}
