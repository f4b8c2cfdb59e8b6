//! STATUS: checks that the daemon answers.

use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::ask::{self, AskError};
use crate::config::Config;
use crate::protocol::Operation;

/// There is no daemon that could lease an address.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
struct NoDaemonError {
    #[source]
    source: AskError,
}

impl Failure for NoDaemonError {
    fn code(&self) -> Code {
        Code::NotAvailable
    }

    fn details(&self) -> String {
        self.source.details()
    }
}

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let asked = ask::to_do(&ask::call(&config.socket, Operation::Status), host);
    Ok(asked.map_err(|source| NoDaemonError { source })?)
}
