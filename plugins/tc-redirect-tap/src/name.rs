//! The name of the tap device: given, chosen by a pattern, or `tap0`, `tap1` and so on.

use cni_core::error::{Code, Error};
use cni_core::fail;
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::host::{Host, LinkQuery};

/// The pattern that the kernel replaces by the first free number.
const NUMBER: &str = "%d";

/// The kernel's own choice for a tap device.
const DEFAULT: &str = "tap%d";

/// The source of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOrigin {
    /// `TC_REDIRECT_TAP_NAME` in `CNI_ARGS`.
    Arguments,
    /// `tapName` in the configuration.
    Key,
}

impl NameOrigin {
    const fn text(self) -> &'static str {
        match self {
            Self::Arguments => "CNI_ARGS TC_REDIRECT_TAP_NAME",
            Self::Key => "tapName",
        }
    }

    const fn code(self) -> Code {
        match self {
            Self::Arguments => Code::InvalidEnvironment,
            Self::Key => Code::InvalidConfig,
        }
    }
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
    fn default() -> Self {
        Self::split(DEFAULT).unwrap_or_else(|| Self::Numbered { before: DEFAULT.to_owned(), after: String::new() })
    }
}

impl TapName {
    /// Parses a name with at most one `%d`.
    pub fn parse(name: &str, origin: NameOrigin) -> Result<Self, Error> {
        let text = || format!("invalid name {name:?} of the tap device ({})", origin.text());
        let parsed = IfName::parse(name);
        let parsed = parsed.map_err(|error| Error::stated(origin.code(), text(), error.to_string()))?;
        if !name.contains('%') {
            return Ok(Self::Fixed(parsed));
        }
        Self::split(name).ok_or_else(|| {
            let text = text() + ": a % must be the only one, and be followed by d";
            Error::stated(origin.code(), text, String::new())
        })
    }

    fn split(pattern: &str) -> Option<Self> {
        let (before, after) = pattern.split_once(NUMBER).filter(|_| pattern.matches('%').count() == 1)?;
        Some(Self::Numbered { before: before.to_owned(), after: after.to_owned() })
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

    fn refused(name: &str, origin: NameOrigin) -> (u32, String) {
        let error = TapName::parse(name, origin).expect_err(name);
        (error.code().number(), error.to_string())
    }

    #[test]
    fn a_name_is_fixed_or_has_one_number() {
        let numbered =
            |before: &str, after: &str| TapName::Numbered { before: before.to_owned(), after: after.to_owned() };
        let parse = |name: &str| TapName::parse(name, NameOrigin::Key);
        assert_eq!(parse("vm0").ok(), Some(TapName::Fixed(IfName::parse("vm0").expect("a name"))));
        assert_eq!(parse("vm%d").ok(), Some(numbered("vm", "")));
        assert_eq!(parse("%d.vm").ok(), Some(numbered("", ".vm")));
        assert_eq!(TapName::default(), numbered("tap", ""));
    }

    #[test]
    fn a_name_that_no_interface_can_have_is_refused() {
        for name in ["sixteen-letters-", "a/b", "a b", ".", "..", ""] {
            let text = format!("invalid name {name:?} of the tap device (tapName)");
            assert_eq!(refused(name, NameOrigin::Key), (7, text));
        }
        for name in ["vm%", "vm%s", "%d%d", "%%d", "100%"] {
            let text = "(CNI_ARGS TC_REDIRECT_TAP_NAME): a % must be the only one, and be followed by d";
            assert_eq!(
                refused(name, NameOrigin::Arguments),
                (4, format!("invalid name {name:?} of the tap device {text}"))
            );
        }
    }
}
