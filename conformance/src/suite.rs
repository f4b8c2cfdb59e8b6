//! The cases of the program `cni-conformance`: what a plugin must do, as tables.
//!
//! A [`Template`] says one thing that plugins of some kind must do in some versions of the SPEC; a [`Case`] is that for one
//! plugin and one version, on a [`PrivateHost`] of its own. What the SPEC asks is a table too ([`requirement::ALL`]), and a
//! test holds both against each other: what a plugin can break has a case, and no case names what is not there.

pub mod case;
pub mod host;
pub mod ipam;
pub mod judge;
pub mod report;
pub mod requirement;
pub mod spec;
pub mod subject;
pub mod version;

pub use case::{Case, Group, Source, Template, Topic, cases_of};
pub use host::PrivateHost;
pub use judge::{Mismatch, Verdict};
pub use report::{Ending, Report};
pub use requirement::{Breaker, Level, Requirement};
pub use subject::{Kind, Subject};
pub use version::SpecVersion;

/// Every template, in the order in which its cases run.
pub fn templates() -> impl Iterator<Item = &'static Template> {
    spec::TABLES.iter().flat_map(|table| table.iter())
}
