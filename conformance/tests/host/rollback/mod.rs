//! A failed ADD leaves nothing but what containers share, says why, and can be repeated without a DEL.
//!
//! Failures are injected into each system call in turn, and caused in the ways in which they happen: IPAM, taken
//! names, programs that are missing or fail, locks.

mod deletion;
mod injected;
mod ipam;
mod names;
mod output;
mod programs;
mod rollback_host;
