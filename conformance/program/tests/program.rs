//! The program `cni-conformance`, called as people call it.

mod compare;
mod run;
