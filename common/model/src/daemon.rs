//! Questions to a daemon that belongs to a plugin: one to a connection, over a socket of the host.

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
    /// What is asked.
    pub question: String,
    /// Whether the container's namespace, which must be entered, goes along with it.
    pub with_netns: bool,
}

impl fmt::Display for DaemonCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ask {}: {}", self.socket.display(), self.question)
    }
}

/// How long there will be another answer behind this one; none if it is the last.
pub type Patience<'a> = &'a dyn Fn(&[u8]) -> Option<Duration>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Nobody listens.
    #[error("no daemon answers at {}", socket.display())]
    Absent {
        /// The socket.
        socket: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// It speaks another language, as that of the reference does.
    #[error("the daemon at {} is of another make: stop it, and start the one of these plugins", socket.display())]
    OtherMake {
        /// The socket.
        socket: PathBuf,
    },
    /// The answer did not come in time.
    #[error("the daemon at {} did not answer within {limit:?}", socket.display())]
    Late {
        /// The socket.
        socket: PathBuf,
        /// How long was waited.
        limit: Duration,
    },
    /// The connection ended, or the answer is none.
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
    /// Whether the daemon may have done what it was asked for.
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
