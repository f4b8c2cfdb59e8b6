//! STATUS: checks the master.

use cni_core::error::{Code, Error, Failure};
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use super::error::MasterError;
use super::master::MasterChoice;

/// The master cannot serve containers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MasterStatusError {
    /// The master does not exist.
    #[error("{}", source)]
    Absent {
        /// Why.
        #[source]
        source: MasterError,
    },
    /// It is down, and with it all links on it.
    #[error("master {name:?} is down, so that nothing reaches the links on it; \"ip link set {name} up\" sets it up")]
    Down {
        /// Its name.
        name: String,
    },
}

impl Failure for MasterStatusError {
    fn code(&self) -> Code {
        match self {
            Self::Absent { .. } => Code::NotAvailable,
            Self::Down { .. } => Code::LimitedConnectivity,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Absent { source } => source.details(),
            Self::Down { .. } => String::new(),
        }
    }
}

/// Requires that the master exists and is up. Skips a master in the container, since STATUS has no container.
pub fn require(choice: &MasterChoice, host: &mut dyn Host) -> Result<(), Error> {
    if choice.ns == Ns::Container {
        return Ok(());
    }
    let link = choice.look_up(host)?.map_err(|source| MasterStatusError::Absent { source })?;
    if link.up { Ok(()) } else { Err(MasterStatusError::Down { name: link.name }.into()) }
}
