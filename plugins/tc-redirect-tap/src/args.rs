//! `CNI_ARGS`. Unknown keys never fail, whatever `IgnoreUnknown` says, and a value may contain `=`.

use cni_core::error::Error;
use cni_core::fail;

const NAME: &str = "TC_REDIRECT_TAP_NAME";
const UID: &str = "TC_REDIRECT_TAP_UID";
const GID: &str = "TC_REDIRECT_TAP_GID";

/// The plugin's own arguments; an empty name counts as none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapArgs {
    pub name: Option<String>,
    pub owner: Option<u32>,
    pub group: Option<u32>,
}

impl TapArgs {
    /// Splits `K=V;K=V`; the last of several values of a key counts.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let pieces = if text.is_empty() { Vec::new() } else { text.split(';').collect() };
        pieces.into_iter().try_fold(Self::default(), |args, piece| args.with(piece))
    }

    fn with(self, piece: &str) -> Result<Self, Error> {
        let Some((key, value)) = piece.split_once('=') else {
            let details = "CNI_ARGS must be key=value pairs between semicolons";
            return Err(fail!(InvalidEnvironment, "Invalid cni arguments format, {piece:?}", details: "{details}"));
        };
        Ok(match key {
            NAME => Self { name: Some(value.to_owned()).filter(|name| !name.is_empty()), ..self },
            UID => Self { owner: Some(number("tapUID", value)?), ..self },
            GID => Self { group: Some(number("tapGID", value)?), ..self },
            _ => self,
        })
    }
}

fn number(what: &str, value: &str) -> Result<u32, Error> {
    let number = value.parse().ok().filter(|number| *number != u32::MAX);
    number.ok_or_else(|| {
        let details = format!("it must be between 0 and {}", u32::MAX - 1);
        fail!(InvalidEnvironment, "{what} should be numeric convertible, got {value:?}", details: "{details}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(name: Option<&str>, owner: Option<u32>, group: Option<u32>) -> TapArgs {
        TapArgs { name: name.map(str::to_owned), owner, group }
    }

    #[test]
    fn own_keys_are_read_and_others_ignored() {
        for (text, want) in [
            ("", TapArgs::default()),
            (
                "TC_REDIRECT_TAP_NAME=vm0;TC_REDIRECT_TAP_UID=1000;TC_REDIRECT_TAP_GID=5",
                args(Some("vm0"), Some(1000), Some(5)),
            ),
            ("IgnoreUnknown=maybe;NOMAD_JOB_ID=a=b;K8S_POD_NAME=", TapArgs::default()),
            ("TC_REDIRECT_TAP_NAME=a;TC_REDIRECT_TAP_NAME=b", args(Some("b"), None, None)),
            ("TC_REDIRECT_TAP_NAME=a;TC_REDIRECT_TAP_NAME=", TapArgs::default()),
            ("TC_REDIRECT_TAP_NAME=a=b", args(Some("a=b"), None, None)),
            ("TC_REDIRECT_TAP_UID=4294967294;TC_REDIRECT_TAP_GID=+7", args(None, Some(4_294_967_294), Some(7))),
            ("tc_redirect_tap_uid=x", TapArgs::default()),
        ] {
            assert_eq!(TapArgs::parse(text).ok(), Some(want), "{text}");
        }
    }

    #[test]
    fn what_breaks_the_grammar_is_refused() {
        for (text, message) in [
            ("FOO", r#"Invalid cni arguments format, "FOO""#),
            ("A=b;", r#"Invalid cni arguments format, """#),
            (";", r#"Invalid cni arguments format, """#),
            ("TC_REDIRECT_TAP_UID=x", r#"tapUID should be numeric convertible, got "x""#),
            ("TC_REDIRECT_TAP_UID=-1", r#"tapUID should be numeric convertible, got "-1""#),
            ("TC_REDIRECT_TAP_GID=", r#"tapGID should be numeric convertible, got """#),
            ("TC_REDIRECT_TAP_GID=4294967295", r#"tapGID should be numeric convertible, got "4294967295""#),
        ] {
            let error = TapArgs::parse(text).expect_err(text);
            assert_eq!((error.code().number(), error.to_string()), (4, message.to_owned()));
        }
    }
}
