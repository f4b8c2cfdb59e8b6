//! The plugins under test and those of the reference, side by side and one after the other.
//!
//! The same configurations must make the same kernel state, files and results; one must be able to take
//! over from the other while containers run. The differences on purpose are in one table with their reasons
//! ([`cni_conformance::compare::accepted`]), and a row that no case shows must go.
//!
//! The reference is the folder `CNI_REFERENCE_DIR`, or else that of Debian's `containernetworking-plugins`.

mod compare;
mod owners;
mod parallel;
mod sequence;
mod swap;
mod table;

use cni_conformance::reference;
