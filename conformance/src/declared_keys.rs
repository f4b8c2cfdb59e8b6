//! Every key of every plugin with its type, from the rows of the plugins.

use std::sync::LazyLock;

use cni_catalog::ValueType;

/// The type of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Text,
    Flag,
    Integer,
    List,
    Object,
}

use KeyKind::{Flag, Integer, List, Object, Text};

impl From<ValueType> for KeyKind {
    fn from(value: ValueType) -> Self {
        match value {
            ValueType::String => Text,
            ValueType::Boolean => Flag,
            ValueType::Integer => Integer,
            ValueType::List => List,
            ValueType::Object | ValueType::Dns => Object,
        }
    }
}

/// Every key of every plugin, by plugin and JSON pointer; those that all have are in other files.
pub static KEYS: LazyLock<Vec<(&'static str, &'static str, KeyKind)>> = LazyLock::new(|| {
    let of_plugin = |entry: &'static cni_catalog::Entry| {
        let places = entry.places().into_iter();
        places.map(|(pointer, value)| (entry.name.as_str(), &*pointer.leak(), value.into()))
    };
    cni_catalog::entries().iter().flat_map(of_plugin).collect()
});

/// The members of `prevResult`, for the plugins that read it on ADD.
pub const RESULT: &[(&str, KeyKind)] = &[
    ("/prevResult/cniVersion", Text),
    ("/prevResult/interfaces", List),
    ("/prevResult/interfaces/0", Object),
    ("/prevResult/interfaces/0/name", Text),
    ("/prevResult/interfaces/0/mac", Text),
    ("/prevResult/interfaces/0/sandbox", Text),
    ("/prevResult/ips", List),
    ("/prevResult/ips/0", Object),
    ("/prevResult/ips/0/address", Text),
    ("/prevResult/ips/0/gateway", Text),
    ("/prevResult/ips/0/interface", Integer),
    ("/prevResult/routes", List),
    ("/prevResult/routes/0", Object),
    ("/prevResult/routes/0/dst", Text),
    ("/prevResult/routes/0/gw", Text),
    ("/prevResult/dns", Object),
    ("/prevResult/dns/nameservers", List),
];
