//! A part of the index: the records of some containers, one line for each lease.
//!
//! It is kept as the text that is on the disk, so that a look-up does not pay for the records of other containers. It
//! begins with a character that no id begins with, so it cannot be mistaken for a lease.

use super::lease::Lease;

/// The first line.
const HEADER: &str = "#host-local leases\n";

/// The number of tabs in a record.
const TABS: usize = 8;

/// The number of the shard in which a container's records are: FNV-1a, folded to one byte.
pub fn number_of(container: &str) -> u8 {
    let hash = container.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_le_bytes().into_iter().fold(0, |folded, byte| folded ^ byte)
}

/// Records, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard(String);

impl Shard {
    /// A shard without a record.
    pub fn new() -> Self {
        Self(HEADER.to_owned())
    }

    /// Takes the content of a file; `None` when it is not what was written.
    pub fn parse(content: Vec<u8>) -> Option<Self> {
        let shard =
            Self(String::from_utf8(content).ok().filter(|text| text.starts_with(HEADER) && text.ends_with('\n'))?);
        let whole = |line: &str| line.bytes().filter(|byte| *byte == b'\t').count() == TABS;
        if shard.lines().all(whole) { Some(shard) } else { None }
    }

    /// The content of the file.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.0.len() == HEADER.len()
    }

    /// The leases of a container; `None` when a record makes no sense.
    pub fn leases_of(&self, container: &str) -> Option<Vec<Lease>> {
        self.lines().filter(|line| line.split('\t').nth(1) == Some(container)).map(Lease::parse).collect()
    }

    /// The leases of all containers, without the records that make no sense.
    pub fn leases(&self) -> impl Iterator<Item = Lease> {
        self.lines().filter_map(Lease::parse)
    }

    /// Adds a record.
    pub fn push(&mut self, lease: &Lease) {
        self.0.push_str(&lease.line());
    }

    /// Removes the record of a file, if there is one.
    pub fn remove(&mut self, name: &str) {
        let is_its = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('\t'));
        let kept = self.0.split_inclusive('\n').filter(|line| !is_its(line)).collect();
        self.0 = kept;
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.lines().skip(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str, container: &str) -> Lease {
        Lease::parse(&format!("{name}\t{container}\teth0\t1\t2\t3\t\t\t")).expect("a record")
    }

    #[test]
    fn records_come_and_go() {
        let mut shard = Shard::new();
        for (name, container) in [("10.1.2.3", "a"), ("10.1.2.33", "b"), ("2001:db8::3", "a")] {
            shard.push(&lease(name, container));
        }
        assert_eq!(shard.leases_of("a"), Some(vec![lease("10.1.2.3", "a"), lease("2001:db8::3", "a")]));
        shard.remove("10.1.2.3");
        assert_eq!(shard.leases().collect::<Vec<_>>(), [lease("10.1.2.33", "b"), lease("2001:db8::3", "a")]);
        assert_eq!(Shard::parse(shard.text().into()), Some(shard.clone()));
        shard.remove("10.1.2.33");
        shard.remove("2001:db8::3");
        assert!(shard.is_empty());
    }

    #[test]
    fn what_was_not_written_so_is_refused() {
        let line = lease("10.1.2.3", "a").line();
        for text in ["", "#host-local leases", &line, &format!("{HEADER}x\n"), &format!("{HEADER}{}", line.trim_end())]
        {
            assert_eq!(Shard::parse(text.into()), None, "{text:?}");
        }
        let odd = Shard::parse(format!("{HEADER}x\ta\t\t\t\t\t\t\t\n").into()).expect("the form is right");
        assert_eq!(odd.leases_of("a"), None);
    }

    #[test]
    fn the_numbers_stay_what_they_are() {
        assert_eq!(["", "a", "foobar"].map(number_of), [0xc5, 0xed, 0xb2], "FNV-1a of 32 bits, folded");
    }
}
