//! The connection to nf_tables: one socket, both for nf_tables itself and for the tables of iptables.
//!
//! It is opened on first use and then kept: closing it waits until the kernel has freed what was deleted. After a
//! batch that was refused, a new socket is used: the kernel answers every refused change, and unread answers could
//! fill the socket, so that the next answer is lost.

use std::collections::HashMap;
use std::rc::Rc;

use cni_netfilter::nftables::{ChainId, Generation, TableId};
use netlink_packet_netfilter::NetfilterMessage;
use netlink_sys::protocols::NETLINK_NETFILTER;

use super::handles::RuleHandles;
use super::snapshots::{RuleIndex, TableSnapshot, TableSnapshots};
use crate::latecomer::LatecomerLock;
use cni_kernel::netlink::{Cause, Dump, RefusedChange, Socket};
use cni_kernel::netns::NetnsScope;
use cni_kernel::nftables::listing::{self, RawRule};
use cni_kernel::nftables::message;
use cni_kernel::nftables::request::ChangeMessage;
use cni_kernel::nftables::xt::NumberedRule;

/// A connection to the nf_tables of a network namespace.
#[derive(Debug)]
pub(crate) struct NftConnection {
    scope: NetnsScope,
    socket: Option<Socket>,
    handles: RuleHandles,
    /// What is kept of the tables, if it is.
    snapshots: Option<TableSnapshots>,
}

impl NftConnection {
    /// Opens nothing yet.
    pub(crate) fn new(scope: NetnsScope) -> Self {
        let handles = RuleHandles::new(&scope);
        Self { scope, socket: None, handles, snapshots: None }
    }

    /// Reads tables as a whole, and keeps them for as long as nothing changes, unless they change all the time.
    pub(crate) fn keep_tables(&mut self) {
        self.snapshots = Some(TableSnapshots::default());
        self.handles.stop_reading();
    }

    /// Asks the kernel for changes before kept tables are used again.
    pub(crate) fn expire(&mut self) {
        self.snapshots.iter_mut().for_each(TableSnapshots::expire);
    }

    /// The remembered handles of rules.
    pub(crate) const fn handles(&mut self) -> &mut RuleHandles {
        &mut self.handles
    }

    /// Whether the object of a question exists.
    pub(crate) fn exists(&mut self, question: NetfilterMessage) -> Result<bool, Cause> {
        match self.converse(|socket| socket.ask(question, |_| Some(()))) {
            Ok(()) => Ok(true),
            Err(cause) if cause.errno() == Some(libc::ENOENT) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    /// Whether a chain exists.
    pub(crate) fn has_chain(&mut self, chain: &ChainId) -> Result<bool, Cause> {
        match self.table(&chain.table)? {
            Some(table) => Ok(table.has_chain(chain)),
            None => self.exists(message::get_chain(chain)),
        }
    }

    /// The rules of a chain, `None` if it does not exist; those for which `read` returns `None` are left out. The kernel lists
    /// no rules of a chain that does not exist.
    pub(crate) fn rules<T>(
        &mut self,
        chain: &ChainId,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Cause> {
        if let Some(table) = self.table(&chain.table)? {
            return Ok(table.has_chain(chain).then(|| table.rules(chain).filter_map(read).collect()));
        }
        let rules = self.converse(|socket| socket.dump(&message::get_rules(chain), read))?;
        log::debug!("listed chain {chain}: {} rules", rules.len());
        Ok((!rules.is_empty() || self.has_chain(chain)?).then_some(rules))
    }

    /// The index of a chain, if its table is kept and the chain exists.
    pub(crate) fn index(
        &mut self,
        chain: &ChainId,
        decode: impl Fn(&[u8]) -> Option<NumberedRule>,
    ) -> Result<Option<Rc<RuleIndex>>, Cause> {
        Ok(self.table(&chain.table)?.and_then(|table| table.index(chain, decode)))
    }

    /// A table in its current state, if tables are kept, and nothing changes while it is read.
    fn table(&mut self, table: &TableId) -> Result<Option<&mut TableSnapshot>, Cause> {
        if self.snapshots.is_none() {
            return Ok(None);
        }
        let state = self.state()?;
        match &self.snapshots {
            Some(snapshots) if !snapshots.is_worth_it() => {
                log::debug!("tables are not kept any more: they change all the time");
                self.snapshots = None;
                self.handles.read_again();
            }
            Some(snapshots) if !snapshots.has(table) => self.keep_table(table, state)?,
            Some(_) | None => {}
        }
        Ok(self.snapshots.as_mut().and_then(|snapshots| snapshots.table(table)))
    }

    /// Keeps a table as it is in a state, unless something changes while it is read.
    fn keep_table(&mut self, table: &TableId, state: Generation) -> Result<(), Cause> {
        let read = match self.read_table(table) {
            Err(Cause::Interrupted) => None,
            read => Some(read?),
        };
        let is_current = read.is_some() && self.generation()? == state;
        let Some(snapshots) = &mut self.snapshots else { return Ok(()) };
        match read {
            Some(read) if is_current => snapshots.keep(table.clone(), read),
            Some(_) | None => snapshots.waste(),
        }
        Ok(())
    }

    /// Reads a table. Each listing is read once: it takes long enough that another change is likely while it is repeated.
    ///
    /// # Errors
    /// [`Cause::Interrupted`] when something changes meanwhile.
    fn read_table(&mut self, table: &TableId) -> Result<TableSnapshot, Cause> {
        let mut snapshot = TableSnapshot::default();
        let chains = self.list_once(&message::get_chains(table.family), listing::read_chain)?;
        let own = chains.into_iter().filter(|(of, _)| of == table.name.as_str());
        own.for_each(|(_, chain)| snapshot.add_chain(chain));
        let read = |payload: &[u8]| Some((listing::read_chain_of_rule(payload)?, payload.into()));
        let rules = self.list_once(&message::get_rules_of_table(table), read)?;
        log::debug!("listed table {table}: {} rules", rules.len());
        rules.into_iter().for_each(|(chain, message)| snapshot.add_rule(chain, message));
        Ok(snapshot)
    }

    fn list_once<T>(
        &mut self,
        question: &NetfilterMessage,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>, Cause> {
        match self.converse(|socket| socket.dump_once(question, read))? {
            Dump::Whole(found) => Ok(found),
            Dump::Interrupted(_) => Err(Cause::Interrupted),
        }
    }

    /// The rule with a handle; `None` if it does not exist, or `read` returns `None`.
    pub(crate) fn rule<T>(
        &mut self,
        chain: &ChainId,
        handle: u64,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, Cause> {
        match self.converse(|socket| socket.ask(message::get_rule(chain, handle), |payload| Some(read(payload)))) {
            Ok(rule) => Ok(rule),
            Err(cause) if cause.errno() == Some(libc::ENOENT) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// The state that everything is in.
    pub(crate) fn generation(&mut self) -> Result<Generation, Cause> {
        let now = self.converse(|socket| socket.ask(message::get_generation(), listing::read_generation))?;
        self.snapshots.iter_mut().for_each(|snapshots| snapshots.update(now));
        Ok(now)
    }

    /// The state that a decision refers to: that of the kept tables, otherwise the current one.
    pub(crate) fn state(&mut self) -> Result<Generation, Cause> {
        match self.snapshots.as_ref().and_then(TableSnapshots::state) {
            Some(state) => Ok(state),
            None => self.generation(),
        }
    }

    /// Makes changes, all of them or none, if nothing has changed since a state. Returns the handles of the rules that
    /// changes with `NLM_F_ECHO` have made, by the index of the change.
    pub(crate) fn batch(
        &mut self,
        since: Option<Generation>,
        changes: Vec<ChangeMessage>,
    ) -> Result<HashMap<usize, u64>, RefusedChange> {
        let socket = self.socket().map_err(|cause| RefusedChange { change: None, cause })?;
        let mut made = HashMap::new();
        let done = socket.batch(message::batch_ends(since), changes, |change, kind, payload| {
            // The kernel also reports the generation.
            if kind == listing::NEW_RULE {
                made.extend(RawRule::read(payload).map(|rule| (change, rule.handle)));
            }
        });
        if done.is_err() {
            self.socket = None;
        }
        self.expire();
        done.map(|()| made)
    }

    /// Lets no other of these plugins compete, after others have changed something in between.
    pub(crate) fn come_late(&self) -> LatecomerLock {
        LatecomerLock::take(&self.scope)
    }

    /// Asks; a socket that has lost an answer is not used again.
    fn converse<T>(&mut self, ask: impl FnOnce(&mut Socket) -> Result<T, Cause>) -> Result<T, Cause> {
        let answer = ask(self.socket()?);
        if answer.as_ref().is_err_and(|cause| matches!(cause.errno(), None | Some(libc::ENOBUFS))) {
            self.socket = None;
        }
        answer
    }

    fn socket(&mut self) -> Result<&mut Socket, Cause> {
        match &mut self.socket {
            Some(socket) => Ok(socket),
            none => {
                let opened = self.scope.run(|| Socket::of(NETLINK_NETFILTER))?;
                Ok(none.insert(opened.map_err(|error| error.cause().clone())?))
            }
        }
    }
}
