//! What a plugin is written with: the trait of its commands, the journal that undoes a failed ADD, and the trait of
//! the machine.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod attachment_record;
pub mod exclusion;
pub mod host;
pub mod ipam;
pub mod journal;
pub mod json_part;
pub mod ledger;
pub mod lock;
pub mod missing;
pub mod namespace;
pub mod other_network;
pub mod removal;
pub mod run;
pub mod share;
