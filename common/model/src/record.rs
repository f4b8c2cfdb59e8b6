//! What is recorded of attachments: facts that the kernel has no place for.
//!
//! A record is valid until the next boot, for the network namespace of the host. The kernel's state decides, never a
//! record: it may be missing, old, or from another release. A plugin must reach the same outcome without it, only
//! slower or with less certainty.

use std::fmt;

use crate::link::Link;
use crate::netns::NamespaceNumber;

/// A kind of parts of what is recorded of an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartKind(&'static str);

impl PartKind {
    /// A kind whose name is part of the program: a word of small letters.
    ///
    /// # Panics
    /// For any other word. As a constant it does not compile then.
    pub const fn new(word: &'static str) -> Self {
        let bytes = word.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            assert!(bytes[at].is_ascii_lowercase(), "a kind of part is a word of small letters");
            at += 1;
        }
        assert!(!bytes.is_empty(), "a kind of part has a name");
        Self(word)
    }

    /// The word.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// The only part of this kind.
    pub const fn part(self) -> Part {
        Part { kind: self, about: String::new() }
    }

    /// The part about one thing, such as a port: letters, digits, dots and colons.
    pub fn about(self, thing: impl fmt::Display) -> Part {
        Part { kind: self, about: thing.to_string() }
    }
}

/// A part of what is recorded of an attachment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    kind: PartKind,
    about: String,
}

impl Part {
    /// Its kind.
    pub const fn kind(&self) -> PartKind {
        self.kind
    }

    /// What it is about; empty for the only one of its kind.
    pub fn thing(&self) -> &str {
        &self.about
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, about } = self;
        f.write_str(kind.0)?;
        if about.is_empty() { Ok(()) } else { write!(f, "-{about}") }
    }
}

/// The new text of some parts, each one line; `None` for a part that goes.
pub type PartChanges = Vec<(Part, Option<String>)>;

/// A container's network namespace, as a record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedNamespace {
    /// A unique identifier of the namespace, never reused.
    pub identity: String,
    /// Its number; records of earlier versions have none.
    pub number: Option<NamespaceNumber>,
    /// `CNI_NETNS`
    pub path: String,
}

impl RecordedNamespace {
    /// Reads what is displayed. The path may hold blanks.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, path) = text.split_once(' ')?;
        let numbered = |mark: char, is_unique: bool| {
            let (identity, number) = name.rsplit_once(mark)?;
            let value = number.parse().ok().filter(|value| *value >= 0)?;
            Some((identity, Some(NamespaceNumber { value, is_unique })))
        };
        let (identity, number) = numbered(UNIQUE, true).or_else(|| numbered(SHARED, false)).unwrap_or((name, None));
        Some(Self { identity: identity.to_owned(), number, path: path.to_owned() })
    }
}

/// The character before a number that no other namespace gets, and before one that may be reused.
const UNIQUE: char = '@';
const SHARED: char = '~';

impl fmt::Display for RecordedNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, number, path } = self;
        match number {
            Some(NamespaceNumber { value, is_unique }) => {
                write!(f, "{identity}{}{value} {path}", if *is_unique { UNIQUE } else { SHARED })
            }
            None => write!(f, "{identity} {path}"),
        }
    }
}

/// A link of a container, as a record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedLink {
    /// Its index, which it keeps when it is renamed.
    pub index: u32,
    /// The kernel's word for its kind; empty where it has none.
    pub kind: String,
    /// Its link-layer address when it was recorded; empty where it has none.
    pub mac: String,
    /// The index of its master on the host, for a link that has one there; records of earlier versions have none.
    pub parent: Option<u32>,
}

impl RecordedLink {
    /// The recorded properties of a link.
    pub fn of(link: &Link) -> Self {
        let mac = link.mac.as_ref().map(ToString::to_string).unwrap_or_default();
        // The host's end shows whose a veth is.
        let has_master = link.peer_netns.is_some() && link.kind.as_deref() != Some("veth");
        let parent = link.peer.filter(|_| has_master);
        Self { index: link.index, kind: link.kind.clone().unwrap_or_default(), mac, parent }
    }

    /// Whether a link of the container is this one, under any name. Its MAC address may have changed since, so index
    /// and kind decide.
    pub fn may_be(&self, link: &Link) -> bool {
        self.index == link.index && self.kind == link.kind.clone().unwrap_or_default()
    }

    /// Whether a link of any namespace is this one.
    pub fn is(&self, link: &Link) -> bool {
        self.may_be(link) && self.mac == Self::of(link).mac && !self.mac.is_empty()
    }

    /// Reads what is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (index, kind, mac) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        let parent = words.next().map(str::parse).transpose().ok()?;
        Some(Self { index, kind: kind.to_owned(), mac: mac.to_owned(), parent })
    }
}

impl fmt::Display for RecordedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, kind, mac, parent } = self;
        write!(f, "{index} {kind} {mac}")?;
        parent.map_or(Ok(()), |parent| write!(f, " {parent}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(number: Option<NamespaceNumber>) -> RecordedNamespace {
        RecordedNamespace { identity: "boot:17".to_owned(), number, path: "/run/a b".to_owned() }
    }

    #[test]
    fn a_namespace_is_read_back_with_its_number_and_the_blanks_of_its_path() {
        for number in [
            None,
            Some(NamespaceNumber { value: 1_073_741_841, is_unique: true }),
            Some(NamespaceNumber { value: 0, is_unique: false }),
        ] {
            let namespace = recorded(number);
            assert_eq!(RecordedNamespace::parse(&namespace.to_string()), Some(namespace));
        }
        assert_eq!(RecordedNamespace::parse("boot:17 /run/a b"), Some(recorded(None)), "as earlier versions wrote it");
        assert_eq!(RecordedNamespace::parse("boot"), None);
    }

    #[test]
    fn a_link_is_read_back() {
        for (kind, mac, parent) in [("veth", "0a:58:0a:01:02:03", None), ("", "", None), ("ipvlan", "", Some(3))] {
            let link = RecordedLink { index: 7, kind: kind.to_owned(), mac: mac.to_owned(), parent };
            assert_eq!(RecordedLink::parse(&link.to_string()), Some(link));
        }
        assert_eq!(["", "7", "7 veth", "x veth 0a", "7 veth 0a x"].map(RecordedLink::parse), [const { None }; 5]);
    }

    #[test]
    fn only_the_master_of_a_child_on_the_host_is_recorded() {
        let link = Link { index: 7, peer: Some(3), ..Link::default() };
        let parent = |kind: &str, peer_netns| {
            RecordedLink::of(&Link { kind: Some(kind.to_owned()), peer_netns, ..link.clone() }).parent
        };
        assert_eq!(
            [parent("macvlan", Some(0)), parent("macvlan", None), parent("veth", Some(0))],
            [Some(3), None, None]
        );
    }

    #[test]
    fn a_link_stays_the_same_under_another_name_and_mac_address() {
        let link = Link { index: 7, kind: Some("macvlan".to_owned()), ..Link::default() };
        let recorded = RecordedLink { mac: "0a:58:0a:01:02:03".to_owned(), ..RecordedLink::of(&link) };
        assert!(recorded.may_be(&link) && !recorded.is(&link));
        assert!(!recorded.may_be(&Link { index: 8, ..link.clone() }));
        assert!(!recorded.may_be(&Link { kind: None, ..link }));
    }
}
