//! Remembers the handles of rules, so that a rule is found without a listing of its chain.
//!
//! The kernel numbers the rules of a table. It shows a single rule to a process that names its number, its *handle*. A
//! listing of a chain with the rules of 1000 containers takes longer than everything else that a plugin does. So each
//! container's rule in such a chain has a symbolic link: its name is a digest of the rule, its target is the handle.
//!
//! A link is only a hint: the rule with that handle is read from the kernel and compared. If there is no link, or the kernel has no such rule, the chain is listed. Only a rule without copies has a link, so that
//! the first copy is found where there are several.
//!
//! The links are kept from the first listing of a long chain on; a host that never had more than a few containers has none.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cni_core::error::Failure as _;
use cni_core::names::hash_hex;
use cni_files::{FileError, PrivateDirectory, RUN_DIRECTORY};
use cni_netfilter::iptables::IptablesRule;
use cni_netfilter::nftables::ChainId;

use crate::ledger::identity;
use cni_kernel::netns::NetnsScope;

/// So many rules of a chain, or of a batch of iptables, are asked for one by one. One listing answers for more of them in less time.
pub(crate) const FEW: usize = 64;

/// A chain with more rules of others than this is long.
const LONG: usize = 32;

/// The directory below which every network namespace has one.
const DIRECTORY: &str = "handles";

/// So many hexadecimal digits of a rule's SHA-512 are the name of its link: 128 bits.
const DIGITS: usize = 32;

/// The handles of the rules of a network namespace.
#[derive(Debug)]
pub(crate) struct RuleHandles {
    root: PrivateDirectory,
    own: LinkDirectory,
}

/// The directory of a namespace.
#[derive(Debug)]
enum LinkDirectory {
    /// Not determined yet.
    Unasked,
    /// No namespace has one yet.
    Missing,
    /// No directory is possible: the namespace is not the host's, or the kernel cannot identify it.
    None,
    At(PrivateDirectory),
}

impl RuleHandles {
    /// The handles of the namespace in which they are first asked for; none of another one than the host's.
    pub(crate) fn new(scope: &NetnsScope) -> Self {
        let own = match scope {
            NetnsScope::Current => LinkDirectory::Unasked,
            NetnsScope::Other(_) => LinkDirectory::None,
        };
        Self { root: PrivateDirectory::new(RUN_DIRECTORY).below(DIRECTORY), own }
    }

    /// Whether there may be links, so that the handles of new rules are of use.
    pub(crate) fn are_kept(&mut self) -> bool {
        self.directory().is_some()
    }

    /// The handle that a rule had when it was last seen.
    pub(crate) fn find(&mut self, chain: &ChainId, rule: &str) -> Option<u64> {
        fs::read_link(self.link(chain, rule)?).ok()?.to_str()?.parse().ok()
    }

    /// Remembers the handle of a rule that has no copy.
    pub(crate) fn keep(&mut self, chain: &ChainId, rule: &str, handle: u64) {
        if let Some(link) = self.link(chain, rule) {
            write(&link, handle);
        }
    }

    /// Removes what is remembered of a rule.
    pub(crate) fn forget(&mut self, chain: &ChainId, rule: &str) {
        if let Some(link) = self.link(chain, rule) {
            unless_failed(cni_files::remove(&link));
        }
    }

    /// Takes note of rules, each with the handles of its copies, which were looked for in a chain that holds so many
    /// others.
    pub(crate) fn learn(&mut self, chain: &ChainId, others: usize, rules: &[(String, Vec<u64>)]) {
        let is_long = others > LONG;
        let is_any_kept = is_long && rules.iter().any(|(_, handles)| handles.len() == 1);
        if is_any_kept && let Some(directory) = self.own() {
            unless_failed(directory.ensure());
        }
        for (rule, handles) in rules {
            match &handles[..] {
                [handle] if is_long => self.keep(chain, rule, *handle),
                [_] => {}
                _ => self.forget(chain, rule),
            }
        }
    }

    fn link(&mut self, chain: &ChainId, rule: &str) -> Option<PathBuf> {
        Some(self.directory()?.path().join(name(chain, rule)))
    }

    /// The directory of the namespace, if any namespace has one.
    fn directory(&mut self) -> Option<&PrivateDirectory> {
        if matches!(self.own, LinkDirectory::Unasked) && !self.root.path().exists() {
            self.own = LinkDirectory::Missing;
        }
        if matches!(self.own, LinkDirectory::Missing) { None } else { self.own() }
    }

    fn own(&mut self) -> Option<&PrivateDirectory> {
        if matches!(self.own, LinkDirectory::Unasked | LinkDirectory::Missing) {
            let identity = identity().inspect_err(|error| log::debug!("{IDLE}: {error}: {}", error.details()));
            let at = |identity: String| LinkDirectory::At(self.root.below(&identity.replace(':', "-")));
            self.own = identity.ok().flatten().map_or(LinkDirectory::None, at);
        }
        match &self.own {
            LinkDirectory::At(directory) => Some(directory),
            LinkDirectory::Unasked | LinkDirectory::Missing | LinkDirectory::None => None,
        }
    }
}

/// The text by which the handle of a rule of iptables is remembered.
pub(crate) fn text(rule: &IptablesRule) -> String {
    rule.canonical().specification()
}

/// The name of the link of a rule.
fn name(chain: &ChainId, rule: &str) -> String {
    let mut name = hash_hex(&format!("{chain} {rule}"));
    name.truncate(DIGITS);
    name
}

fn write(link: &Path, handle: u64) {
    let make = || symlink(handle.to_string(), link);
    let made = match make() {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => fs::remove_file(link).and_then(|()| make()),
        made => made,
    };
    unless_failed(made.map_err(FileError::of("write", link)));
}

/// What is logged where links cannot be used. Then chains are listed.
const IDLE: &str = "a handle of a rule is not remembered";

fn unless_failed(done: Result<(), FileError>) {
    if let Err(error) = done {
        log::debug!("{IDLE}: {error}: {}", error.details());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_netfilter::nftables::{TableFamily, TableId};

    fn handles(root: &Path) -> RuleHandles {
        let root = PrivateDirectory::new(root.join("records")).below(DIRECTORY);
        RuleHandles { own: LinkDirectory::At(root.below("boot-1")), root }
    }

    fn chain(name: &'static str) -> ChainId {
        TableId::fixed(TableFamily::Ip, "nat").chain(name)
    }

    fn found(handles: &[u64]) -> [(String, Vec<u64>); 1] {
        [("a".to_owned(), handles.to_vec())]
    }

    #[test]
    fn a_handle_is_kept_for_its_rule_until_it_is_forgotten() {
        let root = tempfile::tempdir().expect("directory");
        let mut handles = handles(root.path());
        handles.learn(&chain("C"), LONG + 1, &found(&[7]));
        let known = |handles: &mut RuleHandles| {
            [("C", "a"), ("C", "b"), ("D", "a")].map(|(name, rule)| handles.find(&chain(name), rule))
        };
        assert_eq!(known(&mut handles), [Some(7), None, None]);
        handles.keep(&chain("C"), "a", 8);
        handles.keep(&chain("D"), "a", u64::MAX);
        assert_eq!(known(&mut handles), [Some(8), None, Some(u64::MAX)]);
        handles.forget(&chain("C"), "a");
        handles.forget(&chain("C"), "a");
        assert_eq!(known(&mut handles), [None, None, Some(u64::MAX)]);
    }

    #[test]
    fn only_a_long_chain_makes_the_directory() {
        let root = tempfile::tempdir().expect("directory");
        let mut handles = handles(root.path());
        handles.learn(&chain("C"), LONG, &found(&[7]));
        handles.keep(&chain("C"), "a", 7);
        assert_eq!((handles.find(&chain("C"), "a"), root.path().join("records").exists()), (None, false));
    }
}
