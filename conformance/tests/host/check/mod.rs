//! CHECK tells whether a container's traffic flows.
//!
//! A container manager destroys what fails CHECK, so both mistakes cost: failing over something
//! that does not matter, and passing over something that does. Whatever CHECK finds, it writes
//! nothing. The rows of the tables say what an administrator or another program did.

mod client;
mod harmless;
mod request;
mod rules;
mod stack;
