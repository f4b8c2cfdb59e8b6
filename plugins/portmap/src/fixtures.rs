//! Containers and ports for the tests of this crate.

use cni_core::json::Json;
use cni_core::names::Attachment;
use cni_netfilter::Backend;
use cni_plugin::ledger::Entry;

use crate::config::{Config, Keys};

/// An entry of `portMappings`.
pub const TCP: &str = r#"{"hostPort":8080,"containerPort":80,"protocol":"tcp"}"#;

/// A configuration for iptables, with keys of the plugin and entries of `portMappings`.
pub fn config(keys: &str, mappings: &str) -> Config {
    let separator = if keys.is_empty() { "" } else { "," };
    let text = format!(r#"{{{keys}{separator}"runtimeConfig":{{"portMappings":[{mappings}]}}}}"#);
    let keys: Keys = Json::parse(text.as_bytes()).expect("JSON").decode().expect("types");
    keys.check(Backend::Iptables).expect("valid")
}

/// The interface `eth0` of `ctr1` in `n1`.
pub fn at() -> Attachment {
    entry("ctr1", "").at
}

/// The entry of that of a container in the ledger, with the lines of some parts.
pub fn entry(container: &str, parts: &str) -> Entry {
    Entry::parse(&format!("n1 {container} eth0\n\n{parts}")).expect("an entry")
}
