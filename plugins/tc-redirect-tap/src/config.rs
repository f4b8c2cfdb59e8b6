//! The keys and arguments of the plugin, checked before anything is done. An argument overrides the key of the same
//! meaning. Unknown arguments never fail, whatever `IgnoreUnknown` says, and a value may contain `=`.

use std::collections::BTreeMap;

use cni_core::error::{Code, Error};
use cni_core::fail;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_model::link::Link;
use cni_model::plan::{Ns, TapHeaders, TapOptions, TapQueues};
use cni_plugin::host::{Host, LinkQuery};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub name: TapName,
    /// The user who may open the device; that of the plugin if none.
    pub owner: Option<u32>,
    /// Likewise the group.
    pub group: Option<u32>,
    pub queues: TapQueues,
    pub headers: TapHeaders,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    tap_name: String,
    owner: Option<u32>,
    group: Option<u32>,
    multi_queue: bool,
    vnet_hdr: bool,
    /// Not used here, but a runtime that sends something else than an object is not understood.
    prev_result: BTreeMap<String, IgnoredAny>,
}

impl Default for Keys {
    fn default() -> Self {
        let (tap_name, prev_result) = (String::new(), BTreeMap::new());
        Self { tap_name, owner: None, group: None, multi_queue: false, vnet_hdr: true, prev_result }
    }
}

impl Config {
    /// Reads and checks every key and argument.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        let args = TapArgs::parse(request.args_text())?;
        Ok(Self {
            name: name(&keys.tap_name, args.name.as_deref())?,
            owner: args.owner.or(somebody("owner", keys.owner)?),
            group: args.group.or(somebody("group", keys.group)?),
            queues: if keys.multi_queue { TapQueues::Many } else { TapQueues::One },
            headers: if keys.vnet_hdr { TapHeaders::Virtio } else { TapHeaders::PacketInformation },
        })
    }

    /// The properties of the device. As in the original, it belongs to the plugin's own user and group unless others
    /// are named.
    pub fn tap(&self, host: &mut dyn Host) -> TapOptions {
        let (user, group) = host.files().effective_ids();
        TapOptions { owner: self.owner.or(Some(user)), group: self.group.or(Some(group)), queues: self.queues }
    }
}

fn name(key: &str, argument: Option<&str>) -> Result<TapName, Error> {
    let key = if key.is_empty() { TapName::default() } else { TapName::parse(key, Code::InvalidConfig, "tapName")? };
    argument.map_or(Ok(key), |name| TapName::parse(name, Code::InvalidEnvironment, "CNI_ARGS TC_REDIRECT_TAP_NAME"))
}

fn somebody(key: &str, id: Option<u32>) -> Result<Option<u32>, Error> {
    match id {
        // The number means "nobody" to the kernel.
        Some(id @ u32::MAX) => {
            let most = u32::MAX - 1;
            Err(fail!(InvalidConfig, "invalid {key} {id} (must be at most {most})"))
        }
        other => Ok(other),
    }
}

/// The plugin's own arguments; an empty name counts as none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct TapArgs {
    name: Option<String>,
    owner: Option<u32>,
    group: Option<u32>,
}

impl TapArgs {
    /// Splits `K=V;K=V`; the last of several values of a key counts.
    fn parse(text: &str) -> Result<Self, Error> {
        let pieces = if text.is_empty() { Vec::new() } else { text.split(';').collect() };
        pieces.into_iter().try_fold(Self::default(), |args, piece| args.with(piece))
    }

    fn with(self, piece: &str) -> Result<Self, Error> {
        let Some((key, value)) = piece.split_once('=') else {
            let details = "CNI_ARGS must be key=value pairs between semicolons";
            return Err(fail!(InvalidEnvironment, "Invalid cni arguments format, {piece:?}", details: "{details}"));
        };
        Ok(match key {
            "TC_REDIRECT_TAP_NAME" => Self { name: Some(value.to_owned()).filter(|name| !name.is_empty()), ..self },
            "TC_REDIRECT_TAP_UID" => Self { owner: Some(number("tapUID", value)?), ..self },
            "TC_REDIRECT_TAP_GID" => Self { group: Some(number("tapGID", value)?), ..self },
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

/// The name of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapName {
    /// Exactly so.
    Fixed(IfName),
    /// With the first free number between these two texts.
    Numbered { before: String, after: String },
}

impl Default for TapName {
    /// The kernel's own choice for a tap device.
    fn default() -> Self {
        Self::Numbered { before: "tap".to_owned(), after: String::new() }
    }
}

impl TapName {
    /// Parses a name with at most one `%d`, which stands for the first free number.
    fn parse(name: &str, code: Code, origin: &str) -> Result<Self, Error> {
        let text = || format!("invalid name {name:?} of the tap device ({origin})");
        let parsed = IfName::parse(name).map_err(|error| Error::stated(code, text(), error.to_string()))?;
        if !name.contains('%') {
            return Ok(Self::Fixed(parsed));
        }
        match name.split_once("%d").filter(|_| name.matches('%').count() == 1) {
            Some((before, after)) => Ok(Self::Numbered { before: before.to_owned(), after: after.to_owned() }),
            None => {
                let text = text() + ": a % must be the only one, and be followed by d";
                Err(Error::stated(code, text, String::new()))
            }
        }
    }

    /// Chooses a name that no interface of the container has.
    pub fn choose(&self, host: &mut dyn Host) -> Result<IfName, Error> {
        match self {
            Self::Fixed(name) => match host.link(Ns::Container, name)? {
                Some(Link { name, kind, .. }) => {
                    let details = kind.map_or_else(String::new, |kind| format!("it is of kind {kind}"));
                    let text = format!("the container has an interface {name:?} already");
                    Err(fail!(Conflict, "failed to create tap device: {text}", details: "{details}"))
                }
                None => Ok(name.clone()),
            },
            Self::Numbered { before, after } => {
                let links = host.links(Ns::Container, LinkQuery::All)?;
                let taken = |name: &String| links.iter().any(|link| link.name == *name);
                let names = (0_u32..).map(|number| format!("{before}{number}{after}"));
                let free = names.into_iter().find(|name| !taken(name)).unwrap_or_default();
                Ok(IfName::parse(&free)?)
            }
        }
    }
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

    fn refused(name: &str, code: Code, origin: &str) -> (u32, String) {
        let error = TapName::parse(name, code, origin).expect_err(name);
        (error.code().number(), error.to_string())
    }

    #[test]
    fn a_name_is_fixed_or_has_one_number() {
        let numbered =
            |before: &str, after: &str| TapName::Numbered { before: before.to_owned(), after: after.to_owned() };
        let parse = |name: &str| TapName::parse(name, Code::InvalidConfig, "tapName");
        assert_eq!(parse("vm0").ok(), Some(TapName::Fixed(IfName::parse("vm0").expect("a name"))));
        assert_eq!(parse("vm%d").ok(), Some(numbered("vm", "")));
        assert_eq!(parse("%d.vm").ok(), Some(numbered("", ".vm")));
        assert_eq!(TapName::default(), numbered("tap", ""));
    }

    #[test]
    fn a_name_that_no_interface_can_have_is_refused() {
        for name in ["sixteen-letters-", "a/b", "a b", ".", "..", ""] {
            let text = format!("invalid name {name:?} of the tap device (tapName)");
            assert_eq!(refused(name, Code::InvalidConfig, "tapName"), (7, text));
        }
        for name in ["vm%", "vm%s", "%d%d", "%%d", "100%"] {
            let text = "(CNI_ARGS TC_REDIRECT_TAP_NAME): a % must be the only one, and be followed by d";
            let text = format!("invalid name {name:?} of the tap device {text}");
            assert_eq!(refused(name, Code::InvalidEnvironment, "CNI_ARGS TC_REDIRECT_TAP_NAME"), (4, text));
        }
    }
}
