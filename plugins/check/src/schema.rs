//! Makes a JSON Schema (draft 2020-12) of configuration lists, for editors. It covers what [`judge`](crate::judge)
//! checks, as far as a schema can: it cannot compare addresses, guess names, or look into other files.

use cni_catalog::{Entry, Format, PluginKind, ValueType, entries};
use cni_core::version::Version;
use serde_json::{Map, Value, json};

use crate::tree::{self, Node};

const IPV4: &str = r"((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";
const IPV6: &str = r"[0-9A-Fa-f]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*";
const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9_.-]*$";

/// The schema of a configuration list or a single configuration.
pub fn schema() -> Value {
    let mut definitions = Map::new();
    for entry in entries() {
        definitions.insert(entry.name.clone(), of_plugin(entry));
        if entry.kind == PluginKind::Ipam {
            definitions.insert(format!("ipam-{}", entry.name), object(&tree::of_ipam(entry)));
        }
    }
    let choose = |entry: &Entry| when_type_is(&entry.name, &entry.name);
    let plugin = json!({
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"type": "string", "minLength": 1}},
        "allOf": entries().iter().map(choose).collect::<Vec<_>>(),
    });
    definitions.insert("plugin".to_owned(), plugin);
    let chained = entries().iter().filter(|entry| entry.kind == PluginKind::Chained);
    let chained: Vec<&str> = chained.map(|entry| entry.name.as_str()).collect();
    let first = json!({"not": {"properties": {"type": {"enum": chained}}, "required": ["type"]}});
    let list = json!({
        "properties": {
            "plugins": {
                "type": "array", "minItems": 1,
                "prefixItems": [{"allOf": [{"$ref": "#/$defs/plugin"}, first]}],
                "items": {"$ref": "#/$defs/plugin"},
            },
        },
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "CNI network configuration",
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string", "pattern": NAME}, "cniVersion": version()},
        "anyOf": [{"required": ["plugins"]}, {"required": ["type"]}],
        "if": {"required": ["plugins"]},
        "then": list,
        "else": {"$ref": "#/$defs/plugin"},
        "$defs": definitions,
    })
}

fn version() -> Value {
    let all = Version::ALL.iter().map(|version| json!(version.as_str()));
    let all: Vec<Value> = all.chain([json!(""), json!(null)]).collect();
    json!({"enum": all})
}

fn when_type_is(kind: &str, definition: &str) -> Value {
    json!({
        "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
        "then": {"$ref": format!("#/$defs/{definition}")},
    })
}

fn of_plugin(entry: &'static Entry) -> Value {
    let mut schema = object(&tree::of_plugin(entry));
    let mut all = Vec::new();
    if entry.kind == PluginKind::Ipam {
        // It belongs into `ipam` of another plugin.
        schema["not"] = json!({});
    }
    if entry.keys.iter().any(|key| key.key == "ipam.type") {
        let kinds: Vec<&Entry> = entries().iter().filter(|entry| entry.kind == PluginKind::Ipam).collect();
        let others: Vec<&str> = entries().iter().map(|entry| entry.name.as_str()).collect();
        let others: Vec<&&str> = others.iter().filter(|name| kinds.iter().all(|kind| kind.name != **name)).collect();
        let mut each: Vec<Value> =
            kinds.iter().map(|kind| when_type_is(&kind.name, &format!("ipam-{}", kind.name))).collect();
        each.push(json!({"properties": {"type": {"not": {"enum": others}}}}));
        each.push(json!({"anyOf": [{"maxProperties": 0}, {"required": ["type"]}]}));
        schema["properties"]["ipam"]["allOf"] = json!(each);
    }
    for group in &entry.exclusive {
        let given =
            |key: &String| json!({"properties": {key: {"not": {"enum": [null, false, ""]}}}, "required": [key]});
        all.push(json!({"not": {"allOf": group.iter().map(given).collect::<Vec<_>>()}}));
    }
    if let Some(needed) = &entry.needs_capability {
        let holds = |outer: &str, inner: Value| json!({"properties": {outer: inner}, "required": [outer]});
        let declared = json!({"properties": {needed: {"const": true}}, "required": [needed]});
        let set = json!({"required": [needed]});
        all.push(json!({"anyOf": [holds("capabilities", declared), holds("runtimeConfig", set)]}));
    }
    if !all.is_empty() {
        schema["allOf"] = json!(all);
    }
    schema
}

/// The schema of an object with known keys.
fn object(node: &Node) -> Value {
    let properties: Map<String, Value> =
        node.keys.iter().map(|(key, node)| ((*key).to_owned(), of_node(node))).collect();
    let required: Vec<&str> = node.keys.iter().filter(|(_, node)| is_required(node)).map(|(key, _)| *key).collect();
    let mut schema = json!({"type": "object"});
    if !properties.is_empty() {
        schema["properties"] = Value::Object(properties);
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if !node.keys.is_empty() && !node.is_open {
        schema["additionalProperties"] = json!(false);
    }
    if let Some(elements) = node.key.and_then(|key| key.elements) {
        schema["additionalProperties"] = json!({"type": [type_of(elements), "null"]});
    }
    schema
}

fn is_required(node: &Node) -> bool {
    node.key.is_some_and(|key| key.required)
}

fn of_node(node: &Node) -> Value {
    let mut schema = match node.value {
        Some(ValueType::Object | ValueType::Dns) => object(node),
        Some(ValueType::List) => match &node.element {
            Some(element) => json!({"type": "array", "items": of_node(element)}),
            None => json!({"type": "array"}),
        },
        Some(value) => limited(value, node),
        None => json!({}),
    };
    // `null` means that the key is absent.
    if let Some(kind) = schema.get("type").cloned().filter(|_| !is_required(node)) {
        schema["type"] = json!([kind, "null"]);
    }
    schema
}

const fn type_of(value: ValueType) -> &'static str {
    match value {
        ValueType::String => "string",
        ValueType::Boolean => "boolean",
        ValueType::Integer => "integer",
        ValueType::List => "array",
        ValueType::Object | ValueType::Dns => "object",
    }
}

fn limited(value: ValueType, node: &Node) -> Value {
    let mut schema = json!({"type": type_of(value)});
    let Some(key) = node.key else { return schema };
    if let Some(values) = &key.values {
        let all: Vec<Value> = values.iter().map(|value| json!(value)).chain([json!(""), json!(null)]).collect();
        schema["enum"] = json!(all);
    }
    if let Some(min) = key.min {
        schema["minimum"] = json!(min);
    }
    if let Some(max) = key.max {
        schema["maximum"] = json!(max);
    }
    if let Some(pattern) = key.format.map(pattern) {
        schema["pattern"] = json!(pattern);
    }
    if key.required && value == ValueType::String {
        schema["minLength"] = json!(1);
    }
    schema
}

/// A regular expression of a form; the empty text counts as absent.
fn pattern(format: Format) -> String {
    let form = match format {
        Format::Address => format!("{IPV4}|{IPV6}"),
        Format::AddressWithPrefix | Format::Network | Format::Route => {
            format!("{IPV4}/0*([0-9]|[12][0-9]|3[0-2])|{IPV6}/0*([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8])")
        }
        Format::Subnet => format!("{IPV4}/0*([0-9]|[12][0-9]|30)|{IPV6}/0*([0-9]|[1-9][0-9]|1[01][0-9]|12[0-6])"),
        Format::Mac => {
            let [even, byte] = ["[0-9A-Fa-f][02468ACEace]", "[0-9A-Fa-f]{2}"];
            format!("{even}(:{byte}){{5}}|{even}(-{byte}){{5}}|{even}{byte}(\\.{byte}{byte}){{2}}")
        }
        Format::Interface => r"(?!\.{1,2}$)[^\s/:]{1,15}".to_owned(),
        Format::Chain => r#"(?![-!:*#\[])[!#-&(-\[\]-~]{1,28}"#.to_owned(),
        Format::AbsolutePath => "/.*".to_owned(),
        Format::Plugin => "[^/]*".to_owned(),
    };
    format!("^({form})?$")
}
