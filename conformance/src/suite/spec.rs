//! What the SPEC requires of plugins.

mod version;

use super::case::Template;

/// The templates by topic.
pub const TABLES: &[&[Template]] = &[version::CASES];
