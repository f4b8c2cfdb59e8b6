//! Questions to a plugin's daemon: one per connection, over a socket of the host.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use cni_core::error::{Code, Failure};

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonCall {
    /// The socket that the daemon listens on.
    pub socket: PathBuf,
    /// The question.
    pub question: String,
    /// Whether the container's namespace is passed along; it must have been entered.
    pub with_netns: bool,
}

impl fmt::Display for DaemonCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ask {}: {}", self.socket.display(), self.question)
    }
}

/// Given an answer, returns how long to wait for the next one; `None` if it is the last.
pub type AnswerTimeout<'a> = &'a dyn Fn(&[u8]) -> Option<Duration>;

/// Errors of asking a daemon.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// No daemon listens.
    #[error("no daemon answers at {}", socket.display())]
    Absent {
        /// The socket.
        socket: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// It speaks another language, as that of the reference does.
    #[error("the daemon at {} belongs to other plugins: stop it, and start the one of these plugins", socket.display())]
    OtherMake {
        /// The socket.
        socket: PathBuf,
    },
    /// The answer did not come in time.
    #[error("the daemon at {} did not answer within {limit:?}", socket.display())]
    Late {
        /// The socket.
        socket: PathBuf,
        /// The time limit.
        limit: Duration,
    },
    /// The connection ended, or the answer is invalid.
    #[error("the daemon at {} gave no answer", socket.display())]
    Lost {
        /// The socket.
        socket: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

impl DaemonError {
    /// Whether the daemon may have carried out the request.
    pub const fn may_be_done(&self) -> bool {
        match self {
            Self::Absent { .. } | Self::OtherMake { .. } => false,
            Self::Late { .. } | Self::Lost { .. } => true,
        }
    }
}

impl Failure for DaemonError {
    fn code(&self) -> Code {
        match self {
            Self::Late { .. } => Code::TryAgain,
            Self::Absent { .. } | Self::OtherMake { .. } | Self::Lost { .. } => Code::Program,
        }
    }
}
