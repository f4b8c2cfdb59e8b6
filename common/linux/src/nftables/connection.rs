//! The connection to nf_tables: one socket, both for nf_tables itself and for the tables of iptables.
//!
//! It is opened on first use and then kept: closing it waits until the kernel has freed what was deleted. After a
//! batch that was refused, a new socket is used: the kernel answers every refused change, and unread answers could
//! fill the socket, so that the next answer is lost.

use std::collections::HashMap;
use std::sync::Arc;

use cni_core::family::Family;
use cni_netfilter::iptables::{IptablesRule, IptablesTable};
use cni_netfilter::nftables::{ChainId, Generation, TableId};
use netlink_packet_core::NetlinkSerializable;
use netlink_packet_netfilter::NetfilterMessage;
use netlink_sys::protocols::NETLINK_NETFILTER;

use super::handles::{RuleHandles, text};
use super::snapshots::{KeptTables, TableSnapshot};
use crate::latecomer::LatecomerLock;
use cni_kernel::netlink::{Cause, Dump, RefusedChange, Socket};
use cni_kernel::netns::NetnsScope;
use cni_kernel::nftables::listing::{self, RawRule};
use cni_kernel::nftables::message;

/// A connection to the nf_tables of a network namespace.
#[derive(Debug)]
pub(crate) struct NftConnection {
    scope: NetnsScope,
    socket: Option<Socket>,
    handles: RuleHandles,
    /// Where tables are kept, if they are.
    kept: Option<KeptTables>,
    /// The state that decisions refer to, if tables are kept, unless others may have changed something since.
    current: Option<Generation>,
    /// Rules of iptables that were added while tables were kept, and whose handles are not known yet.
    added: Vec<(ChainId, IptablesRule)>,
}

impl Drop for NftConnection {
    fn drop(&mut self) {
        self.find_added();
    }
}

impl KeptTables {
    /// Reads tables of iptables that will be asked for, unless another thread is reading them or has done so. What cannot be
    /// read now is read when it is asked for.
    pub fn read_ahead(&self, tables: impl IntoIterator<Item = (Family, IptablesTable)>) {
        let mut connection = NftConnection::new(NetnsScope::Current);
        connection.keep_tables(self.clone());
        for (family, table) in tables {
            if let Err(cause) = connection.table(&TableId::fixed(family.into(), table.as_str())) {
                log::debug!("table {family} {table} is not read ahead: {cause}");
            }
        }
    }
}

impl NftConnection {
    /// Opens nothing yet.
    pub(crate) fn new(scope: NetnsScope) -> Self {
        let handles = RuleHandles::new(&scope);
        Self { scope, socket: None, handles, kept: None, current: None, added: Vec::new() }
    }

    /// Reads tables as a whole, and keeps them for as long as nothing changes, unless they change all the time.
    pub(crate) fn keep_tables(&mut self, kept: KeptTables) {
        self.kept = Some(kept);
        self.handles.stop_reading();
    }

    /// Asks the kernel for changes before kept tables are used again.
    pub(crate) const fn expire(&mut self) {
        self.current = None;
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

    /// The type of a chain, which is empty unless it is a base chain; `None` if it does not exist.
    pub(crate) fn chain_type(&mut self, chain: &ChainId) -> Result<Option<String>, Cause> {
        let read = |payload: &[u8]| Some(listing::read_chain_type(payload).unwrap_or_default());
        match self.converse(|socket| socket.ask(message::get_chain(chain), read)) {
            Ok(found) => Ok(Some(found)),
            Err(cause) if cause.errno() == Some(libc::ENOENT) => Ok(None),
            Err(cause) => Err(cause),
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
            if !table.has_chain(chain) {
                return Ok(None);
            }
            if let Some(rules) = table.rules(chain) {
                return Ok(Some(rules.iter().filter_map(|rule| read(rule)).collect()));
            }
        }
        let rules = self.converse(|socket| socket.dump(&message::get_rules(chain), read))?;
        log::debug!("listed chain {chain}: {} rules", rules.len());
        Ok((!rules.is_empty() || self.has_chain(chain)?).then_some(rules))
    }

    /// A table in its current state, if tables are kept, and nothing changes while it is read.
    pub(crate) fn table(&mut self, table: &TableId) -> Result<Option<Arc<TableSnapshot>>, Cause> {
        let Some(kept) = self.kept.clone() else { return Ok(None) };
        let state = self.state()?;
        if !kept.are_worth_it() {
            log::debug!("tables are not kept any more: they change all the time");
            self.kept = None;
            self.handles.read_again();
            return Ok(None);
        }
        kept.table(table, state, || {
            let read = match self.read_table(table) {
                Err(Cause::Interrupted) => None,
                read => Some(read?),
            };
            let is_current = read.is_some() && self.generation()? == state;
            Ok(read.filter(|_| is_current))
        })
    }

    /// Reads a table. Each listing is read once: it takes long enough that another change is likely while it is repeated.
    ///
    /// # Errors
    /// [`Cause::Interrupted`] when something changes meanwhile.
    fn read_table(&mut self, table: &TableId) -> Result<TableSnapshot, Cause> {
        let mut snapshot = TableSnapshot::new(table);
        self.list_once(&message::get_chains(table.family), |payload| {
            let (of, chain) = listing::read_chain(payload)?;
            (of == table.name.as_str()).then(|| snapshot.add_chain(chain))
        })?;
        let mut length = 0_usize;
        self.list_once(&message::get_rules_of_table(table), |payload| {
            snapshot.add_rule(payload);
            length += 1;
            None::<()>
        })?;
        log::debug!("listed table {table}: {length} rules");
        Ok(snapshot.finished())
    }

    fn list_once<T>(
        &mut self,
        question: &NetfilterMessage,
        read: impl FnMut(&[u8]) -> Option<T>,
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
        self.current = Some(now);
        Ok(now)
    }

    /// The state that a decision refers to: that of the kept tables, otherwise the current one.
    pub(crate) fn state(&mut self) -> Result<Generation, Cause> {
        match self.current.filter(|_| self.kept.is_some()) {
            Some(state) => Ok(state),
            None => self.generation(),
        }
    }

    /// Makes changes, all of them or none, if nothing has changed since a state. Returns the handles of the rules that
    /// changes with `NLM_F_ECHO` have made, by the index of the change.
    pub(crate) fn batch<M: NetlinkSerializable + From<NetfilterMessage>>(
        &mut self,
        since: Option<Generation>,
        changes: Vec<(M, u16)>,
    ) -> Result<HashMap<usize, u64>, RefusedChange> {
        let socket = self.socket().map_err(|cause| RefusedChange { change: None, cause })?;
        let mut made = HashMap::new();
        let done = socket.batch(message::batch_ends(since).map(M::from), changes, |change, kind, payload| {
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

    /// Remembers a new rule whose handle is read from the kept tables when the connection ends.
    pub(crate) fn find_later(&mut self, chain: &ChainId, rule: &IptablesRule) {
        self.added.push((chain.clone(), rule.clone()));
    }

    fn find_added(&mut self) {
        for (chain, rule) in std::mem::take(&mut self.added) {
            match self.table(&chain.table) {
                Ok(Some(table)) => {
                    let handle = table.index(&chain).and_then(|index| index.only_handle(&rule));
                    handle.into_iter().for_each(|handle| self.handles.keep(&chain, &text(&rule), handle));
                }
                Ok(None) => return,
                Err(cause) => return log::debug!("the handles of new rules are not remembered: {cause}"),
            }
        }
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
