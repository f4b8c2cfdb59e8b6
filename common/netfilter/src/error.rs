//! An error of either back end.

use crate::iptables::IptablesError;
use crate::nftables::NftablesError;
use cni_core::error::{Code, Failure};

/// The packet filter could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum NetfilterError {
    /// An error of iptables.
    #[error(transparent)]
    Iptables(#[from] IptablesError),
    /// An error of nf_tables.
    #[error(transparent)]
    Nftables(#[from] NftablesError),
}

impl NetfilterError {
    /// Whether the packet filter is absent: no iptables for the family, or no usable nf_tables.
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
