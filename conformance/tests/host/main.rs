//! What concerns all plugins, or several of them together on one host.

mod advisories;
mod backend_host;
mod backends;
mod chain_reads;
mod differential;
mod moving;
mod namespace;
mod parallel;
mod processes;
mod programs;
mod property;
mod protocol;
mod read_only;
mod tampering;
mod trust;
mod vm;
