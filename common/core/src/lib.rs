//! The CNI protocol: what a request, a configuration, a result, a version and an error are, and the names and
//! addresses in them. Packet filters, plans and the host are the business of other crates.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cidr;
pub mod error;
pub mod family;
pub mod json;
pub mod mac;
pub mod names;
pub mod request;
pub mod result;
pub mod valid;
pub mod version;
