//! An attachment of libcni's cache, and what this program can do for it.

use std::borrow::Cow;
use std::io;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::names::Attachment;
use cni_core::request::Request;
use cni_linux::host::LinuxHost;
use cni_model::netns::NetnsError;
use cni_model::plan::Ns;
use cni_netfilter::flows::StaleFlows;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::exclusion;
use cni_plugin::host::Host;
use cni_plugin::missing::{MissingPart, MissingRecords};
use cni_plugin::namespace::{Life, OnHost as _};
use cni_plugin::removal::Removal;
use cni_plugin::run::Plugin;
use cni_plugin::share::Share;

use super::outcome::{NamedPart, RepairOutcome, with_failures};
use crate::cache::{Cached, PluginConfig};
use crate::result_cache::CacheFile;
use crate::survey::{has_interface, has_mac, has_signs};

const DELETING: &str = "the runtime is deleting the attachment";
pub const DELETED: &str = "the runtime has deleted the attachment, or added it again, in the meantime";

/// A plugin of the list that this binary contains, and its call.
struct Ours {
    plugin: &'static dyn Plugin,
    request: Request,
}

/// What is missing of an attachment, plugin by plugin, and what could not be looked for.
#[derive(Default)]
pub struct Missing {
    pub parts: Vec<(&'static str, MissingPart)>,
    pub failures: Vec<Error>,
    /// Whether something is to be recorded, or this could not be found out.
    pub lacks_records: bool,
}

impl Missing {
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.failures.is_empty()
    }

    /// The connections to forget, if only rules of iptables are missing, and no records; otherwise `None`.
    pub fn flows_of_rules(&self) -> Option<Vec<StaleFlows>> {
        let mut flows = Vec::new();
        for (_, part) in &self.parts {
            let mut rest = part.plan.without_rules();
            let has_rules = rest != part.plan;
            flows.extend(rest.take_flows());
            if !has_rules || !rest.steps().is_empty() {
                return None;
            }
        }
        (self.failures.is_empty() && !self.lacks_records).then_some(flows)
    }

    /// The outcome when nothing is put back.
    pub fn reported(self) -> RepairOutcome {
        let named = self.parts.iter().map(|(plugin, part)| NamedPart::new(plugin, part)).collect();
        with_failures(self.failures, named, RepairOutcome::Missing)
    }
}

/// An attachment that may have to be repaired.
pub struct Case<'a> {
    cached: Cow<'a, Cached>,
    file: &'a CacheFile,
    netns: &'a str,
    /// At least one.
    ours: Vec<Ours>,
}

impl<'a> Case<'a> {
    /// # Errors
    /// The outcome, where there is nothing to look at.
    pub fn new(cached: &'a Cached, file: &'a CacheFile) -> Result<Self, RepairOutcome> {
        let Some(netns) = cached.reached.as_deref().or(cached.netns.as_deref()) else {
            return Err(RepairOutcome::Skipped("the cache does not name the container's namespace".to_owned()));
        };
        let cached = cached.resolved()?;
        let (call, mut ours) = (cached.call()?, Vec::new());
        for (plugin, config) in makers(&cached) {
            ours.push(Ours { plugin, request: config.request(call.clone(), plugin)? });
        }
        if ours.is_empty() {
            return Err(RepairOutcome::of_known(&cached));
        }
        Ok(Self { cached, file, netns, ours })
    }

    pub fn cached(&self) -> &Cached {
        &self.cached
    }

    /// A host uses a request for delegation only, and nothing is delegated here.
    pub fn request(&self) -> &Request {
        &self.ours[0].request
    }

    /// Enters the container's namespace.
    ///
    /// # Errors
    /// The outcome, if it cannot be entered.
    pub fn enter(&self, host: &mut LinuxHost) -> Result<(), RepairOutcome> {
        let netns = self.netns;
        if host.is_own_netns(netns)? {
            return Err(RepairOutcome::Skipped(format!("{netns} is the host's own namespace")));
        }
        host.enter(netns).map_err(|error| unentered(netns, error))
    }

    /// What is missing; the container's namespace is entered.
    ///
    /// # Errors
    /// The outcome, when nothing is, or the attachment must be left alone.
    pub fn find(&self, host: &mut LinuxHost) -> Result<Missing, RepairOutcome> {
        self.enter(host)?;
        let missing = self.look(host);
        if missing.is_empty() {
            return Err(RepairOutcome::of_known(&self.cached));
        }
        host.open_container().map_err(|error| unentered(self.netns, error))?;
        self.require_unchanged(host).map(|()| missing)
    }

    /// Like [`Case::find`], but then takes the locks, and looks again: a DEL may have come before. It looks without locks first, so
    /// that nothing is locked on a host that needs no repair. Returns `None` if it would have to wait for a lock and not `may_wait`.
    ///
    /// # Errors
    /// As [`Case::find`], and when the locks do not become free.
    pub fn find_locked(
        &self,
        is_first_of_network: bool,
        may_wait: bool,
        host: &mut LinuxHost,
    ) -> Result<Option<Missing>, RepairOutcome> {
        self.find(host)?;
        if !self.lock(is_first_of_network, may_wait, host)? {
            return Ok(None);
        }
        self.find_under_lock(host).map(Some)
    }

    /// Like [`Case::find`], while this process has the locks.
    ///
    /// # Errors
    /// As [`Case::find`].
    fn find_under_lock(&self, host: &mut LinuxHost) -> Result<Missing, RepairOutcome> {
        self.enter(host)?;
        self.require_unchanged(host)?;
        let mut missing = self.look(host);
        if !missing.failures.is_empty() {
            // A DEL that has waited too long for the lock goes on without it.
            self.require_unchanged(host)?;
        }
        if missing.is_empty() {
            return Err(RepairOutcome::of_known(&self.cached));
        }
        missing.lacks_records = !self.find_missing_records(&|_| false, host).is_ok_and(|records| records.is_empty());
        Ok(missing)
    }

    /// Takes the lock of the attachment and, if it `is_first_of_network`, that of its network. `host` keeps them for this process. Looks at
    /// the attachment before it waits for them, since a plugin that works on it may hold them for a long time. Returns `false` if it would
    /// have to wait and not `may_wait`.
    ///
    /// # Errors
    /// When they do not become free, and as [`Case::find`].
    fn lock(&self, is_first_of_network: bool, may_wait: bool, host: &mut LinuxHost) -> Result<bool, RepairOutcome> {
        let begin = if is_first_of_network { exclusion::begin_repair } else { exclusion::begin_attachment };
        host.set_waiting(false);
        let taken = begin(&self.cached.at, host);
        host.set_waiting(true);
        if taken.is_ok() {
            return Ok(true);
        }
        self.enter(host)?;
        self.require_unchanged(host)?;
        if may_wait {
            begin(&self.cached.at, host)?;
        }
        Ok(may_wait)
    }

    /// What is missing of an attachment whose namespace is entered. The failure of one plugin does not stop the others.
    pub fn look(&self, host: &mut dyn Host) -> Missing {
        let mut missing = Missing::default();
        for Ours { plugin, request } in &self.ours {
            match plugin.find_missing(request, host) {
                Ok(found) => missing.parts.extend(found.into_iter().map(|part| (plugin.kind(), part))),
                Err(error) => missing.failures.push(error),
            }
        }
        missing
    }

    /// What is not recorded of an attachment whose namespace is entered and whose rules are there; `is_next` as for
    /// [`Plugin::find_missing_records`].
    ///
    /// # Errors
    /// Those of the first plugin that cannot tell.
    pub fn find_missing_records(
        &self,
        is_next: &dyn Fn(&Attachment) -> bool,
        host: &mut dyn Host,
    ) -> Result<Vec<MissingRecords>, Error> {
        let find = |Ours { plugin, request }: &Ours| plugin.find_missing_records(request, is_next, host);
        let all = self.ours.iter().map(find);
        let mut all = all.collect::<Result<Vec<_>, _>>()?;
        all.retain(|one| !one.plan.steps().is_empty());
        Ok(all)
    }

    fn require_unchanged(&self, host: &mut dyn Host) -> Result<(), RepairOutcome> {
        self.lost(host)?.map_or(Ok(()), |why| Err(RepairOutcome::Skipped(why)))
    }

    /// Returns why the attachment must be left alone, if so: it is no longer the one in the cache.
    ///
    /// # Errors
    /// When that cannot be told.
    pub fn lost(&self, host: &mut dyn Host) -> Result<Option<String>, Error> {
        let at = &self.cached.at;
        if exclusion::is_being_deleted(at, host)? {
            return Ok(Some(DELETING.to_owned()));
        }
        if !self.file.is_current().map_err(|error| unreadable(self.file, &error))? {
            return Ok(Some(DELETED.to_owned()));
        }
        let record = AttachmentRecord::read(at, host.ledger())?;
        if let Some(record) = &record
            && !record.namespace.is_entered(host)?
            && !(record.life(host) == Life::Dead && has_mac(&self.cached, host)?)
        {
            return Ok(Some(format!("{} leads to another namespace than the container's", self.netns)));
        }
        if !self.has_recorded_link(record.as_ref(), host)? && !has_interface(&self.cached, host)? {
            return Ok(Some(format!("{} does not have the container's {} any more", self.netns, at.ifname)));
        }
        Ok(None)
    }

    /// Whether the attachment has an interface although its cache file is missing or has changed: the runtime has added it again,
    /// or the file was lost. libcni removes the file after DEL, and writes it after ADD. Our ADD writes a record before that;
    /// plugins of others write none, so their interface is looked for at the path. What cannot be told counts as an interface.
    pub fn has_interface_after_all(&self, host: &mut LinuxHost) -> bool {
        let has_file = self.file.path.exists();
        has_file && !matches!(self.file.is_current(), Ok(true))
            || has_interface_by_record(&self.cached.at, host).unwrap_or(true)
            || !has_file && self.enter(host).is_ok() && has_interface(&self.cached, host).unwrap_or(true)
    }

    /// Whether the recorded interface is in the namespace that is entered. The container may have renamed it, and can make
    /// another one of the same index and kind.
    fn has_recorded_link(&self, record: Option<&AttachmentRecord>, host: &mut dyn Host) -> Result<bool, Error> {
        let Some(recorded) = record.and_then(|record| record.link.as_ref()) else { return Ok(false) };
        match host.link_by_index(Ns::Container, recorded.index)? {
            Some(link) if recorded.may_be(&link) => has_signs(&self.cached, &link, host),
            Some(_) | None => Ok(false),
        }
    }
}

/// The outcome where the namespace cannot be entered.
fn unentered(netns: &str, error: NetnsError) -> RepairOutcome {
    match error {
        NetnsError::Gone { reason, .. } => RepairOutcome::Gone(format!("the container is gone: {netns}: {reason}")),
        error @ NetnsError::Failed { .. } => Error::from(error).into(),
    }
}

/// The plugins of the list that this binary contains and that make something. If none does, the first that it contains, whose request
/// the host is opened with.
fn makers(cached: &Cached) -> Vec<(&'static dyn Plugin, &PluginConfig)> {
    let ours = cached.plugins.iter().filter_map(|config| Some((cni_builtin::plugin(&config.kind)?, config)));
    let (mut makers, others): (Vec<_>, Vec<_>) = ours.partition(|(plugin, _)| plugin.share() != Share::Nothing);
    if makers.is_empty() {
        makers.extend(others.into_iter().next());
    }
    makers
}

/// Whether the attachment is recorded, and its interface in its namespace.
fn has_interface_by_record(at: &Attachment, host: &mut dyn Host) -> Result<bool, Error> {
    AttachmentRecord::read(at, host.ledger())?.map_or(Ok(false), |record| record.has_interface(host))
}

/// Removes the rules that some plugins have made for an attachment, by their DEL. Addresses stay.
///
/// # Errors
/// When a configuration of the cache cannot be a request, and the first failure of a DEL; the others go on.
pub fn remove_rules(cached: &Cached, plugins: &[String], host: &mut LinuxHost) -> Result<(), Error> {
    let (mut ours, cached) = (Vec::new(), cached.resolved()?);
    for config in cached.plugins.iter().rev().filter(|config| plugins.contains(&config.kind)) {
        if let Some(plugin) = cni_builtin::plugin(&config.kind) {
            ours.push(Ours { plugin, request: cached.request_without_ipam(config, plugin)? });
        }
    }
    let mut removal = Removal::new(host);
    for Ours { plugin, request } in &ours {
        removal.attempt(|host| {
            let at = request.attachment()?;
            if leads_to(&at, request.netns(), host)? {
                return plugin.del(request, host);
            }
            plugin.del(&request.without_netns(), host)
        });
    }
    removal.finish()
}

/// Whether a path certainly leads to the namespace of an attachment. Another container may have it by now, whose ADD may be at
/// work: its interface could not be told from that of this one.
fn leads_to(at: &Attachment, netns: Option<&str>, host: &mut dyn Host) -> Result<bool, Error> {
    let (Some(path), Some(record)) = (netns, AttachmentRecord::read(at, host.ledger())?) else { return Ok(false) };
    Ok(host.enter(path).is_ok() && record.namespace.is_entered(host)?)
}

/// The error where a file of the cache cannot be read.
pub fn unreadable(file: &CacheFile, error: &io::Error) -> Error {
    let path = file.path.display();
    fail!(Io, "failed to read {path}", details: "{error}")
}
