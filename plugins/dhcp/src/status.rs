//! STATUS: checks that the daemon answers.

use cni_core::error::{Code, Error, Failure as _};
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::ask::{self, AskError};
use crate::config::Config;
use crate::protocol::Operation;

pub fn status(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    let asked = ask::to_do(&ask::call(&config.socket, Operation::Status), host);
    asked.map_err(|error: AskError| Error::stated(Code::NotAvailable, error.to_string(), error.details()))
}
