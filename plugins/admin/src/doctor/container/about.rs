//! What one container has, and where it is kept.

use std::net::IpAddr;
use std::path::PathBuf;

use cni_core::names::IfName;
use cni_host_local::Holder;
use cni_linux::host::LinuxHost;
use cni_plugin::namespace::Life;

use super::records;
use super::rules::OwnRules;
use crate::cache::Cached;
use crate::error_line::error_line;
use crate::inventory::{Attached, Inventory};
use crate::life::neutral_request;
use crate::list::{port, said, said_of_left};
use crate::repair::{self, RepairOutcome};

/// A container.
#[derive(Debug)]
pub struct About {
    pub container: String,
    pub attachments: Vec<AboutAttachment>,
    /// The records of the plugins that name it.
    pub records: Vec<PathBuf>,
    /// The directories of the caches that were read.
    pub caches: Vec<PathBuf>,
}

/// One of its attachments.
#[derive(Debug)]
pub struct AboutAttachment {
    pub network: String,
    pub ifname: String,
    pub state: String,
    pub netns: Option<String>,
    /// Whether its namespace lives.
    pub life: String,
    pub macs: Vec<String>,
    pub host_interfaces: Vec<String>,
    pub addresses: Vec<IpAddr>,
    pub ports: Vec<String>,
    pub plugins: Vec<String>,
    /// What the plugins make of rules, or why that is not known.
    pub rules: Result<OwnRules, String>,
    /// The file of the runtime's cache, if there is one.
    pub cache: Option<PathBuf>,
    pub leases: Vec<PathBuf>,
}

impl About {
    /// Collects what there is of a container.
    ///
    /// # Errors
    /// In words, when the records cannot be listed.
    pub fn observe(container: &str, found: &Inventory) -> Result<Self, String> {
        let is_own = |cached: &Cached| cached.at.container.as_str() == container;
        let attached = found.attached.iter().filter(|one| is_own(&one.cached)).map(|one| {
            let rules = rules(one);
            let about = AboutAttachment::of(&one.cached, &one.life, said(&one.outcome), found);
            AboutAttachment { rules, cache: Some(one.file.path.clone()), ..about }
        });
        let left = found.left.iter().filter(|left| is_own(&left.cached)).map(|left| {
            let about = AboutAttachment::of(&left.cached, &left.life, said_of_left(left), found);
            AboutAttachment { addresses: left.addresses(), ..about }
        });
        let host = neutral_request().and_then(|request| LinuxHost::new(&request).records_directory());
        let folder = host.map_err(|error| error_line(&error))?;
        let records = records::of_container(container, &folder)
            .map_err(|error| format!("failed to list the records in {}: {error}", folder.display()))?;
        let (attachments, caches) = (attached.chain(left).collect(), found.caches.clone());
        Ok(Self { container: container.to_owned(), attachments, records, caches })
    }
}

impl AboutAttachment {
    fn of(cached: &Cached, life: &Life, state: String, found: &Inventory) -> Self {
        Self {
            network: cached.at.network.to_string(),
            ifname: cached.at.ifname.to_string(),
            state,
            netns: cached.netns.clone(),
            life: match life {
                Life::Alive => "alive".to_owned(),
                Life::Dead => "ended".to_owned(),
                Life::Unknown(_) => "unclear".to_owned(),
            },
            macs: cached.macs.clone(),
            host_interfaces: cached.host_interfaces.clone(),
            addresses: cached.addresses.clone(),
            ports: cached.ports.iter().map(port).collect(),
            plugins: cached.plugins.iter().map(|config| config.kind.clone()).collect(),
            rules: Err("the cache does not have it".to_owned()),
            cache: None,
            leases: leases(cached, found),
        }
    }
}

/// The files of its leases. Very old ones do not name the interface.
fn leases(cached: &Cached, found: &Inventory) -> Vec<PathBuf> {
    let is_own = |holder: &&Holder| {
        let ifname = holder.ifname.as_deref().and_then(|name| IfName::parse(name).ok());
        holder.container == cached.at.container.as_str() && ifname.is_none_or(|name| name == cached.at.ifname)
    };
    let pools = found.pools.iter().filter(|pool| pool.network == cached.at.network);
    let files = pools.flat_map(|pool| {
        pool.holders.iter().filter(is_own).map(|holder| pool.directory.join(holder.address.to_string()))
    });
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    files
}

fn rules(one: &Attached) -> Result<OwnRules, String> {
    match &one.life {
        Life::Alive => {}
        Life::Dead => return Err("its network namespace has ended".to_owned()),
        Life::Unknown(reason) => return Err(reason.clone()),
    }
    match repair::made(&one.cached, &one.file) {
        Ok(parts) => Ok(OwnRules::of(&parts)),
        // No plugin of the list is ours.
        Err(RepairOutcome::Complete) => Ok(OwnRules::default()),
        Err(RepairOutcome::Gone(reason) | RepairOutcome::Skipped(reason)) => Err(reason),
        Err(other) => Err(other.to_string()),
    }
}
