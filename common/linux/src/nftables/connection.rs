//! The connection to nf_tables: one socket for the tables in their own terms and for those of iptables.
//!
//! It is opened when it is first used and then kept: closing it waits until the kernel has thrown away what was
//! deleted. After a batch that was not carried out it is another: the kernel answers every refused change, and
//! what nobody reads may fill the socket, which then loses the next answer.

use cni_netfilter::nftables::{ChainId, Generation};
use netlink_packet_netfilter::NetfilterMessage;
use netlink_sys::protocols::NETLINK_NETFILTER;

use super::listing;
use super::message;
use super::request::ChangeMessage;
use crate::netlink::{Cause, Refused, Socket};
use crate::netns::NetnsScope;

/// A connection to the nf_tables of a network namespace.
#[derive(Debug)]
pub(crate) struct NftConnection {
    scope: NetnsScope,
    socket: Option<Socket>,
}

impl NftConnection {
    /// Opens nothing yet.
    pub(crate) const fn new(scope: NetnsScope) -> Self {
        Self { scope, socket: None }
    }

    /// Whether there is what a question asks for.
    pub(crate) fn exists(&mut self, question: NetfilterMessage) -> Result<bool, Cause> {
        match self.converse(|socket| socket.ask(question, |_| Some(()))) {
            Ok(()) => Ok(true),
            Err(cause) if cause.errno() == Some(libc::ENOENT) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    /// The rules of a chain that is there; those for which `read` has `None` are left out.
    pub(crate) fn rules<T>(&mut self, chain: &ChainId, read: impl Fn(&[u8]) -> Option<T>) -> Result<Vec<T>, Cause> {
        self.converse(|socket| socket.dump(&message::get_rules(chain), read))
    }

    /// The state that everything is in.
    pub(crate) fn generation(&mut self) -> Result<Generation, Cause> {
        self.converse(|socket| socket.ask(message::get_generation(), listing::read_generation))
    }

    /// Makes changes, all of them or none, if nothing has changed since a state.
    pub(crate) fn batch(&mut self, since: Option<Generation>, changes: Vec<ChangeMessage>) -> Result<(), Refused> {
        let socket = self.socket().map_err(|cause| Refused { change: None, cause })?;
        let done = socket.batch(message::batch_ends(since), changes);
        if done.is_err() {
            self.socket = None;
        }
        done
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
