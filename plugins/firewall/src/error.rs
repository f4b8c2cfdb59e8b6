//! Errors of the plugin, except those of the configuration.

use cni_core::error::{Code, Failure};

/// Errors of the plugin.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    /// The plugin is not chained.
    #[error("missing prevResult from earlier plugin")]
    NoPrevResult,
    /// firewalld is to keep the rules, and does not answer.
    #[error("backend firewalld is not available")]
    FirewalldAbsent,
}

impl Failure for FirewallError {
    fn code(&self) -> Code {
        match self {
            Self::NoPrevResult => Code::InvalidConfig,
            Self::FirewalldAbsent => Code::NotAvailable,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoPrevResult => "chain firewall behind the plugin that assigns addresses".to_owned(),
            Self::FirewalldAbsent => "firewalld does not answer on the system bus".to_owned(),
        }
    }
}
