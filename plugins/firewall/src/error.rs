//! What the plugin cannot do, or finds, beside what the configuration says.

use cni_core::error::{Code, Failure};

/// What the plugin cannot do, or finds.
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
