//! The ledger: what is recorded of each attachment of the host, in one entry.
//!
//! An entry has the names of the attachment, its namespace, and a part for each thing that a plugin must know later: who made the
//! interface, which host ports and addresses it has, what DEL is to restore. Steps of a plan change parts, so the journal undoes them. An
//! entry without parts is removed.
//!
//! The kernel's state decides, never an entry: see [`cni_model::record`].

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::time::Duration;

use cni_core::error::Error;
use cni_core::names::{Attachment, ContainerId, IfName, NetworkName, hash_hex};
use cni_core::valid::ValidAttachments;
use cni_model::plan::Step;
use cni_model::record::{Part, PartChanges, PartKind, RecordedNamespace};

pub mod older;

/// What ADD records of the interface; it goes with the entry's namespace.
pub(crate) const ADDED: PartKind = PartKind::new("added");
/// The mark of a DEL that has begun.
pub(crate) const DELETION: PartKind = PartKind::new("deletion");
/// The former properties of a link of the host that is in a container.
pub const DEVICE: PartKind = PartKind::new("device");
/// What DEL of tuning restores; about the container, whose attachments may have changed one parameter.
pub const TUNING: PartKind = PartKind::new("tuning");
/// What DEL of sbr restores.
pub const SOURCE_ROUTES: PartKind = PartKind::new("sbr");
/// What DEL of route-override restores.
pub const ROUTES: PartKind = PartKind::new("routes");
/// The addresses that have masquerade rules.
pub const MASQUERADE: PartKind = PartKind::new("masquerade");
/// An address that has rules of firewall, and the back ends that may hold them.
pub const ADDRESS: PartKind = PartKind::new("address");
/// A port of the host, and its mappings.
pub const PORT: PartKind = PartKind::new("port");
/// Which chain of iptables holds the mappings; about the container in its network, whose attachments share chains.
pub const CHAIN: PartKind = PartKind::new("chain");
/// The mark of a refused ADD.
pub const REFUSAL: PartKind = PartKind::new("refusal");

/// The kinds by which entries are found without a look at those that have no such part.
const INDEXED: [PartKind; 9] = [ADDRESS, CHAIN, DELETION, DEVICE, PORT, REFUSAL, ROUTES, SOURCE_ROUTES, TUNING];

/// Whether entries are found by a part.
pub fn is_indexed(part: &Part) -> bool {
    INDEXED.contains(&part.kind())
}

/// Reads the ledger of the host's network namespace, for this boot. It is changed by steps.
pub trait Ledger {
    /// The entry of an attachment. `None` if there is none, or only a torn one.
    fn entry(&mut self, at: &Attachment) -> Result<Option<Entry>, Error>;

    /// All entries except those of some attachments.
    fn entries(&mut self, known: &[&Attachment]) -> Result<Vec<Entry>, Error>;

    /// The entries that have a part of an indexed kind about one of the things that are meant, each once.
    fn holders(&mut self, kind: PartKind, is_meant: &dyn Fn(&str) -> bool) -> Result<Vec<Entry>, Error>;

    /// The time since the machine was started, including suspend: no clock that can be set.
    fn since_boot(&mut self) -> Result<Duration, Error>;

    /// The time since 1970, which files have too.
    fn now(&mut self) -> Duration;
}

/// What is recorded of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The attachment.
    pub at: Attachment,
    /// Its namespace, if it could be identified.
    pub namespace: Option<RecordedNamespace>,
    parts: BTreeMap<String, String>,
}

impl Entry {
    /// Reads what is displayed. A line without its end is left out: it is torn.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let at = parse_attachment(&mut lines.next()?.split(' '))?;
        let namespace = RecordedNamespace::parse(lines.next()?);
        let parts = lines.filter_map(|line| line.split_once(' '));
        Some(Self { at, namespace, parts: parts.map(|(name, text)| (name.to_owned(), text.to_owned())).collect() })
    }

    /// The text of a part.
    pub fn part(&self, part: &Part) -> Option<&str> {
        self.parts.get(&part.to_string()).map(String::as_str)
    }

    /// What the parts of a kind are about; the only one of its kind is about nothing.
    pub fn things(&self, kind: PartKind) -> impl Iterator<Item = &str> {
        let only = self.part(&kind.part()).map(|_| "");
        self.parts_about(kind).map(|(thing, _)| thing).chain(only)
    }

    /// The parts by which the entry is found.
    pub fn indexed(&self) -> impl Iterator<Item = Part> {
        INDEXED.into_iter().flat_map(|kind| self.things(kind).map(move |thing| kind.about(thing)))
    }

    /// The parts of a kind that are about something, each with that.
    pub fn parts_about(&self, kind: PartKind) -> impl Iterator<Item = (&str, &str)> {
        let parts = self.parts.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        parts.filter_map(move |(name, text)| Some((name.strip_prefix(kind.as_str())?.strip_prefix('-')?, text)))
    }

    /// An entry after a step, with the step that undoes that; `None` in place of an entry without parts. What ADD has recorded of the
    /// interface goes with its namespace.
    pub fn changed(
        earlier: Option<Self>,
        at: &Attachment,
        namespace: Option<&str>,
        parts: &PartChanges,
    ) -> (Option<Self>, Step) {
        let mut entry = earlier.unwrap_or_else(|| Self { at: at.clone(), namespace: None, parts: BTreeMap::new() });
        let mut undo = PartChanges::new();
        let before = namespace.map(|namespace| mem::replace(&mut entry.namespace, RecordedNamespace::parse(namespace)));
        entry.keep_number(before.as_ref());
        let identity = |namespace: &Option<RecordedNamespace>| namespace.as_ref().map(|one| one.identity.clone());
        let has_moved = before.as_ref().is_some_and(|before| identity(before) != identity(&entry.namespace));
        if has_moved && parts.iter().all(|(part, _)| part.kind() != ADDED) {
            undo.push((ADDED.part(), entry.parts.remove(ADDED.as_str())));
        }
        for (part, text) in parts {
            let name = part.to_string();
            let earlier = match text {
                Some(text) => entry.parts.insert(name, text.clone()),
                None => entry.parts.remove(&name),
            };
            undo.push((part.clone(), earlier));
        }
        let namespace = before.map(|before| before.map(|before| before.to_string()).unwrap_or_default());
        let undo = Step::Record { at: at.clone(), namespace, parts: undo };
        (Some(entry).filter(|entry| !entry.parts.is_empty()), undo)
    }

    /// A namespace that had a number keeps it, also where the kernel gave it none now.
    fn keep_number(&mut self, before: Option<&Option<RecordedNamespace>>) {
        if let (Some(now), Some(Some(then))) = (&mut self.namespace, before)
            && now.identity == then.identity
        {
            now.number = now.number.or(then.number);
        }
    }

    /// The entry with what another release has recorded of the attachment. Where both say something, that of the later ADD counts.
    #[must_use]
    pub fn with_other(self, other: Self) -> Self {
        let is_later = other.added_at() > self.added_at();
        let (mut entry, rest) = if is_later { (other, self) } else { (self, other) };
        entry.namespace = entry.namespace.or(rest.namespace);
        rest.parts.into_iter().for_each(|(name, text)| _ = entry.parts.entry(name).or_insert(text));
        entry
    }

    /// When the ADD was recorded, in nanoseconds since 1970; `None` if none is.
    fn added_at(&self) -> Option<u64> {
        self.part(&ADDED.part())?.split(' ').nth(1)?.parse().ok()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", names(&self.at))?;
        self.namespace.iter().try_for_each(|namespace| write!(f, "{namespace}"))?;
        writeln!(f)?;
        self.parts.iter().try_for_each(|(name, text)| writeln!(f, "{name} {text}"))
    }
}

/// The names of an attachment in one line. None of them can hold a blank.
pub fn names(Attachment { network, container, ifname }: &Attachment) -> String {
    format!("{network} {container} {ifname}")
}

/// Reads three words of what [`names`] writes; `None` when they are no such names.
pub fn parse_attachment<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Attachment> {
    let network = NetworkName::parse(words.next()?).ok()?;
    let container = ContainerId::parse(words.next()?).ok()?;
    let ifname = IfName::parse(words.next()?).ok()?;
    Some(Attachment { network, container, ifname })
}

/// The part that is found with those of other attachments of the container.
pub fn of_container(kind: PartKind, at: &Attachment) -> Part {
    kind.about(&hash_hex(at.container.as_str())[..32])
}

/// The part that is found with those of other attachments of the container to the network.
pub fn of_container_in_network(kind: PartKind, at: &Attachment) -> Part {
    kind.about(&hash_hex(&format!("{} {}", at.network, at.container))[..32])
}

/// The step that writes a part.
pub fn write(at: &Attachment, part: Part, text: String) -> Step {
    Step::Record { at: at.clone(), namespace: None, parts: vec![(part, Some(text))] }
}

/// The step that removes some parts.
pub fn remove(at: &Attachment, parts: impl IntoIterator<Item = Part>) -> Step {
    let parts = parts.into_iter().map(|part| (part, None)).collect();
    Step::Record { at: at.clone(), namespace: None, parts }
}

/// Whether an attachment is one to a network, and none of the valid ones.
pub fn is_invalid(at: &Attachment, network: &NetworkName, valid: &ValidAttachments) -> bool {
    at.network == *network && !valid.contains(at.container.as_str(), Some(at.ifname.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: PartKind = PartKind::new("port");

    #[test]
    fn an_entry_is_read_back_without_a_torn_line_and_undone() {
        let at = parse_attachment(&mut "net ctr eth0".split(' ')).expect("an attachment");
        let parts = vec![(KIND.part(), Some("a b".to_owned())), (KIND.about(80), Some(String::new()))];
        let (entry, undo) = Entry::changed(None, &at, Some("boot:1@17 /run/a b"), &parts);
        let entry = entry.expect("with parts");
        let text = "net ctr eth0\nboot:1@17 /run/a b\nport a b\nport-80 \n";
        assert_eq!((entry.to_string().as_str(), Entry::parse(text)), (text, Some(entry.clone())));
        assert_eq!(entry.parts_about(KIND).collect::<Vec<_>>(), [("80", "")]);
        let Step::Record { namespace, parts: undo, .. } = undo else { panic!("{undo}") };
        assert_eq!(namespace.as_deref(), Some(""));
        assert_eq!(Entry::changed(Some(entry.clone()), &at, namespace.as_deref(), &undo).0, None);
        assert_eq!(Entry::parse("net ctr eth0\n\nport a b\nport-80").map(|torn| torn.parts.len()), Some(1));
        for torn in ["", "net ctr eth0", "net ctr eth0\n", "net a/b eth0\n\n", "net ctr\n\n"] {
            assert_eq!(Entry::parse(torn), None, "{torn:?}");
        }
    }
}
