//! What the SPEC requires of plugins.

mod add;
mod check;
mod del;
mod delegation;
mod errors;
mod network;
mod parameters;
mod result;
mod version;

use super::case::Template;

/// The templates by topic.
pub const TABLES: &[&[Template]] = &[
    version::CASES,
    parameters::CASES,
    errors::CASES,
    add::CASES,
    result::CASES,
    check::CASES,
    del::CASES,
    network::CASES,
    delegation::CASES,
];
