//! Reads the records of the host.

use std::time::Duration;

use cni_core::error::Error;
use cni_model::record::{RecordKey, RecordKind};

/// The records of the host, for the host's network namespace and this boot. They are changed by steps.
pub trait Records {
    /// Reads a record. Returns `None` if it is missing.
    fn read(&mut self, key: &RecordKey) -> Result<Option<String>, Error>;

    /// When a record was last changed, as time since 1970. Returns `None` if it is missing.
    fn written(&mut self, key: &RecordKey) -> Result<Option<Duration>, Error>;

    /// The names of all records of a kind, in order.
    fn names(&mut self, kind: RecordKind) -> Result<Vec<String>, Error>;

    /// The time since the machine was started, including suspend: no clock that can be set.
    fn since_boot(&mut self) -> Result<Duration, Error>;
}
