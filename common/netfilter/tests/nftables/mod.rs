//! Changes of nf_tables, on tables in memory.

mod ensure;
mod remove;
