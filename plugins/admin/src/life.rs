//! Whether an attachment lives: the one answer for every verb of the tool.
//!
//! The attachment's record decides, where ADD has left one. Without a record, as after an ADD of other plugins, the
//! interface is looked for where the cache says that it is, and then on the whole machine. Only what is
//! [`Life::Dead`] may be removed, and what cannot be seen is [`Life::Unknown`]. A verb refuses to work in another network namespace than that
//! of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use cni_builtin::PLUGINS;
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_linux::host::LinuxHost;
use cni_linux::inhabitants::hidden_processes;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::ledger::{ADDRESS, Entry, Ledger, PORT};
use cni_plugin::namespace::{Life, OnHost as _};

use crate::cache::Cached;
use crate::calls::neutral_request;
use crate::output::error_line;
use crate::result_cache;
use crate::survey::{Living, Signs, Survey, has_interface, telling};

/// Why an attachment is not gone though there is nothing at the path of its namespace.
pub const LIVES_ON: &str = "the path of its network namespace is gone, but the namespace still exists";

const ELSEWHERE: &str = "the containers of this machine belong to another network namespace; run this command in it, \
                         for example with `nsenter --net=/proc/1/ns/net`";

/// Requires that this process can say something about the containers.
///
/// # Errors
/// Why it cannot: their records are those of another network namespace, or cannot be listed.
pub fn require_host() -> Result<(), String> {
    refuse_elsewhere(has_records_elsewhere())
}

/// Requires that this process is in the namespace of none of these containers. Where plugins of others have made all of them, there are no
/// records.
///
/// # Errors
/// Why it may not change anything.
pub fn require_outside<'a>(all: impl IntoIterator<Item = &'a Cached>) -> Result<(), String> {
    refuse_elsewhere(is_inside(all))
}

fn refuse_elsewhere(is_elsewhere: Result<bool, Error>) -> Result<(), String> {
    match is_elsewhere {
        Ok(true) => Err(ELSEWHERE.to_owned()),
        Ok(false) => Ok(()),
        Err(error) => Err(error_line(&error)),
    }
}

/// On the host itself, plugins may have been used in another namespace that shares its `/run`.
fn has_records_elsewhere() -> Result<bool, Error> {
    let mut host = LinuxHost::new(&neutral_request()?);
    Ok(host.has_records_elsewhere()? && !is_on_host(&mut host))
}

/// Whether this process is certainly in the machine's first network namespace: that of its first process, and of the kernel's threads.
fn is_on_host(host: &mut dyn Host) -> bool {
    let mut is_own = |process: u8| host.is_own_netns(&format!("/proc/{process}/ns/net")).is_ok_and(|is_own| is_own);
    (is_own(1) || is_own(2)) && hidden_processes().is_none()
}

fn is_inside<'a>(all: impl IntoIterator<Item = &'a Cached>) -> Result<bool, Error> {
    let host: &mut dyn Host = &mut LinuxHost::new(&neutral_request()?).only_looking();
    // On the host itself a path below /proc may lead to a process of the host by now.
    if is_on_host(host) {
        return Ok(false);
    }
    for cached in all {
        let Some(path) = &cached.netns else { continue };
        if !host.is_own_netns(path)? {
            continue;
        }
        let Some(link) = host.link(Ns::Host, &cached.at.ifname)? else { continue };
        let (signs, mac) = (Signs::of(cached), link.mac.as_ref().map(|mac| mac.to_string().to_ascii_lowercase()));
        let addresses = host.addresses(Ns::Host, Some(link.index), None)?;
        if mac.is_some_and(|mac| signs.macs.contains(&mac))
            || addresses.iter().any(|one| signs.addresses.contains(&one.cidr.address()))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The survey of the machine, which is taken when it is first needed.
fn survey_of<'s>(survey: &'s mut Option<Survey>, user: u32, host: &mut LinuxHost) -> &'s Survey {
    survey.get_or_insert_with(|| Survey::take(user, host.namespaces().identity(Ns::Host).ok().flatten().as_deref()))
}

/// For each number of a port that several attachments ask for, those that portmap has recorded, in the order in which they get it.
pub type PortOrder = BTreeMap<u16, Vec<Attachment>>;

/// Judges attachments.
pub struct Judge {
    host: LinuxHost,
    /// The user whose containers are in the cache.
    user: u32,
    living: Living,
    /// Taken when the first attachment needs it.
    survey: Option<Survey>,
}

impl Judge {
    /// Makes a judge of the containers in the cache directories of runtimes.
    ///
    /// # Errors
    /// As [`neutral_request`].
    pub fn new(caches: &[PathBuf]) -> Result<Self, Error> {
        let results = caches.iter().find_map(|cache| fs::metadata(result_cache::results(cache)).ok());
        let user = results.map_or(0, |directory| directory.uid());
        Ok(Self { host: LinuxHost::new(&neutral_request()?), user, living: Living::default(), survey: None })
    }

    /// Judges all attachments of the cache.
    pub fn lives(&mut self, all: &[&Cached]) -> Vec<Life> {
        let at_once: Vec<Option<Life>> = all.iter().map(|cached| self.at_once(cached)).collect();
        for (cached, _) in all.iter().zip(&at_once).filter(|(_, life)| **life == Some(Life::Alive)) {
            let namespace = self.namespace_of(cached);
            self.living.add(Signs::of(cached), &namespace);
        }
        let mut lives: Vec<Life> = all
            .iter()
            .zip(at_once)
            .map(|(cached, life)| life.unwrap_or_else(|| self.by_survey(&Signs::of(cached))))
            .collect();
        for (index, cached) in all.iter().enumerate().filter(|(_, cached)| Signs::of(cached).is_empty()) {
            if matches!(lives[index], Life::Unknown(_))
                && let Some(sibling) = sibling(cached, all)
            {
                lives[index] = lives[sibling].clone();
            }
        }
        lives
    }

    /// Judges one attachment of the cache.
    pub fn life(&mut self, cached: &Cached) -> Life {
        self.at_once(cached).unwrap_or_else(|| self.by_survey(&Signs::of(cached)))
    }

    /// Judges an attachment by its leases, if nothing else is known; `written` is the time of the youngest, since 1970. When ADD
    /// ends it writes its record, so a record of an interface that is older than the lease is of a former ADD: plugins of others have
    /// added the attachment again.
    pub fn life_of_lease<'a>(
        &mut self,
        at: &Attachment,
        addresses: impl IntoIterator<Item = &'a IpAddr>,
        written: Duration,
    ) -> Life {
        match AttachmentRecord::read(at, self.host.ledger()) {
            Ok(Some(record)) => match record.life(&mut self.host) {
                Life::Dead if record.written < written => {
                    if record.link.is_none() {
                        return self.life_after_killed_add(at, telling(addresses));
                    }
                }
                life @ (Life::Alive | Life::Dead | Life::Unknown(_)) => return life,
            },
            Ok(None) => {}
            Err(error) => return Life::Unknown(error.in_full()),
        }
        if self.has_alias(at) {
            return Life::Alive;
        }
        self.by_survey(&Signs { macs: Vec::new(), addresses: telling(addresses) })
    }

    /// Judges an attachment with a lease by the addresses, where its record says that it is dead, is older than the lease, and names
    /// no interface. An ADD writes such a record before its lease. If it was killed, the attachment is dead, unless plugins of others
    /// have added it again since; what cannot be seen decides nothing.
    fn life_after_killed_add(&mut self, at: &Attachment, addresses: Vec<IpAddr>) -> Life {
        if self.has_alias(at) {
            return Life::Alive;
        }
        let (living, survey) = (&self.living, survey_of(&mut self.survey, self.user, &mut self.host));
        living.judge_by_addresses(&addresses, survey)
    }

    /// Judges an attachment by its record; returns `None` if it has no record.
    pub fn life_by_record(&mut self, at: &Attachment) -> Option<Life> {
        match AttachmentRecord::read(at, self.host.ledger()) {
            Ok(record) => record.map(|record| record.life(&mut self.host)),
            Err(error) => Some(Life::Unknown(error.in_full())),
        }
    }

    /// The record of an attachment, if there is one that can be read.
    pub fn record(&mut self, at: &Attachment) -> Option<AttachmentRecord> {
        AttachmentRecord::read(at, self.host.ledger()).ok().flatten()
    }

    /// What is recorded of all attachments.
    pub fn ledger(&mut self) -> &mut dyn Ledger {
        self.host.ledger()
    }

    /// The order of the ports that several of these attachments ask for. One that is dead and has no rules does not count.
    pub fn port_order<'a>(
        &mut self,
        all: impl Iterator<Item = &'a Cached>,
        is_dead: impl Fn(&Attachment) -> bool,
    ) -> PortOrder {
        let mut asking: BTreeMap<u16, usize> = BTreeMap::new();
        for cached in all {
            let ports: BTreeSet<u16> = cached.published().map(|port| port.host_port).collect();
            ports.into_iter().for_each(|port| *asking.entry(port).or_default() += 1);
        }
        let contested = asking.into_iter().filter(|(_, attachments)| *attachments > 1);
        let owners = |(port, _)| {
            let mut owners = cni_portmap::owners_of_port(port, self.host.ledger());
            owners.retain(|at| !is_dead(at) || cni_portmap::has_rules(at, &mut self.host));
            (port, owners)
        };
        contested.map(owners).collect()
    }

    /// Judges an attachment by its record, or else by the namespace that is recorded with its addresses and ports; returns `None` if it
    /// has none of these.
    pub fn life_by_entry(&mut self, entry: &Entry) -> Option<Life> {
        if let Some(record) = AttachmentRecord::of(entry) {
            return Some(record.life(&mut self.host));
        }
        let has_rules = [ADDRESS, PORT].into_iter().any(|kind| entry.parts_about(kind).next().is_some());
        Some(entry.namespace.as_ref().filter(|_| has_rules)?.life(None, &mut self.host))
    }

    /// The same, by what is recorded now.
    pub fn life_by_records(&mut self, at: &Attachment) -> Option<Life> {
        match self.host.ledger().entry(at) {
            Ok(entry) => self.life_by_entry(&entry?),
            Err(error) => Some(Life::Unknown(error.in_full())),
        }
    }

    /// Judges an attachment whose records say that it is dead, if nothing else is known about it.
    pub fn life_despite_records(&mut self, at: &Attachment) -> Life {
        for plugin in PLUGINS {
            match plugin.may_be_added_again(at, &mut self.host) {
                Ok(false) => {}
                Ok(true) => {
                    return Life::Unknown(format!(
                        "its network namespace has ended, but rules of {} still lead to a container: other plugins may have added it again",
                        plugin.kind()
                    ));
                }
                Err(error) => return Life::Unknown(error.in_full()),
            }
        }
        Life::Dead
    }

    /// Judges an attachment by its record, or by where the cache says that it is; `None` when only a survey can tell.
    pub fn at_once(&mut self, cached: &Cached) -> Option<Life> {
        match self.life_by_record(&cached.at) {
            // The record is of a former ADD if plugins of others have deleted the attachment and added it again.
            Some(Life::Dead) if self.is_at_path(cached) => Some(Life::Alive),
            Some(Life::Dead) if self.record(&cached.at).is_some_and(|record| is_of_former_add(&record, cached)) => {
                self.life_by_path(cached)
            }
            None => self.life_by_path(cached),
            life => life,
        }
    }

    /// The namespace of an attachment that lives: its identity, or the container, where the kernel gives none.
    fn namespace_of(&mut self, cached: &Cached) -> String {
        let record = self.record(&cached.at).filter(|record| record.life(&mut self.host) == Life::Alive);
        let identity = match record {
            Some(record) => Some(record.namespace.identity),
            None if self.is_at_path(cached) => self.host.namespaces().identity(Ns::Container).ok().flatten(),
            None => None,
        };
        identity.unwrap_or_else(|| cached.at.container.to_string())
    }

    fn is_at_path(&mut self, cached: &Cached) -> bool {
        let Some(path) = cached.netns.as_deref() else { return false };
        self.host.enter(path).is_ok() && has_interface(cached, &mut self.host).unwrap_or(true)
    }

    /// A namespace at the path may be another container's by now, or have lost the interface.
    fn life_by_path(&mut self, cached: &Cached) -> Option<Life> {
        let path = cached.netns.as_deref()?;
        if self.host.is_own_netns(path).is_ok_and(|is_own| is_own) || self.host.enter(path).is_err() {
            return None;
        }
        match has_interface(cached, &mut self.host) {
            Ok(true) => Some(Life::Alive),
            Ok(false) => match self.by_survey(&Signs::of(cached)) {
                Life::Dead => {
                    Some(Life::Unknown(format!("{path} leads to a namespace without its {}", cached.at.ifname)))
                }
                life @ (Life::Alive | Life::Unknown(_)) => Some(life),
            },
            Err(error) => Some(Life::Unknown(error.in_full())),
        }
    }

    fn by_survey(&mut self, signs: &Signs) -> Life {
        let Self { host, user, living, survey } = self;
        living.judge(signs, survey_of(survey, *user, host))
    }

    /// Whether a veth of the host, whose other end is in a namespace that lives, names the attachment.
    fn has_alias(&mut self, at: &Attachment) -> bool {
        let links = self.host.links(Ns::Host, LinkQuery::Kind("veth")).unwrap_or_default();
        let names = |alias: &String| cni_interface::alias::may_name(alias, at);
        let named: Vec<_> = links.into_iter().filter(|link| link.alias.as_ref().is_some_and(names)).collect();
        named.iter().any(|link| self.host.namespaces().peer_addresses(link).is_ok_and(|addresses| addresses.is_some()))
    }
}

/// Whether a record cannot be of the ADD whose result the cache has: that was in another namespace, or made another interface.
fn is_of_former_add(record: &AttachmentRecord, cached: &Cached) -> bool {
    let is_elsewhere = cached.netns.as_ref().is_some_and(|path| *path != record.namespace.path);
    // A plugin of others may report no interface, and tuning changes the link-layer address after it was recorded.
    let mac = record.link.as_ref().map(|link| link.mac.as_str()).filter(|mac| !mac.is_empty());
    let is_comparable = !cached.macs.is_empty() && !cached.has_plugin("tuning");
    let has_mac = |mac: &str| cached.macs.iter().any(|own| own.is_empty() || own.eq_ignore_ascii_case(mac));
    is_elsewhere || is_comparable && mac.is_some_and(|mac| !has_mac(mac))
}

/// Another attachment of the same container in the same namespace, which has something that it can be recognized by.
fn sibling(cached: &Cached, all: &[&Cached]) -> Option<usize> {
    let netns = cached.netns.as_ref()?;
    all.iter().position(|other| {
        other.at.container == cached.at.container && other.netns.as_ref() == Some(netns) && !Signs::of(other).is_empty()
    })
}

#[cfg(test)]
mod tests {
    use cni_plugin::namespace::{RecordedLink, RecordedNamespace};

    use super::*;

    const MAC: &str = "0a:58:0a:01:02:03";

    #[test]
    fn only_a_record_addresses_and_ports_tell_of_an_attachment() {
        let mut judge = Judge::new(&[]).expect("a judge");
        for (part, is_known) in [
            ("added bridge 0", true),
            ("address-10.1.2.3 iptables", true),
            ("port-80 1 tcp 0.0.0.0", true),
            ("deletion 7 ", false),
            ("refusal {}", false),
        ] {
            let entry = Entry::parse(&format!("net c1 eth0\nboot:7@7 /run/netns/c1\n{part}\n")).expect("an entry");
            assert_eq!(judge.life_by_entry(&entry).is_some(), is_known, "{part}");
        }
    }

    #[test]
    fn a_record_is_of_a_former_add_by_its_path_or_its_link_layer_address() {
        let at = cni_plugin::ledger::parse_attachment(&mut "net c1 eth0".split(' ')).expect("an attachment");
        let namespace = RecordedNamespace::parse("boot:7 /run/netns/c1").expect("a namespace");
        let link = Some(RecordedLink { index: 2, kind: "veth".to_owned(), mac: MAC.to_owned(), parent: None });
        let (maker, written) = ("bridge".to_owned(), Duration::ZERO);
        let record = AttachmentRecord { at: at.clone(), maker, namespace, link, is_again: false, written };
        for (path, macs, plugin, is_former) in [
            ("/run/netns/c1", &[MAC][..], "bridge", false),
            ("/run/netns/c1", &["0A:58:0A:01:02:03"], "bridge", false),
            ("/run/netns/c1", &["02:00:00:00:00:09"], "bridge", true),
            ("/run/netns/c1", &["02:00:00:00:00:09"], "tuning", false),
            ("/run/netns/c1", &[], "bridge", false),
            ("/run/netns/c1-again", &[MAC], "bridge", true),
        ] {
            let mut cached = Cached::of_record(at.clone(), [serde_json::json!({"type": plugin})]);
            cached.netns = Some(path.to_owned());
            cached.macs = macs.iter().map(|mac| (*mac).to_owned()).collect();
            assert_eq!(is_of_former_add(&record, &cached), is_former, "{path} {macs:?} {plugin}");
        }
    }
}
