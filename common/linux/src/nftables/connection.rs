//! The connection to nf_tables: one socket, both for nf_tables itself and for the tables of iptables.
//!
//! It is opened on first use and then kept: closing it waits until the kernel has freed what was deleted. After a
//! batch that was refused, a new socket is used: the kernel answers every refused change, and unread answers could
//! fill the socket, so that the next answer is lost.

use std::collections::HashMap;
use std::sync::Arc;

use cni_netfilter::nftables::{ChainId, Generation};
use netlink_packet_netfilter::NetfilterMessage;
use netlink_sys::protocols::NETLINK_NETFILTER;

use super::cache::{CachedChain, CachedRule, ChainCache, ChangeLock, ChangedChain, LONG, TouchedChain};
use crate::latecomer::LatecomerLock;
use cni_kernel::netlink::{Cause, RefusedChange, Socket};
use cni_kernel::netns::NetnsScope;
use cni_kernel::nftables::listing::{self, RawRule};
use cni_kernel::nftables::message;
use cni_kernel::nftables::request::ChangeMessage;

/// A connection to the nf_tables of a network namespace.
#[derive(Debug)]
pub(crate) struct NftConnection {
    scope: NetnsScope,
    socket: Option<Socket>,
    cache: ChainCache,
}

impl NftConnection {
    /// Opens nothing yet.
    pub(crate) fn new(scope: NetnsScope) -> Self {
        let cache = match scope {
            NetnsScope::Current => ChainCache::new(),
            NetnsScope::Other(_) => ChainCache::none(),
        };
        Self { scope, socket: None, cache }
    }

    /// The cached long chains of the namespace.
    pub(crate) const fn cache(&mut self) -> &mut ChainCache {
        &mut self.cache
    }

    /// Whether the object of a question exists.
    pub(crate) fn exists(&mut self, question: NetfilterMessage) -> Result<bool, Cause> {
        match self.converse(|socket| socket.ask(question, |_| Some(()))) {
            Ok(()) => Ok(true),
            Err(cause) if cause.errno() == Some(libc::ENOENT) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    /// The rules of a chain that exists; those for which `read` returns `None` are left out.
    pub(crate) fn rules<T>(&mut self, chain: &ChainId, read: impl Fn(&[u8]) -> Option<T>) -> Result<Vec<T>, Cause> {
        let rules = self.converse(|socket| socket.dump(&message::get_rules(chain), read))?;
        log::debug!("listed chain {chain}: {} rules", rules.len());
        Ok(rules)
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
        self.converse(|socket| socket.ask(message::get_generation(), listing::read_generation))
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
            // The kernel also tells of the generation.
            if kind == listing::NEW_RULE {
                made.extend(RawRule::read(payload).map(|rule| (change, rule.handle)));
            }
        });
        if done.is_err() {
            self.socket = None;
        }
        done.map(|()| made)
    }

    /// A chain, if the cache knows all that it holds. Without a cache the kernel is not asked.
    pub(crate) fn cached(&mut self, chain: &ChainId) -> Result<Option<Arc<CachedChain>>, Cause> {
        if !self.cache.is_in_use() {
            return Ok(None);
        }
        let now = self.generation()?;
        Ok(self.cache.complete(chain, now))
    }

    /// Puts a chain into the cache that was read whole after a generation, if it is long.
    pub(crate) fn remember(&mut self, chain: &ChainId, rules: Vec<CachedRule>, read_in: Generation) {
        if rules.len() <= LONG {
            self.cache.forget(chain);
        } else if self.generation().ok() == Some(read_in) {
            self.cache.remember(chain, rules, read_in, || self.socket.as_mut().and_then(generation));
        }
    }

    /// Records a batch that was carried out on a generation, and the state of the chains that it touched; `None` for a
    /// chain that was not cached. Without the lock there was no cache before the batch; if there is one now, it does
    /// not know of the batch.
    pub(crate) fn committed(
        &mut self,
        turn: Option<&ChangeLock>,
        since: Option<Generation>,
        touched: Vec<TouchedChain>,
    ) {
        if let (Some(turn), Some(since)) = (turn, since) {
            let changed = touched.into_iter().filter_map(|(chain, changed)| Some((chain, changed?)));
            return self.cache.committed(turn, since, changed.collect());
        }
        for (chain, changed) in touched {
            match (changed, since) {
                (Some(ChangedChain::Holds { rules, complete: true }), Some(since)) => {
                    self.remember(&chain, rules, since.next());
                }
                (Some(ChangedChain::Holds { .. } | ChangedChain::Forgotten) | None, _) => self.cache.forget(&chain),
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

fn generation(socket: &mut Socket) -> Option<Generation> {
    socket.ask(message::get_generation(), listing::read_generation).ok()
}
