//! Every key of the host-local plugin, by the addresses that come out and the files that stay.
//!
//! The order of allocation, the words of a refusal and the bytes on disk are the reference's: Go
//! plugins, runtimes and administrators read all three.

mod answer;
mod check;
mod data_dir;
mod del;
mod disk;
mod duplicates;
mod killed;
mod order;
mod reboot;
mod refused;
mod requested;
mod sets;
mod setup;
mod status;
