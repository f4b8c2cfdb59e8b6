//! The administrator's tool: what the binary does under its own name.
//!
//! A verb reads libcni's result cache, leases and records, and lets the plugins of the binary do the work.

pub mod cache;
mod calls;
mod check;
pub mod command_line;
mod contested;
mod doctor;
mod dry_run;
mod gc;
mod install;
mod inventory;
mod life;
mod list;
mod metrics;
mod network_lists;
mod output;
mod pools;
mod programs;
mod repair;
mod result_cache;
mod survey;
pub mod tool;
mod trace;
