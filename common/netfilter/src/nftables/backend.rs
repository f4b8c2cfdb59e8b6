//! The seam between what is wanted of nf_tables and the machine: two methods, and their errors.

use std::fmt;

use super::name::NftName;
use super::object::{ChainId, TableFamily};
use super::render;
use super::rule::{Expression, NftRule};
use super::set::{Element, Elements};
use super::transaction::{Generation, Transaction};
use crate::without_swallowed_phrases;
use cni_core::error::{Code, Failure};

/// The nf_tables of the network namespace that the plugin runs in.
pub trait Nftables {
    /// The rules of a chain in order; `None` when there is no such chain.
    ///
    /// # Errors
    /// When the chain cannot be read, which is never taken for absence.
    fn list(&mut self, chain: &ChainId) -> Result<Option<Vec<Listed>>, NftablesError>;

    /// Which of some elements a set or a map holds, by their keys; `None` when there is no such set.
    ///
    /// # Errors
    /// When the set cannot be read, which is never taken for absence.
    fn held(&mut self, elements: &Elements) -> Result<Option<Vec<Element>>, NftablesError>;

    /// The state that everything is in.
    ///
    /// # Errors
    /// When the kernel does not tell.
    fn generation(&mut self) -> Result<Generation, NftablesError>;

    /// Carries out a transaction, all of it or nothing.
    ///
    /// # Errors
    /// [`TransactionError::Refused`] when one of its changes does not fit what is there, or when there has been
    /// a change since the state that it is bound to.
    fn commit(&mut self, transaction: &Transaction) -> Result<(), TransactionError>;
}

/// A rule as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its number in its table.
    pub handle: u64,
    /// Whose it is.
    pub comment: Option<String>,
    /// Its parts; `None` for a rule that holds one which has no type here.
    pub expressions: Option<Vec<Expression>>,
}

impl Listed {
    /// The chains that packets enter by this rule.
    pub fn leads_to(&self) -> impl Iterator<Item = &NftName> {
        self.expressions.iter().flatten().filter_map(Expression::leads_to)
    }

    /// Whether this is a rule, as it reads in a listing.
    pub fn is(&self, rule: &NftRule) -> bool {
        let family = rule.chain.table.family;
        self.comment.as_deref() == rule.comment.as_ref().map(super::NftComment::as_str)
            && self.expressions.as_ref().is_some_and(|found| same(family, found, &rule.expressions))
    }
}

fn same(family: TableFamily, found: &[Expression], wanted: &[Expression]) -> bool {
    render::text(family, found) == render::text(family, wanted)
}

/// Why a transaction was not carried out.
#[derive(Debug)]
pub enum TransactionError {
    /// It does not fit what is there: someone may have changed that just now.
    Refused(NftablesError),
    /// It could not be judged, or never fits.
    Failed(NftablesError),
}

/// What lies below a failure of nf_tables.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The nf_tables could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum NftablesError {
    /// The kernel has no nf_tables, or none for this family of tables.
    #[error("failed to {operation}: nf_tables is not supported by this kernel")]
    Unsupported {
        /// What was tried.
        operation: String,
        /// The kernel's word.
        #[source]
        source: BoxError,
    },
    /// The process may not use nf_tables.
    #[error("failed to {operation}: not permitted")]
    NotPermitted {
        /// What was tried.
        operation: String,
        /// The kernel's word.
        #[source]
        source: BoxError,
    },
    /// The kernel refused.
    #[error("failed to {operation}")]
    Kernel {
        /// What was tried.
        operation: String,
        /// The kernel's word.
        #[source]
        source: BoxError,
    },
    /// A user's own words are part of a rule, and the program that understands them is not installed.
    #[error(
        "failed to locate {program}, which has to read the rule {rule:?}: no such program in the directories of PATH"
    )]
    NoProgram {
        /// The program.
        program: String,
        /// The rule.
        rule: String,
        /// The value of `PATH`.
        path: String,
    },
    /// A program could not be run to its end.
    #[error("failed to run {program}")]
    Run {
        /// The program.
        program: String,
        /// What went wrong.
        #[source]
        source: BoxError,
    },
    /// A program refused.
    #[error("{program} failed, {status}")]
    Program {
        /// The program with its arguments.
        program: String,
        /// How it ended.
        status: String,
        /// What it said.
        text: String,
    },
    /// Words of a rule hold a character that would end its command.
    #[error("a rule of nftables holds a line break, a semicolon or a number sign: {line:?}")]
    Unprintable {
        /// The command.
        line: String,
    },
}

impl NftablesError {
    /// Whether nf_tables cannot be used at all, so that nothing of ours can be in it either.
    pub const fn is_unavailable(&self) -> bool {
        match self {
            Self::Unsupported { .. } | Self::NotPermitted { .. } => true,
            Self::Kernel { .. }
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
            Self::NoProgram { .. } | Self::Run { .. } | Self::Program { .. } => Code::Program,
            Self::Unprintable { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Unsupported { source, .. }
            | Self::NotPermitted { source, .. }
            | Self::Kernel { source, .. }
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
        assert_eq!((error.code(), error.is_unavailable()), (Code::Kernel, false));
    }

    #[test]
    fn a_kernel_without_nf_tables_is_told_from_one_that_refuses() {
        let source = Box::new(io::Error::from_raw_os_error(95));
        let error = NftablesError::Unsupported { operation: "list chain inet x y".to_owned(), source };
        assert_eq!(error.to_string(), "failed to list chain inet x y: nf_tables is not supported by this kernel");
        assert!(error.is_unavailable());
    }
}
