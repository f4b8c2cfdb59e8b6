//! Sends a question to the daemon.

use std::time::Duration;

use cni_core::error::{Code, Failure};
use cni_model::daemon::{DaemonCall, DaemonError};
use cni_plugin::host::Host;

use crate::grant::Grant;
use crate::protocol::{self, DaemonAnswer, DaemonQuestion, DaemonRefusal, Operation, Reason, VERSION};

/// The tolerance beyond the time that the daemon has announced.
const GRACE: Duration = Duration::from_secs(5);

/// Errors of asking the daemon.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It could not be asked.
    #[error("error dialing DHCP daemon: {source}")]
    Daemon {
        #[source]
        source: DaemonError,
    },
    /// It refuses.
    #[error("error calling DHCP daemon: {text}")]
    Refused { about: Reason, text: String },
    /// The answer is invalid.
    #[error("the DHCP daemon's answer is not understood: restart it")]
    Answer {
        #[source]
        source: serde_json::Error,
    },
    /// Its answer is one to another question.
    #[error("the DHCP daemon has answered another question: restart it")]
    Other,
}

impl Failure for AskError {
    fn code(&self) -> Code {
        match self {
            Self::Daemon { source } => source.code(),
            Self::Refused { about, .. } => match about {
                Reason::Question => Code::Program,
                Reason::Namespace => Code::InvalidNetns,
                Reason::Interface => Code::Kernel,
                Reason::Server => Code::AddressUnavailable,
                Reason::Lease => Code::CheckFailed,
            },
            Self::Answer { .. } | Self::Other => Code::Program,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Daemon { source: absent @ DaemonError::Absent { .. } } => {
                let reason = std::error::Error::source(absent).map(ToString::to_string).unwrap_or_default();
                format!("{reason}; start it by \"dhcp daemon\", or the unit cni-dhcp.socket")
            }
            Self::Daemon { source } => source.details(),
            Self::Answer { source } => source.to_string(),
            Self::Refused { .. } | Self::Other => String::new(),
        }
    }
}

/// A question for the daemon of a socket.
pub fn call(socket: &str, verb: Operation) -> DaemonCall {
    let with_netns = match verb {
        Operation::Add(_) | Operation::Check { .. } => true,
        Operation::Del { .. } | Operation::Gc { .. } | Operation::Status => false,
    };
    // The end of a line is what the reference's daemon waits for before it says who it is.
    let question = format!("{}\n", protocol::text(&DaemonQuestion { protocol: VERSION, verb }));
    DaemonCall { socket: socket.into(), question, with_netns }
}

/// Asks for a lease.
pub fn for_lease(call: &DaemonCall, host: &mut dyn Host) -> Result<Grant, AskError> {
    match ask(call, host)? {
        DaemonAnswer::Leased(grant) => Ok(grant),
        other @ (DaemonAnswer::Done | DaemonAnswer::Wait { .. } | DaemonAnswer::Refused(_)) => Err(unexpected(other)),
    }
}

/// Asks for something to be done.
pub fn to_do(call: &DaemonCall, host: &mut dyn Host) -> Result<(), AskError> {
    match ask(call, host)? {
        DaemonAnswer::Done => Ok(()),
        other @ (DaemonAnswer::Leased(_) | DaemonAnswer::Wait { .. } | DaemonAnswer::Refused(_)) => {
            Err(unexpected(other))
        }
    }
}

/// As [`to_do`]; without a daemon there is nothing to do.
pub fn to_do_if_there(call: &DaemonCall, host: &mut dyn Host) -> Result<DaemonPresence, AskError> {
    match to_do(call, host) {
        Ok(()) => Ok(DaemonPresence::There),
        Err(AskError::Daemon { source: DaemonError::Absent { .. } }) => Ok(DaemonPresence::Absent),
        // It has no leases of ours.
        Err(AskError::Daemon { source: other @ DaemonError::OtherMake { .. } }) => {
            log::warn!("{other}");
            Ok(DaemonPresence::Absent)
        }
        Err(error) => Err(error),
    }
}

/// Whether a daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonPresence {
    There,
    Absent,
}

fn ask(call: &DaemonCall, host: &mut dyn Host) -> Result<DaemonAnswer, AskError> {
    let answer = host.ask_daemon(call, &patience).map_err(|source| AskError::Daemon { source })?;
    serde_json::from_slice(&answer).map_err(|source| AskError::Answer { source })
}

/// How long to wait for the next answer; `None` after the last.
fn patience(answer: &[u8]) -> Option<Duration> {
    match serde_json::from_slice(answer) {
        Ok(DaemonAnswer::Wait { seconds, .. }) => Some(Duration::from_secs(seconds) + GRACE),
        Ok(DaemonAnswer::Leased(_) | DaemonAnswer::Done | DaemonAnswer::Refused(_)) | Err(_) => None,
    }
}

fn unexpected(answer: DaemonAnswer) -> AskError {
    match answer {
        DaemonAnswer::Refused(DaemonRefusal { about, text }) => AskError::Refused { about, text },
        DaemonAnswer::Wait { .. } | DaemonAnswer::Leased(_) | DaemonAnswer::Done => AskError::Other,
    }
}
