//! The administrator's tool: what the binary does under its own name.
//!
//! A verb reads libcni's result cache, leases and records, and lets the plugins of the binary do the work.

pub mod cache;
mod calls;
mod check;
pub mod command_line;
mod contested;
mod delegates;
mod doctor;
mod dry_run;
mod error_line;
mod gc;
mod install;
mod inventory;
mod last_repair;
mod life;
mod list;
mod metrics;
mod network_lists;
mod output;
mod pages;
mod pools;
mod port_order;
mod programs;
mod progress;
mod refusal;
mod repair;
mod result_cache;
mod scope;
mod survey;
mod table;
pub mod tool;
mod trace;
