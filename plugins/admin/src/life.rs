//! Whether an attachment lives: the one answer for every verb of the tool.
//!
//! The attachment's record decides, where ADD has left one. Without a record, as after an ADD of other plugins, the
//! interface is looked for where the cache says that it is, and then on the whole machine. Only what is
//! [`Life::Dead`] may be removed, and what cannot be seen is [`Life::Unknown`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::result_cache;
use crate::survey::{Space, Survey};
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_core::request::{Call, Environment, Request};
use cni_core::version::Version;
use cni_linux::host::LinuxHost;
use cni_model::link::Link;
use cni_model::plan::Ns;
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::{Host, LinkQuery};
use cni_plugin::namespace::{Life, RecordedNamespace};
use cni_plugin::owner::RecordedOwner;

use crate::cache::Cached;
use cni_builtin::PLUGINS;

/// Why an attachment is not gone though there is nothing at the path of its namespace.
pub const LIVES_ON: &str = "the path of its network namespace is gone, but the namespace still exists";

/// The link-layer address of links that have none, such as `lo`.
const NO_MAC: &str = "00:00:00:00:00:00";

/// A request for a host that is asked questions only: delegation alone uses it.
///
/// # Errors
/// As [`Call::with_config`].
pub fn neutral_request() -> Result<Request, Error> {
    let environment = Environment::new([("CNI_PATH", "/")]);
    Call::parse("STATUS", environment)?.with_config(br#"{"cniVersion":"1.1.0","name":"tool"}"#.to_vec(), Version::ALL)
}

/// Whether the interface of an attachment without a record is in the namespace that is entered: a link of its name, with its
/// link-layer address or one of its addresses. If the result names an interface without a link-layer address, the name is enough.
///
/// # Errors
/// When the kernel does not answer.
pub fn has_interface(cached: &Cached, host: &mut dyn Host) -> Result<bool, Error> {
    match host.link(Ns::Container, &cached.at.ifname)? {
        Some(link) => has_signs(cached, &link, host),
        None => Ok(false),
    }
}

/// Whether the interface in the namespace that is entered has the link-layer address in the result.
///
/// # Errors
/// When the kernel does not answer.
pub fn has_mac(cached: &Cached, host: &mut dyn Host) -> Result<bool, Error> {
    let found = host.link(Ns::Container, &cached.at.ifname)?.and_then(|link| link.mac);
    Ok(found.is_some_and(|found| cached.macs.iter().any(|mac| mac.eq_ignore_ascii_case(&found.to_string()))))
}

/// Whether a link of the namespace that is entered has a link-layer address or an address of the result.
///
/// # Errors
/// When the kernel does not answer.
pub fn has_signs(cached: &Cached, link: &Link, host: &mut dyn Host) -> Result<bool, Error> {
    let found = link.mac.as_ref().map(ToString::to_string).unwrap_or_default();
    if cached.macs.iter().any(|mac| mac.is_empty() || mac.eq_ignore_ascii_case(&found)) {
        return Ok(true);
    }
    let addresses = host.addresses(Ns::Container, Some(link.index), None)?;
    Ok(addresses.iter().any(|address| cached.addresses.contains(&address.cidr.address())))
}

/// What an attachment without a record can be recognized by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    /// In lower case.
    pub macs: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

impl Signs {
    pub fn of(cached: &Cached) -> Self {
        let macs = cached.macs.iter().map(|mac| mac.to_ascii_lowercase());
        Self {
            macs: macs.filter(|mac| !mac.is_empty() && mac != NO_MAC).collect(),
            addresses: telling(&cached.addresses),
        }
    }

    const fn is_empty(&self) -> bool {
        self.macs.is_empty() && self.addresses.is_empty()
    }
}

/// Every namespace has the addresses of loopback.
fn telling<'a>(addresses: impl IntoIterator<Item = &'a IpAddr>) -> Vec<IpAddr> {
    addresses.into_iter().filter(|address| !address.is_loopback()).copied().collect()
}

/// The signs of living attachments: for each link-layer address and each address, the namespaces that have it. Two attachments may be the
/// same interface, since a runtime and multus each have an entry for it.
#[derive(Debug, Default)]
struct Living {
    macs: BTreeMap<String, BTreeSet<String>>,
    addresses: BTreeMap<IpAddr, BTreeSet<String>>,
}

impl Living {
    fn add(&mut self, signs: Signs, namespace: &str) {
        for mac in signs.macs {
            self.macs.entry(mac).or_default().insert(namespace.to_owned());
        }
        for address in signs.addresses {
            self.addresses.entry(address).or_default().insert(namespace.to_owned());
        }
    }

    /// Whether a namespace has a link-layer address, and no attachment that is known to live has it there.
    fn has_unexplained_mac(&self, mac: &String, spaces: &[Space]) -> bool {
        has_others(spaces, |space| space.macs.contains(mac), self.macs.get(mac))
    }

    /// The same for an address.
    fn has_unexplained_address(&self, address: &IpAddr, spaces: &[Space]) -> bool {
        has_others(spaces, |space| space.addresses.contains(address), self.addresses.get(address))
    }

    /// Judges an attachment without a record by all that was seen on the machine.
    fn judge(&self, signs: &Signs, survey: &Survey) -> Life {
        if signs.is_empty() {
            return Life::Unknown("nothing is known by which its interface could be found".to_owned());
        }
        if signs.macs.iter().any(|mac| self.has_unexplained_mac(mac, &survey.spaces)) {
            return Life::Alive;
        }
        if let Some(gaps) = survey.gaps.text() {
            return Life::Unknown(format!("not every network namespace of the machine can be seen: {gaps}"));
        }
        self.judge_by_addresses(&signs.addresses, survey)
    }

    fn judge_by_addresses(&self, addresses: &[IpAddr], survey: &Survey) -> Life {
        match addresses.iter().find(|address| self.has_unexplained_address(address, &survey.spaces)) {
            Some(address) => Life::Unknown(format!("a network namespace has {address}, and may be its own")),
            None => Life::Dead,
        }
    }
}

/// Whether a namespace that is not in `known` has a sign. A known namespace that was not seen may be any one without an identity.
fn has_others(spaces: &[Space], has_sign: impl Fn(&Space) -> bool, known: Option<&BTreeSet<String>>) -> bool {
    let mut known = known.cloned().unwrap_or_default();
    let mut is_known = |space: &&Space| space.identity.as_ref().is_some_and(|identity| known.remove(identity));
    let others: Vec<&Space> = spaces.iter().filter(|space| !is_known(space)).filter(|space| has_sign(space)).collect();
    others.len() > known.len() || others.iter().any(|space| space.identity.is_some())
}

/// The survey of the machine, which is taken when it is first needed.
fn survey_of<'s>(survey: &'s mut Option<Survey>, user: u32, host: &mut LinuxHost) -> &'s Survey {
    survey.get_or_insert_with(|| Survey::take(user, host.namespaces().identity(Ns::Host).ok().flatten().as_deref()))
}

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
        match AttachmentRecord::read(at, self.host.records()) {
            Ok(Some(record)) => match record.life(&mut self.host) {
                Life::Dead if self.is_older(&record, written) => {
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

    /// Whether the record of an attachment was written before a time since 1970. One of unknown age counts as older, since it must not
    /// prove that a container is dead.
    fn is_older(&mut self, record: &AttachmentRecord, time: Duration) -> bool {
        let written = AttachmentRecord::written(&record.at, self.host.records());
        !matches!(written, Ok(Some(written)) if written >= time)
    }

    /// Judges an attachment by its record; returns `None` if it has no record.
    pub fn life_by_record(&mut self, at: &Attachment) -> Option<Life> {
        match AttachmentRecord::read(at, self.host.records()) {
            Ok(record) => record.map(|record| record.life(&mut self.host)),
            Err(error) => Some(Life::Unknown(error.in_full())),
        }
    }

    /// The record of an attachment, if there is one that can be read.
    pub fn record(&mut self, at: &Attachment) -> Option<AttachmentRecord> {
        AttachmentRecord::read(at, self.host.records()).ok().flatten()
    }

    /// The attachments that have a port of the host by the records of portmap, in the order in which they get it. One that is
    /// dead and has no rules does not count.
    pub fn owners_of_port(&mut self, port: u16, is_dead: impl Fn(&Attachment) -> bool) -> Vec<Attachment> {
        let mut owners = cni_portmap::owners_of_port(port, self.host.records());
        owners.retain(|at| !is_dead(at) || cni_portmap::has_rules(at, &mut self.host));
        owners
    }

    /// The attachments that plugins have records of their own about, except these.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn owners_but(&mut self, known: &[&Attachment]) -> Result<Vec<RecordedOwner>, Error> {
        let mut found = Vec::new();
        for plugin in PLUGINS {
            found.extend(plugin.owners_but(known, self.host.records())?);
        }
        Ok(found)
    }

    /// Judges an attachment by its record, or else by its namespace as plugins have recorded it; returns `None` if nothing is
    /// recorded.
    pub fn life_by_records(&mut self, at: &Attachment, home: Option<&RecordedNamespace>) -> Option<Life> {
        self.life_by_record(at).or_else(|| Some(home?.life(None, &mut self.host)))
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

    /// The records of attachments, except these.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub fn recorded_but(&mut self, known: &[Attachment]) -> Result<Vec<AttachmentRecord>, Error> {
        AttachmentRecord::all_but(known, self.host.records())
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
    use std::collections::BTreeSet;

    use cni_plugin::namespace::{RecordedLink, RecordedNamespace};

    use super::*;

    const MAC: &str = "0a:58:0a:01:02:03";

    #[test]
    fn a_record_is_of_a_former_add_by_its_path_or_its_link_layer_address() {
        let at = cni_plugin::owner::parse(&mut "net c1 eth0".split(' ')).expect("an attachment");
        let namespace = RecordedNamespace::parse("boot:7 /run/netns/c1").expect("a namespace");
        let link = Some(RecordedLink { index: 2, kind: "veth".to_owned(), mac: MAC.to_owned(), parent: None });
        let record = AttachmentRecord { at: at.clone(), maker: "bridge".to_owned(), namespace, link, is_again: false };
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

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 1, 2, last])
    }

    fn signs(mac: Option<&str>, last: u8) -> Signs {
        Signs { macs: mac.map(str::to_owned).into_iter().collect(), addresses: vec![address(last)] }
    }

    fn space(mac: &str, last: u8) -> Space {
        Space { identity: None, macs: BTreeSet::from([mac.to_owned()]), addresses: BTreeSet::from([address(last)]) }
    }

    /// `living` has signs with the namespaces in which they are.
    fn judge(living: &[(&Signs, &str)], signs: &Signs, spaces: &[Space], gap: Option<&str>) -> Life {
        let mut known = Living::default();
        living.iter().for_each(|(signs, namespace)| known.add((*signs).clone(), namespace));
        let mut survey = Survey { spaces: spaces.to_vec(), ..Survey::default() };
        gap.into_iter().for_each(|gap| survey.gaps.add(gap));
        known.judge(signs, &survey)
    }

    #[test]
    fn what_is_nowhere_is_dead_only_if_everything_was_seen() {
        let elsewhere = [space("02:00:00:00:00:09", 9)];
        assert_eq!(judge(&[], &signs(Some(MAC), 3), &elsewhere, None), Life::Dead);
        let reason = "not every network namespace of the machine can be seen: /proc/7/ns/net: refused";
        let unseen = judge(&[], &signs(Some(MAC), 3), &elsewhere, Some("/proc/7/ns/net: refused"));
        assert_eq!(unseen, Life::Unknown(reason.to_owned()));
        assert!(matches!(judge(&[], &Signs::default(), &[], None), Life::Unknown(_)), "nothing is known of it");
    }

    #[test]
    fn its_link_layer_address_shows_that_it_lives_and_its_address_that_it_may() {
        assert_eq!(judge(&[], &signs(Some(MAC), 3), &[space(MAC, 9)], Some("a gap")), Life::Alive);
        let may = Life::Unknown("a network namespace has 10.1.2.3, and may be its own".to_owned());
        assert_eq!(judge(&[], &signs(Some(MAC), 3), &[space("02:00:00:00:00:09", 3)], None), may);
    }

    /// After a reboot containers get the addresses of those from before.
    #[test]
    fn what_belongs_to_another_that_lives_is_no_sign() {
        let heir = signs(Some("02:00:00:00:00:09"), 3);
        let spaces = |identities: &[Option<&str>]| -> Vec<Space> {
            let named = |identity: &Option<&str>| identity.map(str::to_owned);
            identities.iter().map(|one| Space { identity: named(one), ..space("02:00:00:00:00:09", 3) }).collect()
        };
        // A runtime and multus have an entry of the heir each. Some kernels, and some namespaces, have no identity.
        for (living, identities, is_dead) in [
            (&["a"][..], &[Some("a")][..], true),
            (&["a"], &[None], true),
            (&["a", "b"], &[Some("a"), None], true),
            (&["a", "a"], &[Some("a"), Some("b")], false),
            (&["a", "a"], &[None, None], false),
            (&["a", "c"], &[Some("a"), Some("b")], false),
            (&["a"], &[Some("a"), None], false),
        ] {
            let living: Vec<_> = living.iter().map(|namespace| (&heir, *namespace)).collect();
            let life = judge(&living, &signs(Some(MAC), 3), &spaces(identities), None);
            assert!(
                if is_dead { life == Life::Dead } else { matches!(life, Life::Unknown(_)) },
                "{identities:?}: {life:?}"
            );
        }
    }

    #[test]
    fn after_a_killed_add_only_an_address_that_is_seen_counts() {
        let mut survey = Survey { spaces: vec![space(MAC, 3)], ..Survey::default() };
        survey.gaps.add("a gap");
        let judge = |last| Living::default().judge_by_addresses(&[address(last)], &survey);
        assert!(matches!(judge(3), Life::Unknown(_)));
        assert_eq!(judge(4), Life::Dead);
    }

    #[test]
    fn loopback_is_no_sign() {
        let addresses = [IpAddr::from([127, 0, 0, 1]), address(3)];
        assert_eq!(telling(&addresses), [address(3)]);
    }
}
