//! Whether the packet filter can be used at all: what STATUS asks.

use super::rule::IptablesTable;
use super::tables::{Iptables, IptablesError};
use cni_core::error::{Code, Failure};
use cni_core::family::Family;
use cni_core::names::ChainName;

/// The packet filter cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("table {table} of iptables is not available")]
pub struct NotAvailable {
    table: IptablesTable,
    #[source]
    source: IptablesError,
}

impl Failure for NotAvailable {
    fn code(&self) -> Code {
        Code::NotAvailable
    }

    fn details(&self) -> String {
        let causes = [self.source.to_string(), self.source.details()];
        causes.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ")
    }
}

/// Verifies that a table can be read, by a chain that every table has and in which few rules stand. The
/// table of IPv6 is not looked at: whether a network needs it shows only in the addresses of a container.
///
/// # Errors
/// [`NotAvailable`] tells what is missing.
pub fn verify_available(tables: &mut dyn Iptables, table: IptablesTable) -> Result<(), NotAvailable> {
    match tables.list(Family::V4, table, &ChainName::fixed("OUTPUT")) {
        Ok(_) => Ok(()),
        Err(source) => Err(NotAvailable { table, source }),
    }
}
