//! STATUS: whether the configuration can be carried out.

use cni_core::error::Error;
use cni_core::request::Request;

use crate::config::Config;

pub fn status(request: &Request) -> Result<(), Error> {
    Config::load(request).map(|_| ())
}
