//! Prints a document as Go prints a map: compact, with sorted keys.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::Json;
use crate::result::render::escaped;

impl Json {
    /// Sorts the keys of all objects, and keeps the last of equal ones.
    #[must_use]
    pub fn sorted(self) -> Self {
        match self {
            Self::Array(items) => Self::Array(items.into_iter().map(Self::sorted).collect()),
            Self::Object(entries) => {
                let sorted: BTreeMap<_, _> = entries.into_iter().map(|(key, value)| (key, value.sorted())).collect();
                Self::Object(sorted.into_iter().collect())
            }
            Self::Null | Self::Bool(_) | Self::Integer(_) | Self::Float(_) | Self::String(_) => self,
        }
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i128(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

/// Prints the document without white space. Numbers and texts are printed as by Go, which reads every number of a map as a
/// floating-point number.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => f.write_str(&integer(*value)),
            Self::Float(value) => f.write_str(&float(*value)),
            Self::String(text) => f.write_str(&quoted(text)),
            Self::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", comma_before(index))?;
                }
                f.write_str("]")
            }
            Self::Object(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{}:{value}", comma_before(index), quoted(key))?;
                }
                f.write_str("}")
            }
        }
    }
}

const fn comma_before(index: usize) -> &'static str {
    if index == 0 { "" } else { "," }
}

fn quoted(text: &str) -> String {
    escaped(&serde_json::Value::from(text).to_string())
}

/// Beyond 2^53 not every integer is a floating-point number.
fn integer(value: i128) -> String {
    const EXACT: u128 = 1 << 53;
    let text = value.to_string();
    if value.unsigned_abs() <= EXACT { text } else { text.parse().map_or(text, float) }
}

/// `encoding/json` of Go changes to an exponent where ECMAScript does.
fn float(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    if text.contains("e-") { text } else { text.replace('e', "e+") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_printed_as_by_go() {
        for (text, printed) in [
            (r#" { "b" : [ 1, null, true ], "a" : {"z": 1, "y": {}} } "#, r#"{"a":{"y":{},"z":1},"b":[1,null,true]}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#""<a> & \"b\" \n \u2028 \u0001 é""#, r#""\u003ca\u003e \u0026 \"b\" \n \u2028 \u0001 é""#),
            ("1500.0", "1500"),
            ("1.25", "1.25"),
            ("9007199254740993", "9007199254740992"),
            ("12345678901234567890", "12345678901234567000"),
            ("-12345678901234567890", "-12345678901234567000"),
            ("100000000000000000000", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("0.000001", "0.000001"),
            ("0.00000015", "1.5e-7"),
            ("[]", "[]"),
        ] {
            assert_eq!(Json::parse(text.as_bytes()).expect("JSON").sorted().to_string(), printed);
        }
    }
}
