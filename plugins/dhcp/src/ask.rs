//! Asking the daemon.

use std::time::Duration;

use cni_core::error::{Code, Failure};
use cni_model::daemon::{DaemonCall, DaemonError};
use cni_plugin::host::Host;

use crate::grant::Grant;
use crate::protocol::{self, Answer, Question, Reason, Refusal, VERSION, Verb};

/// How much longer than it has said the daemon may take.
const GRACE: Duration = Duration::from_secs(5);

/// What the daemon has not done.
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
    /// Its answer is none.
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
pub fn call(socket: &str, verb: Verb) -> DaemonCall {
    let with_netns = match verb {
        Verb::Add(_) | Verb::Check { .. } => true,
        Verb::Del { .. } | Verb::Gc { .. } | Verb::Status => false,
    };
    // The end of a line is what the reference's daemon waits for before it says who it is.
    let question = format!("{}\n", protocol::text(&Question { protocol: VERSION, verb }));
    DaemonCall { socket: socket.into(), question, with_netns }
}

/// Asks for a lease.
pub fn for_lease(call: &DaemonCall, host: &mut dyn Host) -> Result<Grant, AskError> {
    match ask(call, host)? {
        Answer::Leased(grant) => Ok(grant),
        other @ (Answer::Done | Answer::Wait { .. } | Answer::Refused(_)) => Err(unexpected(other)),
    }
}

/// Asks for something to be done.
pub fn to_do(call: &DaemonCall, host: &mut dyn Host) -> Result<(), AskError> {
    match ask(call, host)? {
        Answer::Done => Ok(()),
        other @ (Answer::Leased(_) | Answer::Wait { .. } | Answer::Refused(_)) => Err(unexpected(other)),
    }
}

/// As [`to_do`]; where there is no daemon of ours there is nothing to do.
pub fn to_do_if_there(call: &DaemonCall, host: &mut dyn Host) -> Result<Presence, AskError> {
    match to_do(call, host) {
        Ok(()) => Ok(Presence::There),
        Err(AskError::Daemon { source: DaemonError::Absent { .. } }) => Ok(Presence::Absent),
        // It has no leases of ours.
        Err(AskError::Daemon { source: other @ DaemonError::OtherMake { .. } }) => {
            log::warn!("{other}");
            Ok(Presence::Absent)
        }
        Err(error) => Err(error),
    }
}

/// Whether there is a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    There,
    Absent,
}

fn ask(call: &DaemonCall, host: &mut dyn Host) -> Result<Answer, AskError> {
    let answer = host.ask_daemon(call, &patience).map_err(|source| AskError::Daemon { source })?;
    serde_json::from_slice(&answer).map_err(|source| AskError::Answer { source })
}

/// How long there will be another answer.
fn patience(answer: &[u8]) -> Option<Duration> {
    match serde_json::from_slice(answer) {
        Ok(Answer::Wait { seconds, .. }) => Some(Duration::from_secs(seconds) + GRACE),
        Ok(Answer::Leased(_) | Answer::Done | Answer::Refused(_)) | Err(_) => None,
    }
}

fn unexpected(answer: Answer) -> AskError {
    match answer {
        Answer::Refused(Refusal { about, text }) => AskError::Refused { about, text },
        Answer::Wait { .. } | Answer::Leased(_) | Answer::Done => AskError::Other,
    }
}
