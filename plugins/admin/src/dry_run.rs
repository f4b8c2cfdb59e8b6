//! A host on which a plugin decides and nothing happens: the steps are collected.

use std::io;
use std::net::IpAddr;

use cni_core::error::{Code, Error};
use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_core::request::{Command, Request};
use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use cni_model::link::{Address, Link};
use cni_model::netns::NetnsError;
use cni_model::plan::{Ns, Step};
use cni_netfilter::firewalld::Firewalld;
use cni_netfilter::iptables::{Batch, ChainRules, Iptables, IptablesTable, SharedChainsLock};
use cni_netfilter::nftables::{ChainId, Generation, ListedRule, Nftables, SetElements, Transaction};
use cni_netfilter::{Netfilter, NetfilterError, NetfilterErrorKind};
use cni_plugin::host::{Devices, Files, Host, LinkQuery, NamespaceState, Routing};
use cni_plugin::ledger::Ledger;
use cni_plugin::lock::LockName;

/// The host for questions. Nothing is changed through it. Locks are taken, so that what is decided stays true until the steps are
/// carried out; without one of them there are no steps.
pub struct DryRun<'a> {
    host: &'a mut dyn Host,
    netfilter: Option<NoRules>,
    steps: Vec<Step>,
    is_unlocked: bool,
}

impl<'a> DryRun<'a> {
    /// The host as it is.
    pub fn new(host: &'a mut dyn Host) -> Self {
        Self { host, netfilter: None, steps: Vec::new(), is_unlocked: false }
    }

    /// The host as it is, except that its packet filter has no rule: what a plugin finds missing there is all that it makes.
    pub fn without_rules(host: &'a mut dyn Host) -> Self {
        Self { netfilter: Some(NoRules::default()), ..Self::new(host) }
    }

    /// The steps that a plugin would have carried out.
    pub fn into_steps(self) -> Vec<Step> {
        if self.is_unlocked { Vec::new() } else { self.steps }
    }
}

/// A packet filter without rules.
#[derive(Debug, Default)]
struct NoRules {
    /// The tables that iptables cannot use.
    absent: Vec<(Family, IptablesTable)>,
    /// The state of nf_tables, where there are any.
    generation: Option<Generation>,
}

impl Host for DryRun<'_> {
    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        self.host.enter(path)
    }

    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error> {
        self.host.is_own_netns(path)
    }

    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
        self.host.links(ns, query)
    }

    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error> {
        self.host.addresses(ns, index, family)
    }

    fn routing(&mut self) -> &mut dyn Routing {
        self.host.routing()
    }

    fn devices(&mut self) -> &mut dyn Devices {
        self.host.devices()
    }

    fn namespaces(&mut self) -> &mut dyn NamespaceState {
        self.host.namespaces()
    }

    fn ledger(&mut self) -> &mut dyn Ledger {
        self.host.ledger()
    }

    fn files(&mut self) -> &mut dyn Files {
        self.host.files()
    }

    fn lock(&mut self, name: &LockName) -> Result<(), Error> {
        self.is_unlocked |= self.host.lock(name).is_err();
        Ok(())
    }

    /// Which back ends there are is true of the host, since it decides which rules a plugin makes.
    fn netfilter(&mut self, ns: Ns) -> Result<&mut dyn Netfilter, Error> {
        let real = self.host.netfilter(ns)?;
        let Some(empty) = &mut self.netfilter else { return Ok(real) };
        let tables = Family::ALL.into_iter().flat_map(|family| IptablesTable::ALL.map(|table| (family, table)));
        let absent = tables.filter(|(family, table)| real.iptables().absence(*family, *table).is_some()).collect();
        *empty = NoRules { absent, generation: real.nftables().generation().ok() };
        Ok(empty)
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        self.host.firewalld()
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        self.steps.push(step.clone());
        Ok(None)
    }

    /// Other plugins are not called: each would act on the real host.
    fn delegate(&mut self, _plugin: &str, _command: Command, _other: Option<&Request>) -> Result<Vec<u8>, Error> {
        Ok(Vec::new())
    }

    fn ask_daemon(&mut self, call: &DaemonCall, _patience: AnswerTimeout<'_>) -> Result<Vec<u8>, DaemonError> {
        let source = io::Error::new(io::ErrorKind::Unsupported, "no daemon is asked in a dry run");
        Err(DaemonError::Absent { socket: call.socket.clone(), source })
    }

    fn random(&mut self) -> [u8; 8] {
        self.host.random()
    }
}

/// What does the work of a program, in its errors.
const PROGRAM: &str = "a host without rules";

impl Netfilter for NoRules {
    fn iptables(&mut self) -> &mut dyn Iptables {
        self
    }

    fn nftables(&mut self) -> &mut dyn Nftables {
        self
    }
}

impl Iptables for NoRules {
    fn list(
        &mut self,
        _family: Family,
        _table: IptablesTable,
        _chain: &ChainName,
    ) -> Result<ChainRules, NetfilterError> {
        Ok(None)
    }

    /// No condition holds, and nothing is changed.
    fn commit(&mut self, batch: &Batch) -> Result<(), NetfilterError> {
        Err(NetfilterError::refused(batch.family, batch.table, PROGRAM, "there is no such rule"))
    }

    fn absence(&mut self, family: Family, table: IptablesTable) -> Option<NetfilterError> {
        let is_absent = self.absent.contains(&(family, table));
        is_absent.then(|| NetfilterError::no_table(family, table, PROGRAM, "there is no such table"))
    }

    fn lock(&mut self) -> Result<SharedChainsLock, NetfilterError> {
        Ok(SharedChainsLock { has_waited: false, held: Box::new(()) })
    }
}

impl Nftables for NoRules {
    fn list(&mut self, _chain: &ChainId) -> Result<Option<Vec<ListedRule>>, NetfilterError> {
        Ok(None)
    }

    fn held(&mut self, _elements: &SetElements) -> Result<Option<Vec<IpAddr>>, NetfilterError> {
        Ok(None)
    }

    fn generation(&mut self) -> Result<Generation, NetfilterError> {
        self.generation.ok_or_else(|| {
            let text = "failed to get the generation: nf_tables is not supported by this kernel".to_owned();
            NetfilterError::new(NetfilterErrorKind::Unsupported, Code::Kernel, text, "this host has no nf_tables")
        })
    }

    fn commit(&mut self, _transaction: &Transaction) -> Result<(), NetfilterError> {
        Ok(())
    }
}
