//! What is true of this repository.

mod crates;
mod forge;
mod imports;
mod modules;
mod packages;
mod pages;
