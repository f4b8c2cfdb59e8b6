//! The versions of the CNI SPEC, and the commands that each of them has.

use std::fmt;

use crate::error::Error;
use crate::fail;

/// A released version of the SPEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// 0.1.0
    V0_1_0,
    /// 0.2.0
    V0_2_0,
    /// 0.3.0
    V0_3_0,
    /// 0.3.1
    V0_3_1,
    /// 0.4.0
    V0_4_0,
    /// 1.0.0
    V1_0_0,
    /// 1.1.0
    V1_1_0,
}

impl Version {
    /// Every version, oldest first.
    pub const ALL: &'static [Self] =
        &[Self::V0_1_0, Self::V0_2_0, Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The versions since results list interfaces: those of the bandwidth plugin.
    pub const SINCE_0_3_0: &'static [Self] = &[Self::V0_3_0, Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The versions of the vrf plugin.
    pub const SINCE_0_3_1: &'static [Self] = &[Self::V0_3_1, Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The versions since chained plugins may be checked: those of the firewall plugin.
    pub const SINCE_0_4_0: &'static [Self] = &[Self::V0_4_0, Self::V1_0_0, Self::V1_1_0];

    /// The newest version.
    pub const LATEST: Self = Self::V1_1_0;

    /// The version as it is written in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0_1_0 => "0.1.0",
            Self::V0_2_0 => "0.2.0",
            Self::V0_3_0 => "0.3.0",
            Self::V0_3_1 => "0.3.1",
            Self::V0_4_0 => "0.4.0",
            Self::V1_0_0 => "1.0.0",
            Self::V1_1_0 => "1.1.0",
        }
    }

    /// Reads the exact text of a released version.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|version| version.as_str() == text)
    }

    /// Decides whether a configuration of version `text` may be used at all: it must be exactly one of `supported`.
    pub fn require(text: &str, supported: &[Self]) -> Result<Self, Error> {
        Self::parse(text).filter(|version| supported.contains(version)).ok_or_else(|| {
            let list: Vec<String> = supported.iter().map(|version| format!("\"{version}\"")).collect();
            let list = list.join(" ");
            fail!(IncompatibleVersion, "incompatible CNI versions", details: "config is {text:?}, plugin supports [{list}]")
        })
    }

    /// Decides whether a configuration of version `text` allows a command that the SPEC has since `since`.
    ///
    /// # Errors
    /// Those of the reference, in its order: the number, too old, too new, then as [`Version::require`].
    pub fn require_since(text: &str, since: Self, command: &str, supported: &[Self]) -> Result<Self, Error> {
        let number = numeric(text)?;
        if number < since.number() {
            return Err(fail!(IncompatibleVersion, "config version does not allow {command}"));
        }
        if supported.iter().all(|version| version.number() < number) {
            return Err(fail!(IncompatibleVersion, "plugin version does not allow {command}"));
        }
        Self::require(text, supported)
    }

    fn number(self) -> [i64; 3] {
        numeric(self.as_str()).unwrap_or_default()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Reads up to three numbers between dots; missing ones are zero.
fn numeric(text: &str) -> Result<[i64; 3], Error> {
    let mut number = [0; 3];
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() > number.len() {
        return Err(fail!(Decoding, "invalid version {text:?}: too many parts"));
    }
    for ((value, text), part) in number.iter_mut().zip(parts).zip(["major", "minor", "micro"]) {
        let refused = |_| fail!(Decoding, "failed to convert {part} version part {text:?}: not a number");
        *value = text.parse().map_err(refused)?;
    }
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Version, String> {
        Version::require_since(text, Version::V0_4_0, "CHECK", Version::ALL).map_err(|error| error.to_string())
    }

    #[test]
    fn every_version_is_read_back_and_ordered() {
        for pair in Version::ALL.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].number() < pair[1].number());
        }
        for version in Version::ALL {
            assert_eq!(Version::parse(version.as_str()), Some(*version));
        }
    }

    #[test]
    fn an_unknown_version_is_named_with_the_supported_ones() {
        let error = Version::require("9.9.9", Version::SINCE_0_4_0).expect_err("unknown");
        assert_eq!(error.to_string(), "incompatible CNI versions");
        assert_eq!(error.details(), r#"config is "9.9.9", plugin supports ["0.4.0" "1.0.0" "1.1.0"]"#);
    }

    #[test]
    fn the_gate_of_check_compares_numbers_first() {
        for (text, want) in [
            ("0.3.1", "config version does not allow CHECK"),
            ("0.3", "config version does not allow CHECK"),
            ("1.2.0", "plugin version does not allow CHECK"),
            ("0.4.5", "incompatible CNI versions"),
            ("1.1", "incompatible CNI versions"),
            ("abc", r#"failed to convert major version part "abc": not a number"#),
            ("1.x", r#"failed to convert minor version part "x": not a number"#),
            ("1.1.0.0", r#"invalid version "1.1.0.0": too many parts"#),
        ] {
            assert_eq!(check(text), Err(want.to_owned()), "{text}");
        }
        assert_eq!(check("1.0.0"), Ok(Version::V1_0_0));
    }
}
