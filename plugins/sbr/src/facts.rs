//! The routes and rules of the container.

use std::collections::BTreeSet;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_interface::{routes, tables};
use cni_model::plan::Ns;
use cni_model::routing::{FullRoute, KernelRule, MAIN_TABLE};
use cni_plugin::host::Host;

/// Everything that decides which tables are taken, and what they get.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The index of the interface.
    pub link: u32,
    /// The rules of both families.
    pub rules: Vec<KernelRule>,
    /// The interface's routes of the main table, of both families.
    pub routes: Vec<FullRoute>,
    /// The tables that are taken.
    pub tables: BTreeSet<u32>,
}

impl Facts {
    /// Asks only for the rules, in the entered namespace.
    pub fn of_rules(host: &mut dyn Host) -> Result<Self, Error> {
        let mut facts = Self::default();
        for family in Family::ALL {
            facts.rules.extend(host.routing().rules(Ns::Container, family)?);
        }
        Ok(facts)
    }

    /// Asks for all of them, in the namespace that was entered.
    pub fn observe(ifname: &IfName, host: &mut dyn Host) -> Result<Self, Error> {
        let no_link = || fail!(Kernel, "Cannot find network interface {ifname}: Link not found");
        let link = host.link(Ns::Container, ifname)?.ok_or_else(no_link)?.index;
        let routes = routes::of_link(link, MAIN_TABLE, host)?;
        Ok(Self { link, routes, tables: tables::taken(host)?, ..Self::of_rules(host)? })
    }
}
