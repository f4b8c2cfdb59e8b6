//! What the author of a plugin uses: the commands that a plugin answers, the plan of what it wants done, the
//! journal that undoes what an ADD did, and the machine as far as a plugin sees it.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod abandoned;
pub mod attachment_record;
pub mod commands;
pub mod devices;
pub mod exclusion;
pub mod files;
pub mod host;
pub mod ipam;
pub mod journal;
pub mod json_record;
pub mod lock;
pub mod missing;
pub mod namespace;
pub mod namespace_state;
pub mod owner;
pub mod records;
pub mod removal;
pub mod routing;
pub mod run;
pub mod share;
