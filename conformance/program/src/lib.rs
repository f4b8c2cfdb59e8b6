//! The program `cni-conformance`, which tests any folder of CNI plugins: the cases that it runs ([`suite`]), and the
//! random histories with which it compares two folders ([`histories`]).

pub mod histories;
pub mod suite;
