//! Errors of the plugin, except those of the configuration.

use cni_core::error::{Code, Failure};

/// Errors of the plugin.
#[derive(Debug, thiserror::Error)]
pub enum PortmapError {
    /// ADD without the result of an earlier plugin.
    #[error("must be called as chained plugin")]
    NotChained,
    /// Another command without it.
    #[error("Required prevResult missing")]
    NoPrevResult,
}

impl Failure for PortmapError {
    fn code(&self) -> Code {
        match self {
            Self::NotChained | Self::NoPrevResult => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NotChained | Self::NoPrevResult => {
                "chain portmap behind the plugin that assigns addresses".to_owned()
            }
        }
    }
}
