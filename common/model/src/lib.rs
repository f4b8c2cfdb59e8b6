//! The machine as values: links, addresses, routes, VLANs, traffic control, records and files; and plans, the steps
//! that a plugin wants carried out.
//!
//! Nothing here asks or changes anything. `cni-plugin` has the trait `Host`, which returns these values.
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
