//! Both back ends together: which of them a machine has, and which one is used.

use crate::error::NetfilterError;
use crate::iptables::{Iptables, IptablesTable};
use crate::nftables::Nftables;
use cni_core::error::{Code, Error, Failure};
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The packet filter of one network namespace.
pub trait Netfilter {
    fn iptables(&mut self) -> &mut dyn Iptables;

    /// Its nf_tables, in their own terms.
    fn nftables(&mut self) -> &mut dyn Nftables;
}

/// The back end that holds the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The tables of iptables.
    Iptables,
    /// Tables of nf_tables' own.
    Nftables,
}

impl Backend {
    /// The default back end for rules in a table: iptables, as in the reference, if it can hold them for every family in use;
    /// otherwise nf_tables, if available; otherwise iptables, whose error then says what is missing.
    pub fn choose(
        netfilter: &mut dyn Netfilter,
        table: IptablesTable,
        families: impl IntoIterator<Item = Family>,
    ) -> Self {
        let is_usable = families.into_iter().all(|family| netfilter.iptables().absence(family, table).is_none());
        if is_usable || netfilter.nftables().generation().is_err() { Self::Iptables } else { Self::Nftables }
    }

    /// Verifies that rules of a family could be kept. Of iptables a table is read, by a chain that every table has and in
    /// which few rules stand.
    pub fn verify_available(
        self,
        netfilter: &mut dyn Netfilter,
        family: Family,
        table: IptablesTable,
    ) -> Result<(), Error> {
        let (what, found) = match self {
            Self::Iptables => {
                let what = format!("table {table} of {}", family.iptables());
                (what, verify_iptables(netfilter.iptables(), family, table))
            }
            Self::Nftables => ("nf_tables".to_owned(), netfilter.nftables().generation().map(|_| ())),
        };
        let unavailable =
            |error| Error::stated(Code::NotAvailable, format!("{what} is not available"), Error::from(error).in_full());
        found.map_err(unavailable)
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Iptables => Self::Nftables,
            Self::Nftables => Self::Iptables,
        }
    }
}

/// Rules may be read without the programs, but not added.
fn verify_iptables(iptables: &mut dyn Iptables, family: Family, table: IptablesTable) -> Result<(), NetfilterError> {
    iptables.list(family, table, &ChainName::fixed("OUTPUT"))?;
    iptables.absence(family, table).map_or(Ok(()), Err)
}

/// The outcome of a search or a change in a back end; `None` if the back end is absent. Only this function knows that
/// an absent back end holds no rules of the plugins: without the iptables programs of a family, or its tables in the kernel, there are
/// no rules of that family, and without usable nf_tables there are no tables in them.
pub fn unless_absent<T>(done: Result<T, NetfilterError>) -> Result<Option<T>, NetfilterError> {
    unless_absent_logged(log::Level::Info, done)
}

/// The same, with a level for the line that says so.
pub(crate) fn unless_absent_logged<T>(
    level: log::Level,
    done: Result<T, NetfilterError>,
) -> Result<Option<T>, NetfilterError> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.is_absence() => {
            log::log!(level, "treating rules as gone: {error}: {}", error.details());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
