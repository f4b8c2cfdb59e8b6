//! firewalld in memory: each address is a source of one zone at most.

use std::collections::BTreeMap;
use std::net::IpAddr;

use cni_core::error::{Code, Error, Failure};
use cni_netfilter::firewalld::{Firewalld, Zone};

/// A firewalld. It forgets its sources when it ends.
#[derive(Clone, Debug, Default)]
pub struct FakeFirewalld {
    /// Whether it runs.
    pub running: bool,
    /// Whether it refuses changes by this user, and then counts as not running.
    pub forbids: bool,
    sources: BTreeMap<IpAddr, Zone>,
    questions: usize,
}

/// The zone that no firewalld has.
const UNKNOWN: &str = "nope";

/// A refusal of firewalld.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct FirewalldRefusal(String);

impl Failure for FirewalldRefusal {
    fn code(&self) -> Code {
        Code::Kernel
    }
}

fn refuse<T>(why: &str) -> Result<T, Error> {
    Err(FirewalldRefusal(why.to_owned()).into())
}

impl FakeFirewalld {
    /// One that answers.
    pub fn running() -> Self {
        Self { running: true, ..Self::default() }
    }

    /// Ends it.
    pub fn stop(&mut self) {
        self.running = false;
        self.reload();
    }

    /// Lets it forget its sources, as a reload does.
    pub fn reload(&mut self) {
        self.sources.clear();
    }

    /// Makes an address a source behind the back of the plugins.
    pub fn insert(&mut self, zone: &Zone, address: IpAddr) {
        self.sources.insert(address, zone.clone());
    }

    /// Takes a source away behind the back of the plugins.
    pub fn take(&mut self, address: IpAddr) {
        self.sources.remove(&address);
    }

    /// The number of calls.
    pub const fn questions(&self) -> usize {
        self.questions
    }

    /// Every source as `zone address`, in order.
    pub fn sources(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.sources.iter().map(|(address, zone)| format!("{zone} {address}")).collect();
        lines.sort();
        lines
    }

    /// Makes an address a source of a zone; returns whether it was none before.
    pub(crate) fn add(&mut self, zone: &Zone, address: IpAddr) -> Result<bool, Error> {
        self.questions += 1;
        if !self.running {
            return refuse("no firewalld");
        }
        if self.forbids {
            self.running = false;
            return refuse("Not Authorized(uid): org.fedoraproject.FirewallD1.config");
        }
        if zone.as_str() == UNKNOWN {
            return refuse("INVALID_ZONE: nope");
        }
        match self.sources.get(&address) {
            Some(other) if other == zone => Ok(false),
            Some(_) => refuse("ZONE_CONFLICT"),
            None => {
                self.sources.insert(address, zone.clone());
                Ok(true)
            }
        }
    }

    /// Makes an address no source of a zone.
    pub(crate) fn remove(&mut self, zone: &Zone, address: IpAddr) {
        self.questions += 1;
        self.sources.retain(|source, of| *source != address || of != zone);
    }
}

impl Firewalld for FakeFirewalld {
    fn is_running(&mut self) -> bool {
        self.questions += 1;
        self.running
    }

    fn has_source(&mut self, zone: &Zone, address: IpAddr) -> Result<bool, Error> {
        self.questions += 1;
        if zone.as_str() == UNKNOWN {
            return refuse("INVALID_ZONE: nope");
        }
        Ok(self.running && self.sources.get(&address) == Some(zone))
    }
}
