//! An ADD that fails leaves nothing behind but what containers share, says why, and can be
//! repeated without a DEL.
//!
//! Failures are injected into each system call in turn, and made in the ways in which they come
//! by themselves: IPAM, names that are taken, programs that are missing or fail, locks.

mod deletion;
mod injected;
mod ipam;
mod names;
mod output;
mod programs;
mod stage;
