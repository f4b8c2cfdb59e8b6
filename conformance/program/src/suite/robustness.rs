//! Failures of real hosts: bad input, lost namespaces, killed plugins, repeated and simultaneous calls.

mod input;
mod interrupted;
mod leases;

use super::case::Template;

/// The templates, by the kind of failure.
pub const TABLES: &[&[Template]] = &[input::CASES, interrupted::CASES, leases::CASES];
