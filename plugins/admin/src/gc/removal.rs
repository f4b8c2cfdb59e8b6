//! The removal of what is left of one attachment, under its lock.
//!
//! Time goes by between the look at all of the machine and the removal of the last remnant, and a runtime may add an
//! attachment of the same name meanwhile. So each is judged again under its lock, which ADD waits for, and before each
//! DEL: an ADD gives up waiting, and goes on without the lock, when a plugin of others takes long.

use std::time::{Duration, Instant};

use crate::plugin_calls::{RunningCalls, WatchedCalls};
use cni_core::error::Error;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::exclusion;
use cni_plugin::host::Host as _;
use cni_plugin::namespace::Life;
use cni_plugin::share::Share;

use crate::cache::Cached;
use crate::calls::{Caller, PluginFolders, can_work_on};
use crate::error_line::error_line;
use crate::inventory::{Attached, Inventory, Left};
use crate::life::Judge;

/// How long the lock is held before an ADD may have given up waiting for it, with a margin.
const PATIENCE_OF_ADD: Duration = Duration::from_secs(9);

/// Something that is left of a container, or may be.
pub enum Remnant {
    /// An attachment of the cache.
    Known(Box<Attached>),
    /// One that the cache does not have.
    Other(Box<Left>),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing was asked for.
    Found,
    Removed,
    /// It is not left over any more, for this reason.
    Kept(String),
    /// Nobody can tell whether it lives, for this reason.
    Unclear(String),
    /// What has failed.
    Failed(Vec<String>),
}

impl Fate {
    /// That of what is not to be removed.
    pub fn of_found(remnant: &Remnant) -> Self {
        match remnant.life() {
            Life::Unknown(why) => Self::Unclear(why.clone()),
            Life::Alive | Life::Dead => Self::Found,
        }
    }
}

impl Remnant {
    /// Everything that was found and does not live.
    pub fn all(found: Inventory) -> Vec<Self> {
        let known = found.attached.into_iter().filter(|one| one.life != Life::Alive);
        let known = known.map(|one| Self::Known(Box::new(one)));
        known.chain(found.left.into_iter().map(|one| Self::Other(Box::new(one)))).collect()
    }

    /// What it was, with the configuration of its plugins.
    pub const fn cached(&self) -> &Cached {
        match self {
            Self::Known(one) => &one.cached,
            Self::Other(one) => &one.cached,
        }
    }

    /// What it was judged to be.
    pub const fn life(&self) -> &Life {
        match self {
            Self::Known(one) => &one.life,
            Self::Other(one) => &one.life,
        }
    }

    /// Whether what has told of it is as it was.
    fn is_current(&self) -> Result<bool, String> {
        match self {
            Self::Known(one) => {
                one.file.is_current().map_err(|error| format!("failed to read {}: {error}", one.file.path.display()))
            }
            Self::Other(one) => one.is_current().map_err(|error| error_line(&error)),
        }
    }
}

/// Removes remnants, one after the other.
pub struct Remover {
    caller: Caller,
    judge: Judge,
    calls: WatchedCalls,
}

impl Remover {
    /// # Errors
    /// When the kernel cannot be talked to.
    pub fn new(folders: PluginFolders) -> Result<Self, Error> {
        Ok(Self { caller: Caller::new(folders)?, judge: Judge::new()?, calls: WatchedCalls::default() })
    }

    /// Removes what is left of an attachment, if it is dead.
    pub fn remove(&mut self, remnant: &Remnant) -> Fate {
        if let Life::Unknown(why) = remnant.life() {
            return Fate::Unclear(why.clone());
        }
        let at = &remnant.cached().at;
        let fate = match self.caller.host().and_then(|host| exclusion::begin_removal(at, host)) {
            Ok(()) => self.remove_locked(remnant),
            Err(error) => Fate::Kept(format!("something works on it: {}", error_line(&error))),
        };
        self.caller.release();
        fate
    }

    /// The lock of the attachment is held. A plugin that fails does not keep the others. The runtime would try a DEL
    /// that has failed again, so the attachment stays known then.
    fn remove_locked(&mut self, remnant: &Remnant) -> Fate {
        let locked = Instant::now();
        if let Some(fate) = self.changed(remnant) {
            return fate;
        }
        let (cached, mut failures) = (remnant.cached(), Vec::new());
        let record = self.judge.record(&cached.at);
        for (index, config) in cached.plugins.iter().rev().enumerate() {
            if index > 0
                && let Some(fate) = self.lives_again(remnant, locked)
            {
                return fate;
            }
            let deleted = self.caller.delete(cached, config);
            failures.extend(deleted.err().map(|problem| format!("{}: {problem}", config.kind)));
        }
        if failures.is_empty() {
            return self.forget(remnant, locked);
        }
        // The DEL of the interface has removed the record, by which the next call judges. An ADD may have written another.
        if let Some(record) = record.filter(|_| self.judge.life_by_record(&cached.at).is_none())
            && let Err(error) = self.caller.host().and_then(|host| host.apply(&record.write()))
        {
            failures.push(error_line(&error));
        }
        Fate::Failed(failures)
    }

    /// Removes the file of the cache that was judged, and the record of the attachment, which plugins of others leave.
    fn forget(&mut self, remnant: &Remnant, locked: Instant) -> Fate {
        if let Some(fate) = self.lives_again(remnant, locked) {
            return fate;
        }
        if let Remnant::Known(one) = remnant
            && let Err(error) = cni_files::remove(&one.file.path)
        {
            return Fate::Failed(vec![Error::from(error).in_full()]);
        }
        let at = &remnant.cached().at;
        let forgotten = self.caller.host().and_then(|host| {
            exclusion::end_del(Share::Interface, at, host);
            host.apply(&AttachmentRecord::remove(at))
        });
        forgotten.map_or_else(|error| Fate::Failed(vec![error_line(&error)]), |_| Fate::Removed)
    }

    /// What becomes of a remnant that is not what it was when it was found.
    fn changed(&mut self, remnant: &Remnant) -> Option<Fate> {
        let cached = remnant.cached();
        if let Some(process) = self.calls.now().find(&cached.at, |name| can_work_on(cached, name)) {
            return Some(worked_on(&process));
        }
        match (remnant.is_current(), remnant) {
            (Ok(true), Remnant::Known(_)) => fate_of(self.judge.at_once(cached)),
            (Ok(true), Remnant::Other(_)) => fate_of(self.judge.life_by_record(&cached.at)),
            (Ok(false), _) => Some(added_again()),
            (Err(problem), _) => Some(Fate::Failed(vec![problem])),
        }
    }

    /// What becomes of a remnant whose attachment has been added again since the removal began, or is being added without the
    /// lock, which was taken at `locked`. Its record goes with the DEL of the plugin that has made the interface, and then
    /// the cache alone can tell.
    fn lives_again(&mut self, remnant: &Remnant, locked: Instant) -> Option<Fate> {
        if locked.elapsed() > PATIENCE_OF_ADD {
            let cached = remnant.cached();
            let process = RunningCalls::observe().find(&cached.at, |name| can_work_on(cached, name));
            if let Some(process) = process {
                return Some(worked_on(&process));
            }
        }
        let is_current = match remnant {
            Remnant::Known(_) => remnant.is_current(),
            // Its leases go with the DELs.
            Remnant::Other(_) => Ok(true),
        };
        match is_current {
            Ok(true) => fate_of(self.judge.life_by_record(&remnant.cached().at)),
            Ok(false) => Some(added_again()),
            Err(problem) => Some(Fate::Failed(vec![problem])),
        }
    }
}

/// What becomes of something that was dead; `None` when it still seems to be.
fn fate_of(life: Option<Life>) -> Option<Fate> {
    match life? {
        Life::Dead => None,
        Life::Alive => Some(Fate::Kept("it lives again".to_owned())),
        Life::Unknown(why) => Some(Fate::Unclear(why)),
    }
}

fn worked_on(process: &str) -> Fate {
    Fate::Kept(format!("{process} works on it"))
}

fn added_again() -> Fate {
    Fate::Kept("the runtime has deleted it, or added it again".to_owned())
}
