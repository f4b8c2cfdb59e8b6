//! Failures of real hosts: bad input, lost namespaces, killed plugins, repeated and simultaneous calls.

mod input;
mod interrupted;
mod leases;

use super::case::Template;

/// The templates by what goes wrong.
pub const TABLES: &[&[Template]] = &[input::CASES, interrupted::CASES, leases::CASES];
