//! Finds the master.

use cni_core::error::Error;
use cni_core::fail;
use cni_model::link::Link;
use cni_model::plan::{MasterLink, Ns};
use cni_plugin::host::{Host, LinkQuery};

use super::default_route;

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
    /// When no link is the master, or the kernel does not answer.
    pub fn find(&self, host: &mut dyn Host) -> Result<Link, Error> {
        self.look_up(host)?
    }

    /// Finds the master. The inner error says why no link is the master.
    pub(super) fn look_up(&self, host: &mut dyn Host) -> Result<Result<Link, Error>, Error> {
        let Some(name) = &self.name else { return default_route::link(self.ns, host) };
        let found = host.links(self.ns, LinkQuery::Called(name))?.pop();
        Ok(found.ok_or_else(|| {
            let details = format!("the {} has no link of this name; linkInContainer says where it is", self.ns);
            fail!(InvalidConfig, "failed to lookup master {name:?}: Link not found", details: "{details}")
        }))
    }

    /// The found link, as the master of a new one.
    pub fn of_link(&self, link: &Link) -> MasterLink {
        MasterLink { ns: self.ns, index: link.index, name: link.name.clone() }
    }
}
