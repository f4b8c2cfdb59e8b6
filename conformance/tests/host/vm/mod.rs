//! Virtual machines: containers that are some, behind `tc-redirect-tap`, and other kernels than the machine's.

mod boot;
mod tables;
