//! What goes wrong on real hosts: bad input, lost namespaces, killed plugins, calls that come twice or all at once.

mod input;
mod interrupted;
mod leases;

use super::case::Template;

/// The templates by what goes wrong.
pub const TABLES: &[&[Template]] = &[input::CASES, interrupted::CASES, leases::CASES];
