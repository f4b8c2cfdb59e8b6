//! Errors of reading and changing nf_tables.

use std::fmt;

use crate::phrases::without_swallowed_phrases;
use cni_core::error::{Code, Failure};

/// Errors of a transaction.
#[derive(Debug)]
pub enum TransactionError {
    /// It does not fit what exists: someone may have changed that in the meantime.
    Refused(NftablesError),
    /// It could not be tried, or never fits.
    Failed(NftablesError),
}

/// The cause of a failure of nf_tables.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The nf_tables could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum NftablesError {
    /// The kernel has no nf_tables, or none for this family of tables.
    #[error("failed to {operation}: nf_tables is not supported by this kernel")]
    Unsupported {
        operation: String,
        #[source]
        source: BoxError,
    },
    /// The process may not use nf_tables.
    #[error("failed to {operation}: not permitted")]
    NotPermitted {
        operation: String,
        #[source]
        source: BoxError,
    },
    /// The kernel refused.
    #[error("failed to {operation}")]
    Kernel {
        operation: String,
        #[source]
        source: BoxError,
    },
    /// Others changed it again and again while it was listed.
    #[error("failed to {operation}")]
    Changing {
        operation: String,
        #[source]
        source: BoxError,
    },
    /// A user's own words are part of a rule, and the program that understands them is not installed.
    #[error(
        "failed to locate {program}, which must interpret the rule {rule:?}: no such program in the directories of PATH"
    )]
    NoProgram { program: String, rule: String, path: String },
    /// A program could not be run to its end.
    #[error("failed to run {program}")]
    Run {
        program: String,
        #[source]
        source: BoxError,
    },
    /// A program refused.
    #[error("{program} failed, {status}")]
    Program { program: String, status: String, text: String },
    /// The text of a rule contains a character that would end its command.
    #[error("a rule of nftables holds a line break, a semicolon or a number sign: {line:?}")]
    Unprintable { line: String },
}

impl NftablesError {
    /// Whether the kernel has no nf_tables, or does not let this process use them.
    pub const fn is_absence(&self) -> bool {
        match self {
            Self::Unsupported { .. } | Self::NotPermitted { .. } => true,
            Self::Kernel { .. }
            | Self::Changing { .. }
            | Self::NoProgram { .. }
            | Self::Run { .. }
            | Self::Program { .. }
            | Self::Unprintable { .. } => false,
        }
    }
}

impl Failure for NftablesError {
    fn code(&self) -> Code {
        match self {
            Self::Unsupported { .. } | Self::NotPermitted { .. } | Self::Kernel { .. } => Code::Kernel,
            Self::Changing { .. } => Code::TryAgain,
            Self::NoProgram { .. } | Self::Run { .. } | Self::Program { .. } => Code::Program,
            Self::Unprintable { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Unsupported { source, .. }
            | Self::NotPermitted { source, .. }
            | Self::Kernel { source, .. }
            | Self::Changing { source, .. }
            | Self::Run { source, .. } => without_swallowed_phrases(&ErrorChain(source.as_ref()).to_string()),
            Self::NoProgram { path, .. } => format!("PATH={path}"),
            Self::Program { text, .. } => without_swallowed_phrases(text),
            Self::Unprintable { .. } => String::new(),
        }
    }
}

/// An error and its causes on one line.
struct ErrorChain<'a>(&'a (dyn std::error::Error + 'static));

impl fmt::Display for ErrorChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        self.0.source().map_or(Ok(()), |source| write!(f, ": {}", ErrorChain(source)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn kernel(number: i32) -> NftablesError {
        let source = Box::new(io::Error::from_raw_os_error(number));
        NftablesError::Kernel { operation: "delete chain bridge nat x".to_owned(), source }
    }

    #[test]
    fn an_error_names_the_operation_and_has_no_words_that_a_runtime_swallows() {
        let error = kernel(2);
        assert_eq!(error.to_string(), "failed to delete chain bridge nat x");
        assert_eq!(error.details(), "No such thing (os error 2)");
        assert_eq!((error.code(), error.is_absence()), (Code::Kernel, false));
    }

    #[test]
    fn a_kernel_without_nf_tables_is_distinguished_from_one_that_refuses() {
        let source = Box::new(io::Error::from_raw_os_error(95));
        let error = NftablesError::Unsupported { operation: "list chain inet x y".to_owned(), source };
        assert_eq!(error.to_string(), "failed to list chain inet x y: nf_tables is not supported by this kernel");
        assert!(error.is_absence());
    }
}
