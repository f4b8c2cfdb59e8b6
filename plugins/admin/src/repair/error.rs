//! Why an attachment could not be repaired.

use std::io;

use cni_core::error::{Code, Failure};

/// Why an attachment could not be repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error("failed to read {path}")]
    Cache {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error("the runtime has deleted the attachment, or added it again, in the meantime")]
    Deleted,
}

impl Failure for RepairError {
    fn code(&self) -> Code {
        match self {
            Self::Cache { .. } => Code::Io,
            Self::Deleted => Code::TryAgain,
        }
    }
}
