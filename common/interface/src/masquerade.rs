//! Masquerade: packets to other networks get the host's address. The rules, in iptables or nf_tables, are the
//! reference's.
//!
//! Names of chains and comments name the owner of a rule, so DEL and GC find the rules without a `prevResult` and
//! without the namespace. A record says that an attachment has such rules: DEL needs it, since the configuration may have changed. Without
//! a record, DEL of every container would have to read a long chain, or start a program.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, is_global};
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::{Attachment, NetworkName};
use cni_core::request::Request;
use cni_core::result::CniResult;
use cni_core::valid::ValidAttachments;
use cni_model::plan::{Ns, Plan, Step};
use cni_netfilter::iptables::{IptablesTable, stale};
use cni_netfilter::{Backend, RuleRemoval, Ruleset, unless_absent};
use cni_plugin::attachment_record::AttachmentRecord;
use cni_plugin::host::Host;
use cni_plugin::ledger::{self, Entry, MASQUERADE};
use cni_plugin::missing::MissingPart;
use cni_plugin::namespace::Life;
use cni_plugin::removal::Removal;
use serde::Deserialize;

use crate::keys;
use crate::leftovers::{NamespaceContents, NamespaceVeth};

mod iptables;
mod nftables;

/// The plugin that lets others make the interface.
const FLANNEL: &str = "flannel";

/// Which backend masquerades some addresses: the configured one, or the one that the host has.
pub fn choose(configured: Option<Backend>, addresses: &[Cidr], host: &mut dyn Host) -> Result<Backend, Error> {
    choose_for(configured, addresses.iter().map(|address| address.family()), host)
}

fn choose_for(
    configured: Option<Backend>,
    families: impl Iterator<Item = Family>,
    host: &mut dyn Host,
) -> Result<Backend, Error> {
    match configured {
        Some(backend) => Ok(backend),
        None => Ok(Backend::choose(host.netfilter(Ns::Host)?, IptablesTable::Nat, families)),
    }
}

/// The rules that give packets from these addresses to other networks the host's address: what ADD makes.
///
/// ```
/// use cni_core::names::{Attachment, ContainerId, IfName, NetworkName};
/// use cni_interface::masquerade::rulesets;
/// use cni_netfilter::Backend;
/// use cni_model::plan::{Plan, Step};
///
/// let (network, container) = (NetworkName::parse("net1")?, ContainerId::parse("c1")?);
/// let at = Attachment { network, container, ifname: IfName::parse("eth0")? };
/// let mut plan = Plan::default();
/// for ruleset in rulesets(Backend::Iptables, &at, &["10.1.2.5/24".parse()?]) {
///     plan.owned(Step::ensure_rules(ruleset));
/// }
/// assert!(plan.to_string().contains("-A POSTROUTING -s 10.1.2.5/32"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn rulesets(backend: Backend, at: &Attachment, addresses: &[Cidr]) -> Vec<Ruleset> {
    match backend {
        Backend::Iptables => iptables::ensure(at, addresses).into_iter().map(Ruleset::from).collect(),
        Backend::Nftables => vec![nftables::ensure(at, addresses).into()],
    }
}

/// Plans the rules of [`rulesets`], and the record that the attachment has them, which comes first: a killed ADD leaves it. It keeps the
/// `earlier` [`addresses`].
pub fn plan(plan: &mut Plan, backend: Backend, at: &Attachment, addresses: &[Cidr], earlier: &[IpAddr]) {
    plan.owned(record(at, addresses, earlier));
    rulesets(backend, at, addresses).into_iter().for_each(|ruleset| plan.owned(Step::ensure_rules(ruleset)));
}

/// Removes the rules of an attachment.
///
/// # Errors
/// The first failure; one backend, or family, does not keep the others.
pub fn remove(
    request: &Request,
    at: &Attachment,
    sandbox: &NamespaceContents,
    host: &mut dyn Host,
) -> Result<(), Error> {
    let unwanted = removals(request, at, sandbox, host)?;
    let mut removal = Removal::new(host);
    unwanted.into_iter().for_each(|unwanted| removal.step(&Step::remove_rules(unwanted)));
    removal.finish()
}

/// Removes the rules of an attachment that the reference has made. It records nothing, and the configuration may no longer ask for such
/// rules. If the attachment has our alias or this plugin's record, nothing is looked for. nf_tables is searched by names; in iptables only
/// the rules of known addresses are found.
///
/// A failure is only logged, since nothing says that there are such rules.
pub fn remove_made_by_reference(
    plugin: &str,
    request: &Request,
    at: &Attachment,
    sandbox: &NamespaceContents,
    host: &mut dyn Host,
) {
    if !is_made_by_reference(plugin, at, sandbox, host) {
        return;
    }
    let added = added_addresses(request, at, host);
    let own = own_addresses(&added, sandbox, &kept_addresses(&added, sandbox));
    let mut removal = Removal::new(host);
    for family in iptables::families_of(&own) {
        removal.attempt(|host| {
            let tables = host.netfilter(Ns::Host)?.iptables();
            let chain = unless_absent(tables.list(family, IptablesTable::Nat, &at.masquerade_chain()))?.flatten();
            remove_found(chain.map(|_| iptables::remove_listed(at, family, &own)), host)
        });
    }
    removal.step(&Step::remove_rules(nftables::remove(at)));
    if let Err(error) = removal.finish() {
        log::warn!("a masquerade that the Go plugins have made may stay: {}", error.in_full());
    }
}

/// Whether neither the interface's alias nor the record of its ADD says that this plugin has made it. Where `flannel` calls this plugin, the
/// record names `flannel`; but `flannel` may have called the reference's, whose interface has no alias.
fn is_made_by_reference(plugin: &str, at: &Attachment, sandbox: &NamespaceContents, host: &mut dyn Host) -> bool {
    let makers: &[&str] = match sandbox.veth {
        NamespaceVeth::Own(_) => return false,
        NamespaceVeth::Unlabelled(_) => &[plugin],
        NamespaceVeth::None => &[plugin, FLANNEL],
    };
    AttachmentRecord::find(at, host).is_none_or(|record| !makers.contains(&record.maker.as_str()))
}

/// The removals of an attachment's rules from both back ends, for DEL: ADD may have used another back end than it would
/// now. Families in which ADD gave it no address are left out, by the result or the record; without both, those in which it has none
/// now, unless it has no address at all. If the configuration names a back end, the rules for its addresses are expected there.
///
/// If the container could not be looked into, the reference may have made another interface in it that has the same chain: only the rules
/// for the addresses of ADD go, if they are known, unless the recorded namespace has ended.
fn removals(
    request: &Request,
    at: &Attachment,
    sandbox: &NamespaceContents,
    host: &mut dyn Host,
) -> Result<Vec<RuleRemoval>, Error> {
    let added = added_addresses(request, at, host);
    let is_added_only = !sandbox.is_seen && !added.is_empty() && !has_ended(at, host);
    let kept = kept_addresses(&added, sandbox);
    let own = own_addresses(&added, sandbox, &kept);
    let is_added = |address: &&IpAddr| added.is_empty() || added.contains(address);
    let families: Vec<Family> = own.iter().filter(is_added).map(|address| Family::of(*address)).collect();
    let configured = configured(request).filter(|_| !families.is_empty());
    let chosen = choose_for(configured, families.iter().copied(), host)?;
    let expected = if is_added_only || chosen == Backend::Iptables { own } else { Vec::new() };
    let known_if = |backend: Backend, removal: RuleRemoval| {
        if configured == Some(backend) { removal.known() } else { removal }
    };
    let by_iptables = |family| {
        let removal = match is_added_only {
            true => iptables::remove_listed(at, family, &expected),
            false => iptables::remove(at, family, &expected, &kept),
        };
        known_if(Backend::Iptables, removal.into())
    };
    let is_unknown = added.is_empty() && families.is_empty();
    let in_use = Family::ALL.into_iter().filter(|family| is_unknown || families.contains(family));
    let by_nftables = known_if(Backend::Nftables, nftables::remove(at).into());
    Ok(in_use.map(by_iptables).chain([by_nftables]).collect())
}

/// Whether the recorded namespace of an attachment has ended, and with it all interfaces of the container.
fn has_ended(at: &Attachment, host: &mut dyn Host) -> bool {
    AttachmentRecord::find(at, host).is_some_and(|record| record.life(host) == Life::Dead)
}

/// The backend that the configuration names. A configuration that cannot be read does not stop DEL.
fn configured(request: &Request) -> Option<Backend> {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct MasqueradeBackendKey {
        ip_masq_backend: Option<String>,
    }
    let MasqueradeBackendKey { ip_masq_backend } = request.decode().ok()?;
    keys::masquerade_backend(ip_masq_backend.as_deref()).ok().flatten()
}

/// The addresses that ADD has made rules for: those of the interface in `prevResult`, and those in the record.
fn added_addresses(request: &Request, at: &Attachment, host: &mut dyn Host) -> Vec<IpAddr> {
    let reported = request.prev_result().unwrap_or_else(|error| {
        log::warn!("DEL continues without prevResult: {error}");
        None
    });
    let reported = reported.unwrap_or_default();
    let recorded = addresses(at, host).unwrap_or_else(|error| {
        log::warn!("DEL continues without the record of the masquerade: {}", error.in_full());
        None
    });
    let reported = reported.ips_of(at.ifname.as_str()).map(|ip| ip.address.address());
    reported.chain(recorded.unwrap_or_default()).collect()
}

/// The addresses of ADD and those of the interface, without those whose rules are `kept`.
fn own_addresses(added: &[IpAddr], sandbox: &NamespaceContents, kept: &[IpAddr]) -> Vec<IpAddr> {
    let mut own: Vec<IpAddr> =
        added.iter().chain(sandbox.own.iter().filter(|address| is_global(address))).copied().collect();
    own.retain(|address| !kept.contains(address));
    own.sort_unstable();
    own.dedup();
    own
}

/// The addresses of the container's other interfaces. The reference names a chain by network and container alone, and nothing says in which
/// network it has made an interface. The container could keep rules by putting an address of this interface on a veth of its own: such an
/// address is not kept.
fn kept_addresses(added: &[IpAddr], sandbox: &NamespaceContents) -> Vec<IpAddr> {
    let given = if added.is_empty() { sandbox.own.as_slice() } else { added };
    let unlabelled = sandbox.unlabelled.iter().filter(|address| is_global(address) && !given.contains(address));
    sandbox.others.iter().chain(unlabelled).copied().collect()
}

/// Removes, for GC, the rules of a network whose comments name no valid attachment.
///
/// # Errors
/// The first failure; the other back ends and families are tried all the same.
pub fn remove_stale(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut removal = Removal::new(host);
    for family in Family::ALL {
        removal.attempt(|host| {
            let (table, chain) = (IptablesTable::Nat, iptables::postrouting());
            let rules = unless_absent(host.netfilter(Ns::Host)?.iptables().list(family, table, &chain))?;
            remove_found(stale(family, table, rules.flatten().unwrap_or_default(), network, valid), host)
        });
    }
    removal.attempt(|host| {
        let rules = unless_absent(host.netfilter(Ns::Host)?.nftables().list(&nftables::checks()))?;
        remove_found(nftables::stale(&rules.flatten().unwrap_or_default(), network, valid), host)
    });
    removal.attempt(|host| remove_stale_records(network, valid, host));
    removal.finish()
}

fn remove_found(unwanted: Option<impl Into<RuleRemoval>>, host: &mut dyn Host) -> Result<(), Error> {
    unwanted.map_or(Ok(()), |unwanted| host.apply(&Step::remove_rules(unwanted)).map(drop))
}

/// The rules of an attachment that are not complete, for CHECK and for a repair. Where the configuration does not
/// name a backend, rules in either are enough: iptables may have been installed, or removed, since ADD.
pub fn find_missing(
    configured: Option<Backend>,
    at: &Attachment,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<Vec<MissingPart>, Error> {
    let addresses: Vec<Cidr> = result.ips_of(at.ifname.as_str()).map(|ip| ip.address).collect();
    let chosen = choose(configured, &addresses, host)?;
    let parts = missing_by(chosen, at, &addresses, host)?;
    let elsewhere = !parts.is_empty()
        && configured.is_none()
        && missing_by(chosen.other(), at, &addresses, host).is_ok_and(|parts| parts.is_empty());
    Ok(if elsewhere { Vec::new() } else { parts })
}

/// Requires, for CHECK, that no rule of an attachment is missing.
///
/// # Errors
/// With [`Code::CheckFailed`](cni_core::error::Code::CheckFailed) for the first rule that is missing, and as [`find_missing`].
pub fn verify(
    configured: Option<Backend>,
    at: &Attachment,
    result: &CniResult,
    host: &mut dyn Host,
) -> Result<(), Error> {
    let missing = find_missing(configured, at, result, host)?;
    let Some(MissingPart { missing: rule, plan: _ }) = missing.first() else { return Ok(()) };
    Err(fail!(CheckFailed, "masquerade rule of the container not found: {rule}"))
}

fn missing_by(
    backend: Backend,
    at: &Attachment,
    addresses: &[Cidr],
    host: &mut dyn Host,
) -> Result<Vec<MissingPart>, Error> {
    let parts = rulesets(backend, at, addresses).into_iter().map(|rules| MissingPart::find(Ns::Host, rules, host));
    Ok(parts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The step that writes the record: the addresses of the attachment, and those of earlier ADDs without a DEL.
fn record(at: &Attachment, addresses: &[Cidr], earlier: &[IpAddr]) -> Step {
    let added: Vec<IpAddr> = addresses.iter().map(|cidr| cidr.address()).collect();
    let words = added.iter().chain(earlier.iter().filter(|one| !added.contains(one))).map(ToString::to_string);
    ledger::write(at, MASQUERADE.part(), words.collect::<Vec<_>>().join(" "))
}

/// The addresses that ADD, and earlier ones without a DEL, have made rules for. `None` without a record.
pub fn addresses(at: &Attachment, host: &mut dyn Host) -> Result<Option<Vec<IpAddr>>, Error> {
    Ok(host.ledger().entry(at)?.as_ref().and_then(recorded))
}

fn recorded(entry: &Entry) -> Option<Vec<IpAddr>> {
    Some(entry.part(&MASQUERADE.part())?.split(' ').filter_map(|word| word.parse().ok()).collect())
}

/// The step that removes the record.
pub fn forget(at: &Attachment) -> Step {
    ledger::remove(at, [MASQUERADE.part()])
}

/// Removes the records of a network that name no valid attachment, and the jumps to a chain that another interface of the container keeps.
///
/// # Errors
/// The first failure; one record does not keep the others.
fn remove_stale_records(network: &NetworkName, valid: &ValidAttachments, host: &mut dyn Host) -> Result<(), Error> {
    let mut entries = host.ledger().entries(&[])?;
    entries.retain(|entry| ledger::is_invalid(&entry.at, network, valid));
    let mut removal = Removal::new(host);
    for (at, own) in entries.iter().filter_map(|entry| Some((&entry.at, recorded(entry)?))) {
        removal.attempt(|host| {
            if valid.contains(at.container.as_str(), None) {
                for family in iptables::families_of(&own) {
                    host.apply(&Step::remove_rules(iptables::remove_listed(at, family, &own)))?;
                }
            }
            host.apply(&forget(at)).map(drop)
        });
    }
    removal.finish()
}
