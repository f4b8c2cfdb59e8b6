//! What is true of this repository.

mod imports;
mod packages;
mod pages;
