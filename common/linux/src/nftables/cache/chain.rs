//! A long chain as it was when it was last read or changed by these plugins.

use std::fmt::{self, Write as _};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::SystemTime;

/// A time without changes by others, named by its beginning in nanoseconds; [`Epoch::UNKNOWN`] for what may have been
/// changed by anyone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

impl Epoch {
    /// No time at all.
    pub(crate) const UNKNOWN: Self = Self(0);

    pub(crate) fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    /// One that begins now, unlike every other.
    pub(crate) fn begin() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(crate) const fn number(self) -> u64 {
        self.0
    }
}

/// A rule: its number in its table, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedRule {
    pub(crate) handle: u64,
    pub(crate) text: SharedText,
}

/// A text, mostly a piece of that of a file: the rules of 1000 containers are one text, not thousands.
#[derive(Clone)]
pub(crate) struct SharedText {
    whole: Arc<String>,
    range: Range<usize>,
}

/// The rules of a chain in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedChain {
    /// The epoch in which only these plugins have changed it.
    pub(crate) epoch: Epoch,
    pub(crate) rules: Vec<CachedRule>,
}

/// The first word of a file. Another release may know its rules by other texts, and would miss those of this one.
const FORMAT: &str = "chain-3";

/// The space for a number with its separators.
const DIGITS: usize = 24;

impl CachedChain {
    /// Reads the content of a file; `None` for anything but what [`CachedChain::print`] writes.
    pub(crate) fn parse(content: Vec<u8>) -> Option<Self> {
        let whole = Arc::new(String::from_utf8(content).ok()?);
        let mut lines = whole.strip_suffix("\n.\n")?.split('\n');
        let first = lines.next()?;
        let epoch = Epoch::parse(first.strip_prefix(FORMAT)?.strip_prefix(' ')?)?;
        let mut end = first.len();
        let rule = |line: &str| {
            let (handle, text) = line.split_once(' ')?;
            end += "\n".len() + line.len();
            let text = SharedText { whole: Arc::clone(&whole), range: end - text.len()..end };
            Some(CachedRule { handle: handle.parse().ok()?, text })
        };
        Some(Self { epoch, rules: lines.map(rule).collect::<Option<_>>()? })
    }

    /// The content of a file: its format and the epoch, a line for each rule, and a dot, without which it is torn. `None` for a rule
    /// that would not stay on its line.
    pub(crate) fn print(&self) -> Option<String> {
        let lengths = self.rules.iter().map(|rule| rule.text.len() + DIGITS);
        let mut text = String::with_capacity(lengths.sum::<usize>() + 2 * DIGITS);
        // Writing to a string cannot fail.
        let _ = write!(text, "{FORMAT} {}", self.epoch.number());
        for CachedRule { handle, text: rule } in &self.rules {
            if rule.contains('\n') {
                return None;
            }
            let _ = write!(text, "\n{handle} {}", &**rule);
        }
        text.push_str("\n.\n");
        Some(text)
    }

    /// The positions of the copies of a rule, counted from 0, and their handles.
    pub(crate) fn places<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, u64)> + 'a {
        let is_it = move |(_, rule): &(usize, &CachedRule)| *rule.text == *text;
        self.rules.iter().enumerate().filter(is_it).map(|(place, rule)| (place, rule.handle))
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        let range = 0..text.len();
        Self { whole: Arc::new(text), range }
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        self.whole.get(self.range.clone()).unwrap_or_default()
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedText {}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chain(rules: &[(u64, &str)]) -> CachedChain {
        let rules = rules.iter().map(|(handle, text)| CachedRule { handle: *handle, text: (*text).to_owned().into() });
        CachedChain { epoch: Epoch(7), rules: rules.collect() }
    }

    fn parse(text: &str) -> Option<CachedChain> {
        CachedChain::parse(text.as_bytes().to_vec())
    }

    #[test]
    fn copies_are_found_in_their_places() {
        let chain = chain(&[(4, "-A C -j A"), (9, "-A C -j B"), (2, "-A C -j A")]);
        assert_eq!(chain.places("-A C -j A").collect::<Vec<_>>(), [(0, 4), (2, 2)]);
        assert_eq!(chain.places("-A C -j").count(), 0);
    }

    #[test]
    fn what_is_torn_is_no_chain() {
        let whole = chain(&[(4, "-A C -j A"), (9, "-A C -j B")]).print().expect("text");
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "{end}");
        }
        for other in ["", ".\n", "\n.\n", "x\n.\n", "1\n5\n.\n", "1\nfive -A\n.\n"] {
            assert_eq!(parse(other), None, "{other:?}");
            assert_eq!(parse(&format!("chain-3 {other}")), None, "{other:?}");
        }
    }

    #[test]
    fn what_another_release_has_written_is_no_chain() {
        for line in ["7", "chain-1 7", "chain-37"] {
            assert_eq!(parse(&format!("{line}\n4 -A C -j A\n.\n")), None, "{line}");
        }
        assert!(parse("chain-3 7\n4 -A C -j A\n.\n").is_some());
    }

    #[test]
    fn a_rule_of_two_lines_is_not_written() {
        assert_eq!(chain(&[(1, "-A C\n2 -A D")]).print(), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(epoch: u64, rules in proptest::collection::vec((any::<u64>(), "[^\n]{0,30}"), 0..5)) {
            let rules = rules.into_iter().map(|(handle, text)| CachedRule { handle, text: text.into() }).collect();
            let chain = CachedChain { epoch: Epoch(epoch), rules };
            let text = chain.print().expect("text");
            prop_assert_eq!(parse(&text), Some(chain));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = CachedChain::parse(bytes);
        }
    }
}
