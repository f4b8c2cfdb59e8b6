//! JSON as the reference plugins read it, in one place.
//!
//! Go's decoder matches the keys of a known structure without regard to case, takes the last of several
//! spellings, ignores unknown keys and treats `null` as absent; invalid UTF-8 becomes U+FFFD. Runtimes
//! rely on it: Nomad and containerd send `HostPort` where the convention is `hostPort`. [`Json`] keeps
//! a document with the order of its keys, and [`Json::decode`] gives it to serde under those rules, with
//! the path of the offending key in every error.
#![expect(clippy::wildcard_enum_match_arm, reason = "JSON has these kinds of values and no others")]

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use crate::error::{Code, Failure};

mod text;

/// The longest accepted document. In memory a document may take thirty times as much.
pub const MOST_BYTES: usize = 16 << 20;

/// A JSON value; objects keep every key as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction or exponent, within 64 bits.
    Integer(i128),
    /// Any other number.
    Float(f64),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object, in the order of the document.
    Object(Vec<(String, Json)>),
}

/// Text that is not JSON, or a value of the wrong type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}{}{problem}", if path.is_empty() { "" } else { ": " })]
pub struct JsonError {
    /// The path of the key that holds the value, such as `ipam.ranges[0]`.
    path: String,
    problem: String,
}

impl Failure for JsonError {
    fn code(&self) -> Code {
        Code::Decoding
    }
}

impl Json {
    /// Parses a document.
    ///
    /// # Errors
    /// For anything that is not exactly one JSON value, for one of more than [`MOST_BYTES`], and for one that is nested more than 127
    /// levels deep.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        if bytes.len() > MOST_BYTES {
            return Err(de::Error::custom(format_args!("longer than {} MiB", MOST_BYTES >> 20)));
        }
        let text = String::from_utf8_lossy(bytes);
        serde_json::from_str(&text).map_err(|error| de::Error::custom(syntax_problem(&error, &text)))
    }

    /// Decodes the value into `T` under Go's rules.
    ///
    /// # Errors
    /// [`JsonError`] names the path of the first key whose value does not fit.
    pub fn decode<'de, T: Deserialize<'de>>(&'de self) -> Result<T, JsonError> {
        T::deserialize(GoDeserializer(self))
    }

    /// The value of a key, found as a decoder of a structure would find it: the last that is not `null`.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(entries) = self else { return None };
        entries
            .iter()
            .rev()
            .find(|(name, value)| name.eq_ignore_ascii_case(key) && !matches!(value, Self::Null))
            .map(|(_, value)| value)
    }

    /// Whether a key is present, even with the value `null`.
    pub fn has_key(&self, key: &str) -> bool {
        matches!(self, Self::Object(entries) if entries.iter().any(|(name, _)| name.eq_ignore_ascii_case(key)))
    }

    fn unexpected(&self) -> de::Unexpected<'_> {
        match self {
            Self::Null => de::Unexpected::Unit,
            Self::Bool(value) => de::Unexpected::Bool(*value),
            Self::Integer(value) => match i64::try_from(*value) {
                Ok(value) => de::Unexpected::Signed(value),
                Err(_) => de::Unexpected::Other("integer beyond 64 bits"),
            },
            Self::Float(value) => de::Unexpected::Float(*value),
            Self::String(value) => de::Unexpected::Str(value),
            Self::Array(_) => de::Unexpected::Seq,
            Self::Object(_) => de::Unexpected::Map,
        }
    }
}

/// The two errors that users meet have the reference's texts, the others those of serde_json.
fn syntax_problem(error: &serde_json::Error, text: &str) -> String {
    let offending = text.lines().nth(error.line().saturating_sub(1)).and_then(|line| {
        String::from_utf8_lossy(&line.as_bytes()[error.column().saturating_sub(1).min(line.len())..]).chars().next()
    });
    match (error.classify(), offending) {
        (serde_json::error::Category::Eof, _) => "unexpected end of JSON input".to_owned(),
        (_, Some(character)) if error.to_string().starts_with("trailing characters") => {
            format!("invalid character '{character}' after top-level value")
        }
        (_, Some(character)) if error.to_string().starts_with("expected value") => {
            format!("invalid character '{character}' looking for beginning of value")
        }
        _ => error.to_string(),
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct DocumentSeed;

        impl<'de> Visitor<'de> for DocumentSeed {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }

            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Integer(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(Json::Integer(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
                Ok(Json::Float(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Json, E> {
                Ok(Json::String(value.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Json::Array(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Json::Object(entries))
            }
        }

        deserializer.deserialize_any(DocumentSeed)
    }
}

impl de::Error for JsonError {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self { path: String::new(), problem: problem.to_string() }
    }
}

impl JsonError {
    /// Puts a key or an index in front of the path of an error.
    pub(crate) fn below(self, segment: &str) -> Self {
        let Self { path, problem } = self;
        let joint = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        Self { path: format!("{segment}{joint}{path}"), problem }
    }
}

/// Gives a value to serde under Go's rules. A `null` inside an array is the zero value of its type.
struct GoDeserializer<'de>(&'de Json);

impl<'de> GoDeserializer<'de> {
    fn refuse<T>(self, visitor: &dyn de::Expected) -> Result<T, JsonError> {
        Err(de::Error::invalid_type(self.0.unexpected(), visitor))
    }
}

macro_rules! integers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
            match self.0 {
                Json::Null => visitor.visit_i64(0),
                Json::Integer(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                    (Ok(value), _) => visitor.visit_i64(value),
                    (_, Ok(value)) => visitor.visit_u64(value),
                    _ => self.refuse(&visitor),
                },
                _ => self.refuse(&visitor),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for GoDeserializer<'de> {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Null => visitor.visit_unit(),
            Json::Bool(value) => visitor.visit_bool(*value),
            Json::Integer(_) => self.deserialize_i64(visitor),
            Json::Float(value) => visitor.visit_f64(*value),
            Json::String(value) => visitor.visit_borrowed_str(value),
            Json::Array(_) => self.deserialize_seq(visitor),
            Json::Object(_) => self.deserialize_map(visitor),
        }
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Null => visitor.visit_bool(false),
            Json::Bool(value) => visitor.visit_bool(*value),
            _ => self.refuse(&visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Null => visitor.visit_borrowed_str(""),
            Json::String(value) => visitor.visit_borrowed_str(value),
            _ => self.refuse(&visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Null => visitor.visit_seq(ArrayElements { items: [].iter(), index: 0 }),
            Json::Array(items) => visitor.visit_seq(ArrayElements { items: items.iter(), index: 0 }),
            _ => self.refuse(&visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Null => visitor.visit_map(ObjectEntries::new(Vec::new())),
            Json::Object(entries) => visitor
                .visit_map(ObjectEntries::new(entries.iter().map(|(key, value)| (key.as_str(), value)).collect())),
            _ => self.refuse(&visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Null => visitor.visit_map(ObjectEntries::new(Vec::new())),
            Json::Object(entries) => visitor.visit_map(ObjectEntries::new(folded(entries, fields))),
            _ => self.refuse(&visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier ignored_any
    }
}

/// The entries that a structure knows, under its own spelling, the last one of each that is not `null`.
fn folded<'de>(entries: &'de [(String, Json)], fields: &'static [&'static str]) -> Vec<(&'de str, &'de Json)> {
    let mut known: Vec<(&'de str, &'de Json)> = Vec::new();
    for (key, value) in entries {
        let exact = fields.iter().find(|field| **field == key.as_str());
        let field = exact.or_else(|| fields.iter().find(|field| field.eq_ignore_ascii_case(key)));
        match (field, value) {
            (None, _) | (_, Json::Null) => {}
            (Some(field), value) => match known.iter_mut().find(|(name, _)| name == field) {
                Some(earlier) => earlier.1 = value,
                None => known.push((field, value)),
            },
        }
    }
    known
}

struct ArrayElements<'de> {
    items: std::slice::Iter<'de, Json>,
    index: usize,
}

impl<'de> SeqAccess<'de> for ArrayElements<'de> {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, JsonError> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let segment = format!("[{}]", self.index);
        self.index += 1;
        seed.deserialize(GoDeserializer(item)).map(Some).map_err(|error| error.below(&segment))
    }
}

struct ObjectEntries<'de> {
    entries: std::vec::IntoIter<(&'de str, &'de Json)>,
    current: Option<(&'de str, &'de Json)>,
}

impl<'de> ObjectEntries<'de> {
    fn new(entries: Vec<(&'de str, &'de Json)>) -> Self {
        Self { entries: entries.into_iter(), current: None }
    }
}

impl<'de> MapAccess<'de> for ObjectEntries<'de> {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, JsonError> {
        self.current = self.entries.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        let key: StrDeserializer<'_, JsonError> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        match self.current {
            Some((key, value)) => seed.deserialize(GoDeserializer(value)).map_err(|error| error.below(key)),
            None => Err(de::Error::custom("a value was requested before its key")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Mapping {
        host_port: i64,
        host_ip: String,
        flags: Vec<bool>,
        next: Option<Box<Mapping>>,
    }

    fn decode(text: &str) -> Result<Mapping, String> {
        Json::parse(text.as_bytes()).map_err(|error| error.to_string())?.decode().map_err(|error| error.to_string())
    }

    #[test]
    fn keys_match_in_any_case_and_the_last_one_wins() {
        let mapping = decode(r#"{"HOSTPORT":1,"hostPort":2,"HostPort":80,"hostip":"a","x":{}}"#).expect("valid");
        assert_eq!((mapping.host_port, mapping.host_ip.as_str()), (80, "a"));
    }

    #[test]
    fn null_leaves_what_was_there() {
        let mapping = decode(r#"{"hostPort":80,"HostPort":null,"flags":null,"next":null}"#).expect("valid");
        assert_eq!(mapping, Mapping { host_port: 80, ..Mapping::default() });
        assert_eq!(decode("null"), Ok(Mapping::default()));
    }

    #[test]
    fn an_error_names_the_key_by_its_path_and_the_value() {
        for (text, want) in [
            (r#"{"hostPort":"80"}"#, r#"hostPort: invalid type: string "80", expected i64"#),
            (r#"{"hostPort":80.5}"#, "hostPort: invalid type: floating point `80.5`, expected i64"),
            (r#"{"hostPort":8e1}"#, "hostPort: invalid type: floating point `80.0`, expected i64"),
            (r#"{"next":{"flags":[true,1]}}"#, "next.flags[1]: invalid type: integer `1`, expected a boolean"),
            ("[]", "invalid type: sequence, expected struct Mapping"),
        ] {
            assert_eq!(decode(text), Err(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn syntax_errors_are_worded_as_the_references() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            (r#"{"a":"#, "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{} trailing", "invalid character 't' after top-level value"),
        ] {
            assert_eq!(decode(text), Err(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_refused() {
        let refused = |text: String| Json::parse(text.as_bytes()).map_err(|error| error.to_string()).err();
        let long = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
        assert_eq!(refused(long(MOST_BYTES)), None);
        assert_eq!(refused(long(MOST_BYTES + 1)), Some("longer than 16 MiB".to_owned()));
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(refused(deep(127)), None);
        assert_eq!(refused(deep(128)), Some("recursion limit exceeded at line 1 column 128".to_owned()));
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let json = Json::parse(b"{\"hostIp\":\"a\xff\"}").expect("valid");
        assert_eq!(json.get("HOSTIP"), Some(&Json::String("a\u{fffd}".to_owned())));
    }
}
