//! What is true of this repository.

mod imports;
mod modules;
mod packages;
mod pages;
