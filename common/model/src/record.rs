//! Records: facts that the kernel has no place for.
//!
//! A record is valid until the next boot, for the network namespace of the host. The kernel's state decides, never a
//! record: it may be missing, old, or from another release. A plugin must reach the same outcome without it, only
//! slower or with less certainty.

use std::fmt;
use std::net::IpAddr;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::hash_hex;

use crate::state_file::LONGEST_NAME;

/// A kind of records; each kind has its own directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordKind(&'static str);

impl RecordKind {
    /// A kind whose name is part of the program: a word of small letters.
    ///
    /// # Panics
    /// For any other word. As a constant it does not compile then.
    pub const fn new(word: &'static str) -> Self {
        let bytes = word.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            assert!(bytes[at].is_ascii_lowercase(), "a kind of record is a word of small letters");
            at += 1;
        }
        assert!(!bytes.is_empty(), "a kind of record has a name");
        Self(word)
    }

    /// The word.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// Which record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordKey {
    kind: RecordKind,
    name: String,
}

impl RecordKey {
    /// The record of a name, which becomes that of a file.
    ///
    /// # Errors
    /// For a name that no file in the directory of the kind can have.
    pub fn new(kind: RecordKind, name: &str) -> Result<Self, Error> {
        let reserved = name.is_empty() || name == "." || name == "..";
        if reserved || name.len() > LONGEST_NAME || name.contains(['/', '\0']) {
            return Err(fail!(Internal, "invalid name of a record: {name:?}"));
        }
        Ok(Self { kind, name: name.to_owned() })
    }

    /// The record of an address.
    pub fn of_address(kind: RecordKind, address: IpAddr) -> Self {
        Self { kind, name: address.to_string() }
    }

    /// The record of a number.
    pub fn of_number(kind: RecordKind, number: u32) -> Self {
        Self { kind, name: number.to_string() }
    }

    /// The record of a thing whose name may be too long for a file: 128 bits of its hash.
    pub fn hashed(kind: RecordKind, prefix: &'static str, text: &str) -> Self {
        Self { kind, name: format!("{prefix}{}", &hash_hex(text)[..32]) }
    }

    /// One of several records of a thing; all their names begin with [`RecordKey::group`].
    pub fn of_group(kind: RecordKind, thing: &str, text: &str) -> Self {
        Self { kind, name: format!("{}{}", Self::group(thing), &hash_hex(text)[..32]) }
    }

    /// The beginning of the names of all records of a thing.
    pub fn group(thing: &str) -> String {
        format!("{}-", &hash_hex(thing)[..32])
    }

    /// Its kind.
    pub const fn kind(&self) -> RecordKind {
        self.kind
    }

    /// Its name among those of its kind.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.0, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: RecordKind = RecordKind::new("kind");

    #[test]
    fn a_record_has_a_name_that_a_file_can_have() {
        for name in ["", ".", "..", "a/b", "a\0", &"x".repeat(256)] {
            let error = RecordKey::new(KIND, name).expect_err("refused");
            assert_eq!(error.to_string(), format!("invalid name of a record: {name:?}"));
        }
        let longest = "x".repeat(255);
        for name in ["a", "...", "10.1.2.3", "fd00::1", &longest] {
            assert_eq!(RecordKey::new(KIND, name).expect("a key").to_string(), format!("kind/{name}"));
        }
        let address = RecordKey::of_address(KIND, IpAddr::from([10, 1, 2, 3]));
        assert_eq!(Ok(&address), RecordKey::new(KIND, "10.1.2.3").as_ref());
    }

    #[test]
    fn a_long_text_becomes_a_short_name() {
        let key = RecordKey::hashed(KIND, "owner-", &"x".repeat(1000));
        assert_eq!((key.name().len(), key.kind()), ("owner-".len() + 32, KIND));
        assert_ne!(key, RecordKey::hashed(KIND, "owner-", "y"));
        let [one, other] = ["x", "y"].map(|text| RecordKey::of_group(KIND, "thing", text));
        assert!([&one, &other].iter().all(|key| key.name().starts_with(&RecordKey::group("thing"))));
        assert_ne!(one, other);
        assert_ne!(RecordKey::group("thing"), RecordKey::group("other"));
    }
}
