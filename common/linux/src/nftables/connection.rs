//! The connection to nf_tables: one socket, both for nf_tables itself and for the tables of iptables.
//!
//! It is opened on first use and then kept: closing it waits until the kernel has freed what was deleted. After a
//! batch that was refused, a new socket is used: the kernel answers every refused change, and unread answers could
//! fill the socket, so that the next answer is lost.

use std::collections::HashMap;

use cni_netfilter::nftables::{ChainId, Generation};
use netlink_packet_netfilter::NetfilterMessage;
use netlink_sys::protocols::NETLINK_NETFILTER;

use super::handles::RuleHandles;
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
    handles: RuleHandles,
}

impl NftConnection {
    /// Opens nothing yet.
    pub(crate) fn new(scope: NetnsScope) -> Self {
        let handles = RuleHandles::new(&scope);
        Self { scope, socket: None, handles }
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
            // The kernel also reports the generation.
            if kind == listing::NEW_RULE {
                made.extend(RawRule::read(payload).map(|rule| (change, rule.handle)));
            }
        });
        if done.is_err() {
            self.socket = None;
        }
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
