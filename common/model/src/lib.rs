//! The machine as values: links, addresses, routes, VLANs, traffic control, records and files; and the plan of what a
//! plugin wants done to it, as steps.
//!
//! Nothing here asks or changes anything. `cni-plugin` has the trait of the machine that these values come from.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod daemon;
pub mod link;
pub mod netns;
pub mod plan;
pub mod record;
pub mod routing;
pub mod state_file;
pub mod traffic;
pub mod vlan;
