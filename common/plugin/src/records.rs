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

    /// The names of the records of a kind that were written longer ago than `age`, or, by a
    /// clock that has been set back since, in the future, in order.
    fn names_older_than(&mut self, kind: RecordKind, age: Duration) -> Result<Vec<String>, Error>;
}
