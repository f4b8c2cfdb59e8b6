//! The keys of a plugin as a tree.

use cni_catalog::{Entry, Format, Key, PluginKind, ValueType, entries};

/// A place of a configuration.
#[derive(Debug, Default)]
pub struct Node {
    /// The keys of an object, with the first letter case that is documented.
    pub keys: Vec<(&'static str, Node)>,
    /// The elements of a list.
    pub element: Option<Box<Node>>,
    /// The key's row; absent for objects and lists that only contain keys.
    pub key: Option<&'static Key>,
    /// The type, if it is known.
    pub value: Option<ValueType>,
    /// Whether unknown keys below are ignored, since other programs put their keys there too.
    pub is_open: bool,
}

impl Node {
    fn of(value: ValueType) -> Self {
        Self { value: Some(value), ..Self::default() }
    }

    fn open() -> Self {
        Self { is_open: true, ..Self::of(ValueType::Object) }
    }

    /// The node of a key, in any letter case, with the key as it is documented.
    pub fn find(&self, name: &str) -> Option<(&'static str, &Self)> {
        self.keys.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(key, node)| (*key, node))
    }

    fn child(&mut self, name: &'static str) -> &mut Self {
        let place = self.keys.iter().position(|(key, _)| *key == name).unwrap_or_else(|| {
            self.keys.push((name, Self::default()));
            self.keys.len() - 1
        });
        &mut self.keys[place].1
    }

    fn element(&mut self) -> &mut Self {
        self.value = Some(ValueType::List);
        self.element.get_or_insert_default()
    }

    fn insert(&mut self, path: &'static str, key: &'static Key) {
        let mut node = self;
        for part in path.split('.') {
            node.value = Some(ValueType::Object);
            // The configuration of another plugin, which has keys of its own.
            node.is_open |= part == "type" && key.format == Some(Format::Plugin);
            let name = part.trim_end_matches("[]");
            node = node.child(name);
            for _ in 0..(part.len() - name.len()) / 2 {
                node = node.element();
            }
        }
        node.key = Some(key);
        node.value = Some(key.value);
        if key.value == ValueType::Dns {
            node.keys = dns().keys;
            node.value = Some(ValueType::Object);
        }
    }
}

fn dns() -> Node {
    let texts = || Node { element: Some(Box::new(Node::of(ValueType::String))), ..Node::of(ValueType::List) };
    Node {
        keys: vec![
            ("nameservers", texts()),
            ("domain", Node::of(ValueType::String)),
            ("search", texts()),
            ("options", texts()),
        ],
        ..Node::of(ValueType::Object)
    }
}

/// The keys of an element of `plugins`.
pub fn of_plugin(entry: &'static Entry) -> Node {
    let mut root = Node::of(ValueType::Object);
    for name in ["cniVersion", "name", "type"] {
        *root.child(name) = Node::of(ValueType::String);
    }
    *root.child("capabilities") = capabilities();
    *root.child("dns") = dns();
    for open in ["args", "runtimeConfig", "prevResult"] {
        *root.child(open) = Node::open();
    }
    for key in entry.keys.iter().filter(|key| key.key != "prevResult") {
        root.insert(&key.key, key);
    }
    if let Some(cni) = root.child("args").keys.iter_mut().find(|(key, _)| *key == "cni") {
        cni.1.is_open = true;
    }
    if entry.kind == PluginKind::Ipam {
        *root.child("ipam").child("type") = Node::of(ValueType::String);
    } else if root.find("ipam").is_some() {
        // What is in it is judged by the row of the IPAM plugin.
        root.child("ipam").is_open = true;
    }
    root
}

/// The keys of `ipam` that an IPAM plugin takes.
pub fn of_ipam(entry: &'static Entry) -> Node {
    let mut root = of_plugin(entry);
    let place = root.keys.iter().position(|(key, _)| *key == "ipam");
    let mut ipam = place.map(|place| root.keys.swap_remove(place).1).unwrap_or_default();
    ipam.value = Some(ValueType::Object);
    ipam
}

/// Capabilities that runtimes know, even if none of these plugins uses them.
const FOREIGN_CAPABILITIES: [&str; 6] = ["aliases", "cgroupPath", "infinibandGUID", "dns", "devices", "podAnnotations"];

fn capabilities() -> Node {
    let own = entries().iter().flat_map(|entry| &entry.keys).filter_map(|key| key.capability.as_deref());
    let mut node = Node::open();
    for name in own.chain(FOREIGN_CAPABILITIES) {
        *node.child(name) = Node::of(ValueType::Boolean);
    }
    node
}
