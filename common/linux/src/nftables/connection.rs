//! The connection to nf_tables: one socket, both for nf_tables itself and for the tables of iptables.
//!
//! It is opened on first use and then kept: closing it waits until the kernel has freed what was deleted. After a
//! batch that was refused, a new socket is used: the kernel answers every refused change, and unread answers could
//! fill the socket, so that the next answer is lost.

use std::collections::HashMap;

use cni_netfilter::nftables::{ChainId, Generation, TableId};
use netlink_packet_core::NetlinkSerializable;
use netlink_packet_netfilter::NetfilterMessage;
use netlink_sys::protocols::NETLINK_NETFILTER;

use super::handles::RuleHandles;
use super::kept::{KeptChain, KeptTable, KeptTables};
use crate::locks::RetryLock;
use cni_kernel::netlink::{Cause, Dump, RefusedChange, Socket};
use cni_kernel::netns::NetnsScope;
use cni_kernel::nftables::listing::{self, RawRule};
use cni_kernel::nftables::message;

/// A connection to the nf_tables of a network namespace.
#[derive(Debug)]
pub(crate) struct NftConnection {
    scope: NetnsScope,
    socket: Option<Socket>,
    /// The remembered handles of rules.
    pub(crate) handles: RuleHandles,
    /// Whole tables, if they are kept.
    kept: Option<KeptTables>,
    /// The state that decisions refer to, if tables are kept, unless others may have changed something since.
    current: Option<Generation>,
}

impl NftConnection {
    /// Opens nothing yet.
    pub(crate) fn new(scope: NetnsScope) -> Self {
        let handles = RuleHandles::new(&scope);
        Self { scope, socket: None, handles, kept: None, current: None }
    }

    /// Reads tables as a whole, and keeps them for as long as nothing changes, unless they change all the time.
    pub(crate) fn keep_tables(&mut self) {
        self.kept = Some(KeptTables::default());
    }

    /// Takes over what another connection keeps of the tables of the same namespace.
    pub(crate) fn take_over_tables(&mut self, former: &mut Self) {
        self.kept = former.kept.take();
    }

    /// Asks the kernel for changes before kept tables are used again.
    pub(crate) const fn expire(&mut self) {
        self.current = None;
    }

    /// The remembered handles of rules of iptables; `None` while tables are kept, whose index finds them.
    pub(crate) fn handles_without_index(&mut self) -> Option<&mut RuleHandles> {
        Some(&mut self.handles).filter(|_| self.kept.is_none())
    }

    /// The answer to a question about one object; `None` if it does not exist.
    fn ask<T>(&mut self, question: NetfilterMessage, read: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, Cause> {
        match self.converse(|socket| socket.ask(question, read)) {
            Ok(found) => Ok(Some(found)),
            Err(cause) if cause.errno() == Some(libc::ENOENT) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// Whether the object of a question exists.
    pub(crate) fn exists(&mut self, question: NetfilterMessage) -> Result<bool, Cause> {
        Ok(self.ask(question, |_| Some(()))?.is_some())
    }

    /// Whether a chain exists.
    pub(crate) fn has_chain(&mut self, chain: &ChainId) -> Result<bool, Cause> {
        match self.table(&chain.table)? {
            Some(table) => Ok(table.contains_key(chain.name.as_str())),
            None => self.exists(message::get_chain(chain)),
        }
    }

    /// The type of a chain, which is empty unless it is a base chain; `None` if it does not exist.
    pub(crate) fn chain_type(&mut self, chain: &ChainId) -> Result<Option<String>, Cause> {
        self.ask(message::get_chain(chain), |payload| Some(listing::read_chain_type(payload).unwrap_or_default()))
    }

    /// The rules of a chain, `None` if it does not exist; those for which `read` returns `None` are left out. The kernel lists
    /// no rules of a chain that does not exist.
    pub(crate) fn rules<T>(
        &mut self,
        chain: &ChainId,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Cause> {
        if let Some(table) = self.table(&chain.table)? {
            let kept = table.get(chain.name.as_str());
            return Ok(kept.map(|chain| chain.messages().filter_map(read).collect()));
        }
        let rules = self.converse(|socket| socket.dump(&message::get_rules(chain), read))?;
        log::debug!("listed chain {chain}: {} rules", rules.len());
        Ok((!rules.is_empty() || self.has_chain(chain)?).then_some(rules))
    }

    /// A chain in its current state, if tables are kept and it exists.
    pub(crate) fn kept_chain(&mut self, chain: &ChainId) -> Result<Option<&KeptChain>, Cause> {
        Ok(self.table(&chain.table)?.and_then(|table| table.get(chain.name.as_str())))
    }

    /// A table in its current state, if tables are kept, and nothing changes while it is read.
    fn table(&mut self, table: &TableId) -> Result<Option<&KeptTable>, Cause> {
        if self.kept.is_none() {
            return Ok(None);
        }
        let state = self.state()?;
        if !self.kept.as_mut().is_some_and(|kept| kept.begin(state)) {
            log::debug!("tables are not kept any more: they change all the time");
            self.kept = None;
        }
        if self.kept.as_ref().is_some_and(|kept| !kept.tables.contains_key(table)) {
            let mut read = match self.read_table(table) {
                Err(Cause::Interrupted) => None,
                read => Some(read?),
            };
            if self.generation()? != state {
                read = None;
            }
            if let Some(kept) = &mut self.kept {
                kept.tables.insert(table.clone(), read);
            }
        }
        Ok(self.kept.as_ref().and_then(|kept| kept.tables.get(table)?.as_ref()))
    }

    /// Reads a table. Each listing is read once: it takes long enough that another change is likely while it is repeated.
    ///
    /// # Errors
    /// [`Cause::Interrupted`] when something changes meanwhile.
    fn read_table(&mut self, table: &TableId) -> Result<KeptTable, Cause> {
        let mut chains = KeptTable::default();
        self.list_once(&message::get_chains(table.family), |payload| {
            let (of, chain) = listing::read_chain(payload)?;
            (of == table.name.as_str()).then(|| chains.entry(chain).or_default());
            None::<()>
        })?;
        let mut length = 0_usize;
        self.list_once(&message::get_rules_of_table(table), |payload| {
            let chain = listing::read_chain_of_rule(payload)?;
            chains.entry(chain.into_owned()).or_default().push(payload);
            length += 1;
            None::<()>
        })?;
        log::debug!("listed table {table}: {length} rules");
        Ok(chains)
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
        Ok(self.ask(message::get_rule(chain, handle), |payload| Some(read(payload)))?.flatten())
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

    /// Lets no other of these plugins compete, after others have changed something in between.
    pub(crate) fn lock_for_retry(&self) -> RetryLock {
        RetryLock::take(&self.scope)
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
