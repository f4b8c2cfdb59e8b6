//! CHECK tells whether a container's traffic flows.
//!
//! A container manager replaces a container whose CHECK fails, so both mistakes are expensive: failing because of
//! something that does not matter, and passing without something that does. CHECK never changes anything. The rows of
//! the tables say what an administrator or another program did.

mod check_host;
mod harmless;
mod request;
mod rules;
mod stack;
