//! The CNI protocol: request, configuration, result, version and error, with the names and addresses in them. Packet
//! filters, plans and the host are in other crates.
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
