//! What the tests of this folder stand on.

pub mod refusing;
pub mod sandbox;
