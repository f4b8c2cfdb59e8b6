//! Sends a question to the daemon.

use std::time::Duration;

use cni_core::error::{Code, Error, Failure as _};
use cni_core::fail;
use cni_model::daemon::{DaemonCall, DaemonError};
use cni_plugin::host::Host;

use crate::grant::Grant;
use crate::protocol::{self, DaemonAnswer, DaemonQuestion, DaemonRefusal, Operation, Reason, VERSION};

/// The tolerance beyond the time that the daemon has announced.
const GRACE: Duration = Duration::from_secs(5);

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

/// Asks the daemon, and returns its last answer.
pub fn ask(call: &DaemonCall, host: &mut dyn Host) -> Result<Vec<u8>, DaemonError> {
    host.ask_daemon(call, &patience)
}

/// How long to wait for the next answer; `None` after the last.
fn patience(answer: &[u8]) -> Option<Duration> {
    match serde_json::from_slice(answer) {
        Ok(DaemonAnswer::Wait { seconds, .. }) => Some(Duration::from_secs(seconds) + GRACE),
        Ok(DaemonAnswer::Leased(_) | DaemonAnswer::Done | DaemonAnswer::Refused(_)) | Err(_) => None,
    }
}

/// Has something done.
pub fn to_do(socket: &str, verb: Operation, host: &mut dyn Host) -> Result<(), Error> {
    done(&ask(&call(socket, verb), host).map_err(no_answer)?)
}

/// As [`to_do`]; returns whether there is a daemon. Without one there is nothing to do.
pub fn to_do_if_there(socket: &str, verb: Operation, host: &mut dyn Host) -> Result<bool, Error> {
    match ask(&call(socket, verb), host) {
        Ok(answer) => done(&answer).map(|()| true),
        Err(DaemonError::Absent { .. }) => Ok(false),
        // It has no leases of ours.
        Err(other @ DaemonError::OtherMake { .. }) => {
            log::warn!("{other}");
            Ok(false)
        }
        Err(error) => Err(no_answer(error)),
    }
}

pub fn no_answer(error: DaemonError) -> Error {
    let details = match &error {
        DaemonError::Absent { source, .. } => {
            format!("{source}; start it by \"dhcp daemon\", or the unit cni-dhcp.socket")
        }
        DaemonError::OtherMake { .. } | DaemonError::Late { .. } | DaemonError::Lost { .. } => error.details(),
    };
    Error::stated(error.code(), format!("error dialing DHCP daemon: {error}"), details)
}

/// The grant in an answer.
pub fn leased(answer: &[u8]) -> Result<Grant, Error> {
    match read(answer)? {
        DaemonAnswer::Leased(grant) => Ok(grant),
        DaemonAnswer::Done | DaemonAnswer::Wait { .. } | DaemonAnswer::Refused(_) => Err(to_another()),
    }
}

fn done(answer: &[u8]) -> Result<(), Error> {
    match read(answer)? {
        DaemonAnswer::Done => Ok(()),
        DaemonAnswer::Leased(_) | DaemonAnswer::Wait { .. } | DaemonAnswer::Refused(_) => Err(to_another()),
    }
}

fn to_another() -> Error {
    fail!(Program, "the DHCP daemon has answered another question: restart it")
}

/// Reads an answer that is no refusal.
fn read(answer: &[u8]) -> Result<DaemonAnswer, Error> {
    let torn = |error| fail!(Program, "the DHCP daemon's answer is not understood: restart it", details: "{error}");
    let DaemonRefusal { about, text } = match serde_json::from_slice(answer).map_err(torn)? {
        DaemonAnswer::Refused(refusal) => refusal,
        answer @ (DaemonAnswer::Leased(_) | DaemonAnswer::Done | DaemonAnswer::Wait { .. }) => return Ok(answer),
    };
    let code = match about {
        Reason::Question => Code::Program,
        Reason::Namespace => Code::InvalidNetns,
        Reason::Interface => Code::Kernel,
        Reason::Server => Code::AddressUnavailable,
        Reason::Lease => Code::CheckFailed,
    };
    Err(Error::stated(code, format!("error calling DHCP daemon: {text}"), String::new()))
}
