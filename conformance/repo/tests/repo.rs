//! What is true of this repository.

mod forge;
mod imports;
mod modules;
mod packages;
mod pages;
