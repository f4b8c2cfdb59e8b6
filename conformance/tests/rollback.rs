//! An ADD that fails leaves nothing behind but what containers share, says why, and can be
//! repeated without a DEL.
//!
//! Failures are injected into each system call in turn, and made in the ways in which they come
//! by themselves: IPAM, names that are taken, programs that are missing or fail, locks.

#[path = "rollback/deletion.rs"]
mod deletion;
#[path = "rollback/injected.rs"]
mod injected;
#[path = "rollback/ipam.rs"]
mod ipam;
#[path = "rollback/names.rs"]
mod names;
#[path = "rollback/output.rs"]
mod output;
#[path = "rollback/programs.rs"]
mod programs;
#[path = "rollback/stage.rs"]
mod stage;
