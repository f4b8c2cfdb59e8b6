//! Checks a value against the type and the limits of its key.

use std::net::IpAddr;
use std::str::FromStr;

use cni_catalog::{Format, Key, ValueType};
use cni_core::cidr::{Cidr, parse_ip};
use cni_core::mac::Mac;
use cni_core::names::IfName;
use serde_json::Value;

use crate::finding::nearest;

/// The mistake in a value, and what to write instead.
pub type Wrong = (String, String);

/// The type of a value in words.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(number) if number.is_f64() => "a fraction",
        Value::Number(_) => "an integer",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

const fn wanted(value: ValueType) -> &'static str {
    match value {
        ValueType::String => "a string",
        ValueType::Boolean => "a boolean",
        ValueType::Integer => "an integer",
        ValueType::List => "a list",
        ValueType::Object | ValueType::Dns => "an object",
    }
}

/// Compares the type of a value; `null` means that the key is absent.
pub fn of_type(value: &Value, expected: ValueType) -> Option<Wrong> {
    let (found, expected_words) = (type_of(value), wanted(expected));
    if found == expected_words || value.is_null() {
        return None;
    }
    let instead = match (value, expected) {
        (Value::String(text), ValueType::Boolean) if matches!(text.as_str(), "true" | "false") => {
            format!("write {text} without quotes")
        }
        (Value::String(text), ValueType::Integer) if text.parse::<i64>().is_ok() => {
            format!("write {text} without quotes")
        }
        (Value::Bool(_) | Value::Number(_), ValueType::String) => format!("write \"{value}\""),
        (Value::String(_) | Value::Object(_), ValueType::List) => format!("write [{value}]"),
        _ => format!("write {expected_words}"),
    };
    Some((format!("{value} is {found}, not {expected_words}"), instead))
}

/// Compares a value of the right type with the limits of its key.
pub fn within_limits(value: &Value, key: &Key) -> Option<Wrong> {
    if let Some(number) = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from)) {
        return range(number, key);
    }
    let text = value.as_str()?;
    if let Some(values) = &key.values {
        // The empty text counts as absent.
        if text.is_empty() || values.iter().any(|one| one == text) {
            return None;
        }
        let all = values.iter().map(|value| format!("\"{value}\"")).collect::<Vec<_>>().join(", ");
        let instead = match nearest(text, values.iter().map(String::as_str)) {
            Some(near) => format!("write \"{near}\""),
            None => format!("write one of {all}"),
        };
        return Some((format!("\"{text}\" is not an accepted value"), instead));
    }
    key.format.and_then(|format| of_format(text, format))
}

fn range(number: i128, key: &Key) -> Option<Wrong> {
    let (min, max) = (key.min.map(i128::from), key.max.map(i128::from));
    if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
        let instead = match (min, max) {
            (Some(min), Some(max)) => format!("write a number from {min} to {max}"),
            (Some(min), None) => format!("write {min} or more"),
            (None, Some(max)) => format!("write {max} or less"),
            (None, None) => String::new(),
        };
        return Some((format!("{number} is out of range"), instead));
    }
    None
}

/// Compares a text with a form. The empty text counts as absent, as plugins read it.
fn of_format(text: &str, format: Format) -> Option<Wrong> {
    if text.is_empty() {
        return None;
    }
    let wrong = |what: &str, instead: String| Some((format!("\"{text}\" is not {what}"), instead));
    match format {
        Format::Address if parse_ip(text).is_none() => {
            wrong("an IP address", "write an address such as \"10.1.2.1\", without a prefix length".to_owned())
        }
        Format::AddressWithPrefix => match Cidr::from_str(text) {
            Ok(_) => None,
            Err(_) => wrong("an address with a prefix length", with_prefix(text)),
        },
        Format::Network | Format::Route | Format::Subnet => network(text, format),
        Format::Mac if !is_unicast(text) => {
            wrong("the MAC address of one interface", "write six bytes such as \"02:00:00:00:00:0a\"".to_owned())
        }
        Format::Interface if IfName::parse(text).is_err() => {
            wrong("the name of an interface", "write at most 15 characters without blank, slash or colon".to_owned())
        }
        Format::Chain if !is_chain(text) => {
            wrong("the name of a chain", "write at most 28 printable characters without blank or quote".to_owned())
        }
        Format::AbsolutePath if !text.starts_with('/') => {
            wrong("an absolute path", format!("write a path that begins with a slash, such as \"/{text}\""))
        }
        Format::Plugin if text.contains('/') => wrong(
            "the name of a plugin",
            format!("write \"{}\"; CNI_PATH says where plugins are", text.rsplit('/').next().unwrap_or_default()),
        ),
        Format::Address | Format::Mac | Format::Interface | Format::Chain | Format::AbsolutePath | Format::Plugin => {
            None
        }
    }
}

fn with_prefix(text: &str) -> String {
    match parse_ip(text) {
        Some(IpAddr::V4(_)) => format!("add the prefix length, such as \"{text}/24\""),
        Some(IpAddr::V6(_)) => format!("add the prefix length, such as \"{text}/64\""),
        None => "write an address with a prefix length, such as \"10.1.2.0/24\"".to_owned(),
    }
}

fn network(text: &str, format: Format) -> Option<Wrong> {
    let Ok(cidr) = Cidr::from_str(text) else {
        return Some((format!("\"{text}\" is not a network"), with_prefix(text)));
    };
    let (network, is_ipv4) = (cidr.network(), cidr.address().is_ipv4());
    if !cidr.is_network() && (is_ipv4 || format != Format::Route) {
        let effect = if format == Format::Subnet { "" } else { ", which no route of the kernel has" };
        return Some((format!("\"{text}\" has host bits{effect}"), format!("write \"{network}\"")));
    }
    let room = if is_ipv4 { 30 } else { 126 };
    (format == Format::Subnet && cidr.prefix() > room)
        .then(|| (format!("\"{text}\" has no room for containers"), format!("write a prefix length of at most {room}")))
}

fn is_unicast(text: &str) -> bool {
    Mac::from_str(text).is_ok_and(|mac| mac.bytes().len() == 6 && mac.bytes()[0] & 1 == 0)
}

fn is_chain(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"'\\".contains(&byte);
    text.len() <= 28 && text.bytes().all(is_plain) && !text.starts_with(['-', '!', ':', '*', '#', '['])
}
