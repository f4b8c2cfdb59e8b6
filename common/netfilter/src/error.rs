//! One error above both engines.

use crate::iptables::IptablesError;
use crate::nftables::NftablesError;
use cni_core::error::{Code, Failure};

/// The packet filter could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum NetfilterError {
    /// That of iptables.
    #[error(transparent)]
    Iptables(#[from] IptablesError),
    /// That of nf_tables.
    #[error(transparent)]
    Nftables(#[from] NftablesError),
}

impl NetfilterError {
    /// Whether the packet filter is absent: no iptables program for the family, or no nf_tables that we may use.
    pub(crate) const fn is_absence(&self) -> bool {
        match self {
            Self::Iptables(error) => error.is_absence(),
            Self::Nftables(error) => error.is_absence(),
        }
    }
}

impl Failure for NetfilterError {
    fn code(&self) -> Code {
        match self {
            Self::Iptables(error) => error.code(),
            Self::Nftables(error) => error.code(),
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Iptables(error) => error.details(),
            Self::Nftables(error) => error.details(),
        }
    }
}
