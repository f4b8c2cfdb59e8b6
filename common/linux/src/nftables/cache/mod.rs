//! A cache of long chains. Listing a chain with the rules of 1000 containers takes longer than everything else that a
//! plugin does.
//!
//! Each long chain has a file with the number (handle) and the text, or a digest of the text, of each of its rules.
//! The kernel's state decides, never the cache:
//! - While only these plugins have changed nf_tables, the file is *complete*: it says which rules exist, in which
//!   order, and which do not. The kernel counts the changes of all tables, its *generation*. The file `generation`
//!   holds the last generation up to which all changes since the beginning of an *epoch* were made by these plugins.
//!   If the kernel's generation differs, another program has changed something, or one of these plugins was killed.
//! - Then a recorded rule is believed only if the kernel, asked for its number, shows the same rule. For anything else
//!   the chain is listed again, and a new epoch begins.
//!
//! If the kernel refuses a change, a file may be wrong: the files of the chains concerned are deleted.
//!
//! A plugin that changes rules holds the lock of the file `generation` from reading the generation to the end, and
//! writes the file last. A short chain has no file: it is read in one message.

mod chain;
mod draft;

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cni_core::error::Failure;
use cni_files::{FileError, Lock, LockError, PrivateDirectory, RUN_DIRECTORY};
use cni_netfilter::nftables::{ChainId, Generation};

use chain::Epoch;
pub(crate) use chain::{CachedChain, CachedRule};
pub(crate) use draft::{ChangedChain, DraftedChain, TouchedChain};

use crate::identity::{IdentityError, identity};

/// A chain with more rules than this is long.
pub(crate) const LONG: usize = 32;

/// A chain with fewer rules than this has become short again.
const SHORT: usize = LONG / 2;

/// The directory below which every network namespace has one.
const DIRECTORY: &str = "chains";

/// The file with the generation up to which all changes are known, and the lock.
const GENERATION: &str = "generation";

/// The time limit for the lock. Without the lock the cache is not used.
const PATIENCE: Duration = Duration::from_secs(2);

/// Up to where all changes are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct KnownGeneration {
    epoch: Epoch,
    generation: u32,
}

/// The right to change rules, held until it is dropped.
pub(crate) struct ChangeLock {
    file: File,
    _lock: Lock,
}

/// The cache of a network namespace.
#[derive(Debug)]
pub(crate) struct ChainCache {
    root: PrivateDirectory,
    own: OwnDirectory,
    /// The content of the generation file when it was last read.
    known: Option<KnownGeneration>,
    /// The files that existed when the first of them was needed.
    names: Option<Vec<String>>,
    /// The content of files when they were last read.
    read: HashMap<String, (FileVersion, Arc<CachedChain>)>,
}

/// Identifies the version of a file: device, inode, and time of the last change.
type FileVersion = (u64, u64, i64, i64);

/// The directory of a namespace.
#[derive(Debug)]
enum OwnDirectory {
    /// Not determined yet.
    Unasked,
    /// There is none: the namespace is not the host's, or the kernel cannot identify it.
    None,
    At(PrivateDirectory),
}

/// Errors of the cache.
#[derive(Debug, thiserror::Error)]
enum ChainCacheError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl ChainCache {
    /// The cache of the namespace in which it is first asked.
    pub(crate) fn new() -> Self {
        Self {
            root: PrivateDirectory::new(RUN_DIRECTORY),
            own: OwnDirectory::Unasked,
            known: None,
            names: None,
            read: HashMap::new(),
        }
    }

    /// No cache, for a namespace that is not the host's.
    pub(crate) fn none() -> Self {
        Self { own: OwnDirectory::None, ..Self::new() }
    }

    /// Whether anything is cached, so that the generation is needed.
    pub(crate) fn is_in_use(&mut self) -> bool {
        self.in_use().is_some()
    }

    /// A chain, if the cache knows all of what it holds in the present generation, or in a later one.
    pub(crate) fn complete(&mut self, id: &ChainId, now: Generation) -> Option<Arc<CachedChain>> {
        self.read(id, now).and_then(|(chain, is_complete)| is_complete.then_some(chain))
    }

    /// The cached rules of a chain, for a batch on a generation.
    pub(crate) fn draft(&mut self, id: &ChainId, now: Generation) -> Option<DraftedChain> {
        self.read(id, now).map(|(chain, is_complete)| DraftedChain::new(chain.rules.iter().cloned(), is_complete))
    }

    /// The cached rules of a chain, and whether they are complete. The generation file is read first: it is written
    /// last, so a chain that is read after it is not older.
    fn read(&mut self, id: &ChainId, now: Generation) -> Option<(Arc<CachedChain>, bool)> {
        let known = self.known_at(now);
        let name = file_name(id).filter(|name| self.has(name))?;
        let chain = self.file(&name)?;
        let is_complete = known.is_some_and(|known| known.epoch == chain.epoch && known.is_at(now));
        Some((chain, is_complete))
    }

    /// The content of a file. It is read again if it was replaced; files are never changed in place.
    fn file(&mut self, name: &str) -> Option<Arc<CachedChain>> {
        let directory = self.in_use()?.clone();
        let metadata = fs::symlink_metadata(directory.path().join(name)).ok()?;
        let version = (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
        if let Some((_, chain)) = self.read.get(name).filter(|(known, _)| *known == version) {
            return Some(Arc::clone(chain));
        }
        let content = directory.read_file(name).map_err(ChainCacheError::from);
        let chain = Arc::new(CachedChain::parse(unless_failed("read", content)??)?);
        self.read.insert(name.to_owned(), (version, Arc::clone(&chain)));
        Some(chain)
    }

    /// Whether a file exists. A file that another process has written since the first look is not seen, and not needed.
    fn has(&mut self, name: &str) -> bool {
        if self.names.is_none() {
            let Some(directory) = self.in_use() else { return false };
            self.names = unless_failed("list", directory.names().map_err(ChainCacheError::from));
        }
        self.names.as_ref().is_some_and(|names| names.iter().any(|there| there == name))
    }

    /// The content of the generation file. If it was outdated, other processes may have written files as well.
    fn known_at(&mut self, now: Generation) -> Option<KnownGeneration> {
        if !self.known.is_some_and(|known| known.is_at(now)) {
            self.names = None;
            let content = self.in_use()?.read_file(GENERATION).map_err(ChainCacheError::from);
            self.known = unless_failed("read", content)?.and_then(|content| KnownGeneration::parse(&content));
        }
        self.known
    }

    /// Waits for the lock for changing rules, if there is a cache to maintain.
    pub(crate) fn turn(&mut self) -> Option<ChangeLock> {
        let path = self.in_use()?.path().join(GENERATION);
        let file = match File::options().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => return unless_failed("open", Err(FileError::of("open", &path)(error).into())),
        };
        unless_failed("lock", ChangeLock::take(file, &path))?
    }

    /// Puts a long chain into the cache that was read whole in a generation, if that is still the last one.
    pub(crate) fn remember(
        &mut self,
        id: &ChainId,
        rules: Vec<CachedRule>,
        read_in: Generation,
        now: impl FnOnce() -> Option<Generation>,
    ) {
        let Some(directory) = self.own().cloned() else { return };
        let path = directory.path().join(GENERATION);
        let opened = directory.open_file(GENERATION).map_err(ChainCacheError::from);
        let turn = opened.and_then(|file| ChangeLock::take(file, &path));
        let Some(turn) = unless_failed("lock", turn).flatten() else { return };
        if now() != Some(read_in) {
            return self.tidy(&directory);
        }
        let mut known = turn.known();
        if !known.is_at(read_in) {
            known = KnownGeneration { epoch: Epoch::begin(), generation: read_in.0 };
        }
        self.write(id, &CachedChain { epoch: known.epoch, rules });
        turn.set(known);
    }

    /// Takes note of a batch that was carried out on a generation, in a turn that began before.
    pub(crate) fn committed(&mut self, turn: &ChangeLock, since: Generation, changed: Vec<(ChainId, ChangedChain)>) {
        let before = turn.known();
        let epoch = if before.is_at(since) { before.epoch } else { Epoch::begin() };
        for (id, chain) in changed {
            match chain {
                ChangedChain::Holds { rules, complete } => {
                    self.write(&id, &CachedChain { epoch: if complete { epoch } else { Epoch::UNKNOWN }, rules });
                }
                ChangedChain::Forgotten => self.forget(&id),
            }
        }
        // Last: a process that is killed before leaves a generation that differs from the kernel's.
        turn.set(KnownGeneration { epoch, generation: since.next().0 });
    }

    /// Drops what is cached of a chain.
    pub(crate) fn forget(&mut self, id: &ChainId) {
        let Some((directory, name)) = self.in_use().cloned().zip(file_name(id)) else { return };
        let path = directory.path().join(name);
        if !path.exists() {
            return;
        }
        self.names = None;
        unless_failed("write", cni_files::remove(&path).map_err(ChainCacheError::from));
        self.tidy(&directory);
    }

    fn write(&mut self, id: &ChainId, chain: &CachedChain) {
        let is_short = chain.rules.len() < SHORT;
        let Some(content) = chain.print().filter(|_| !is_short) else { return self.forget(id) };
        let Some((directory, name)) = self.in_use().cloned().zip(file_name(id)) else { return };
        self.names = None;
        let written = directory.replace_file(&directory, &name, content.as_bytes()).map_err(ChainCacheError::from);
        if unless_failed("write", written).is_none() {
            self.forget(id);
        }
    }

    /// Removes the directories with the last chain.
    fn tidy(&self, directory: &PrivateDirectory) {
        let names = unless_failed("list", directory.names().map_err(ChainCacheError::from));
        if names.is_none_or(|names| names.iter().any(|name| name != GENERATION)) {
            return;
        }
        unless_failed("write", cni_files::remove(&directory.path().join(GENERATION)).map_err(ChainCacheError::from));
        let gone = directory.remove_if_empty() && self.root.below(DIRECTORY).remove_if_empty();
        if gone && self.root.remove_if_empty() {
            log::trace!("{} is gone with the last long chain", self.root.path().display());
        }
    }

    /// The directory of the namespace, if there is a cache of any namespace.
    fn in_use(&mut self) -> Option<&PrivateDirectory> {
        if matches!(self.own, OwnDirectory::Unasked) && !self.root.below(DIRECTORY).path().exists() {
            return None;
        }
        self.own()
    }

    fn own(&mut self) -> Option<&PrivateDirectory> {
        if matches!(self.own, OwnDirectory::Unasked) {
            let identity = unless_failed("name", identity().map_err(ChainCacheError::from)).flatten();
            let at = |identity: String| self.root.below(DIRECTORY).below(&identity.replace(':', "-"));
            self.own = identity.map_or(OwnDirectory::None, |identity| OwnDirectory::At(at(identity)));
        }
        match &self.own {
            OwnDirectory::At(directory) => Some(directory),
            OwnDirectory::Unasked | OwnDirectory::None => None,
        }
    }
}

impl ChangeLock {
    /// `None` when the file went with the last chain while it was waited for.
    fn take(file: File, path: &Path) -> Result<Option<Self>, ChainCacheError> {
        let locked = file.try_clone().map_err(FileError::of("open", path))?;
        let lock = Lock::exclusive(locked, path, PATIENCE)?;
        let inode = file.metadata().map_err(FileError::of("stat", path))?.ino();
        let is_there = fs::symlink_metadata(path).is_ok_and(|there| there.ino() == inode);
        Ok(is_there.then_some(Self { file, _lock: lock }))
    }

    fn known(&self) -> KnownGeneration {
        let mut content = [0; KnownGeneration::LENGTH];
        let read = self.file.read_exact_at(&mut content, 0);
        read.ok().and_then(|()| KnownGeneration::parse(&content)).unwrap_or_default()
    }

    /// Writes the generation file. If that fails, nothing cached is complete.
    fn set(&self, known: KnownGeneration) {
        if let Err(error) = self.file.write_all_at(known.print().as_bytes(), 0) {
            log::debug!("the cache of long chains is not used: {error}");
        }
    }
}

impl KnownGeneration {
    /// Always the same, so that the file is overwritten in one piece.
    const LENGTH: usize = 32;

    fn parse(content: &[u8]) -> Option<Self> {
        let (epoch, generation) = std::str::from_utf8(content).ok()?.strip_suffix('\n')?.split_once(' ')?;
        Some(Self { epoch: Epoch::parse(epoch)?, generation: generation.parse().ok()? })
    }

    fn print(self) -> String {
        format!("{:020} {:010}\n", self.epoch.number(), self.generation)
    }

    fn is_at(self, now: Generation) -> bool {
        self.epoch != Epoch::UNKNOWN && self.generation == now.0
    }
}

/// The name of the file of a chain; `None` for a name that no file can have.
fn file_name(ChainId { table, name }: &ChainId) -> Option<String> {
    let name = format!("{}.{}.{name}", table.family, table.name);
    (!name.contains('/') && name.len() < 256).then_some(name)
}

/// Treats a failing cache as absent.
fn unless_failed<T>(verb: &str, result: Result<T, ChainCacheError>) -> Option<T> {
    result.map_err(|error| log::debug!("cannot {verb} the cache of long chains: {}", with_details(&error))).ok()
}

fn with_details(error: &ChainCacheError) -> String {
    match error {
        ChainCacheError::File(error) => format!("{error}: {}", error.details()),
        ChainCacheError::Identity(error) => format!("{error}: {}", error.details()),
        ChainCacheError::Lock(error) => error.to_string(),
    }
}
