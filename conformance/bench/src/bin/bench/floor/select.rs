//! Decides which system calls of a recorded call are unavoidable.
//!
//! What stays:
//! - each change: messages that change the kernel's state, with their answers; files that are written, renamed, locked, flushed or
//!   removed; the change of the namespace and back;
//! - each question once: a message that asks, with its answers; a file that is read, or that is looked for and missing; a
//!   symbolic link that is followed;
//! - the sockets and files that these need, and the result on standard output.
//!
//! What goes: the second time of the same question; questions about the kind and the rights of a file; folders that exist
//! already; options of sockets that do not change an answer; and what the process does for itself.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::Call;

const SOL_NETLINK: i64 = 270;
const NETLINK_GET_STRICT_CHK: i64 = 12;
const AF_NETLINK: i64 = 16;
const NETLINK_ROUTE: i64 = 0;
const NFNL_SUBSYS_CTNETLINK: u16 = 1;
const NFNL_SUBSYS_NFTABLES: u16 = 10;
/// `NFT_MSG_GET*` of `linux/netfilter/nf_tables.h`.
const NFT_QUESTIONS: [u16; 9] = [1, 4, 7, 10, 13, 16, 19, 21, 23];
/// `IPCTNL_MSG_CT_GET`
const CONNTRACK_QUESTION: u16 = 1;

/// What happens to one file descriptor until it is closed.
struct Session<'c> {
    calls: Vec<&'c Call>,
    /// A plugin is in the container's namespace when it opens it.
    is_inside: bool,
}

/// Returns the calls that stay, in their order. One read takes what several have taken.
pub fn unavoidable(calls: &[Call]) -> Vec<Call> {
    let (sessions, session_of) = sessions(calls);
    let mut selection = Selection::default();
    let needed: Vec<_> = sessions.iter().map(|session| selection.needs(session)).collect();
    let mut kept = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        match session_of.get(&at) {
            Some(session) if needed[*session] && selection.keeps_of(call, *session, &sessions[*session]) => {
                kept.push(sessions[*session].whole(call));
            }
            None if selection.keeps(call) => kept.push(call.clone()),
            Some(_) | None => {}
        }
    }
    kept
}

impl Session<'_> {
    fn reads(&self) -> impl Iterator<Item = &&Call> {
        self.calls.iter().filter(|call| call.is(&[libc::SYS_read]))
    }

    fn whole(&self, call: &Call) -> Call {
        let mut call = call.clone();
        if call.is(&[libc::SYS_read]) {
            call.arguments[2] = self.reads().map(|read| read.result).sum();
        }
        call
    }
}

fn sessions(calls: &[Call]) -> (Vec<Session<'_>>, BTreeMap<usize, usize>) {
    let (mut sessions, mut session_of, mut open) = (Vec::<Session<'_>>::new(), BTreeMap::new(), BTreeMap::new());
    let mut is_inside = false;
    for (at, call) in calls.iter().enumerate() {
        is_inside ^= call.is(&[libc::SYS_setns]);
        if call.opens() {
            open.insert(call.result, sessions.len());
            session_of.insert(at, sessions.len());
            sessions.push(Session { calls: vec![call], is_inside });
        } else if let (true, Some(session)) = (has_descriptor(call), open.get(&call.arguments[0])) {
            session_of.insert(at, *session);
            sessions[*session].calls.push(call);
        }
        if call.is(&[libc::SYS_close]) {
            open.remove(&call.arguments[0]);
        }
    }
    (sessions, session_of)
}

/// Returns whether the first argument is a file descriptor.
fn has_descriptor(call: &Call) -> bool {
    call.path().is_none() && !call.is(&[libc::SYS_socket, libc::SYS_socketpair, libc::SYS_sendmsg])
}

/// The questions that were asked so far.
#[derive(Default)]
struct Selection {
    paths: BTreeSet<Vec<u8>>,
    messages: BTreeSet<Vec<u8>>,
    /// Sockets whose last message stays.
    answered: BTreeSet<usize>,
}

impl Selection {
    /// Returns whether anything of a session stays.
    fn needs(&mut self, session: &Session<'_>) -> bool {
        let [first, rest @ ..] = &session.calls[..] else { return false };
        if first.is(&[libc::SYS_socket]) {
            return first.arguments[0] != AF_NETLINK || rest.iter().any(|call| call.is(&[libc::SYS_sendto]));
        }
        let is_reference = first.arguments[1] & i64::from(libc::O_PATH) != 0;
        is_reference || rest.iter().any(|call| is_change(call)) || self.is_new_path(first)
    }

    fn is_new_path(&mut self, call: &Call) -> bool {
        self.paths.insert(call.path().expect("an opened file has a path").to_owned())
    }

    fn keeps_of(&mut self, call: &Call, at: usize, session: &Session<'_>) -> bool {
        let is_first_read = || session.reads().next().is_some_and(|first| std::ptr::eq(*first, call));
        match call.number {
            libc::SYS_sendto => {
                let is_new = !is_question(call, session) || self.messages.insert(question(call, session));
                if is_new {
                    self.answered.insert(at)
                } else {
                    self.answered.remove(&at)
                };
                is_new
            }
            libc::SYS_recvfrom => self.answered.contains(&at),
            libc::SYS_setsockopt => call.arguments[1..3] == [SOL_NETLINK, NETLINK_GET_STRICT_CHK],
            libc::SYS_read => call.result > 0 && is_first_read(),
            libc::SYS_getdents64 => call.result > 0,
            _ => call.opens() || call.is(&[libc::SYS_close]) || is_change(call),
        }
    }

    /// Returns whether a call stays that is about no file descriptor, or about a standard stream.
    fn keeps(&mut self, call: &Call) -> bool {
        match call.number {
            libc::SYS_open | libc::SYS_openat => self.is_new_path(call),
            libc::SYS_readlink => call.result > 0 && self.is_new_path(call),
            libc::SYS_write => call.arguments[0] == 1,
            libc::SYS_sendmsg => true,
            _ => call.path().is_some() && is_change(call) && call.result >= 0,
        }
    }
}

/// Returns whether a call on a file changes something.
fn is_change(call: &Call) -> bool {
    match call.number {
        libc::SYS_fcntl => call.arguments[1] != i64::from(libc::F_SETFD),
        _ => call.is(&[
            libc::SYS_chmod,
            libc::SYS_fchmod,
            libc::SYS_fdatasync,
            libc::SYS_flock,
            libc::SYS_fsync,
            libc::SYS_ftruncate,
            libc::SYS_link,
            libc::SYS_linkat,
            libc::SYS_mkdir,
            libc::SYS_pwrite64,
            libc::SYS_rename,
            libc::SYS_renameat2,
            libc::SYS_rmdir,
            libc::SYS_setns,
            libc::SYS_symlink,
            libc::SYS_unlink,
            libc::SYS_unlinkat,
            libc::SYS_utimensat,
            libc::SYS_write,
        ]),
    }
}

/// Returns whether a message of netlink only asks.
fn is_question(call: &Call, session: &Session<'_>) -> bool {
    let message = call.input(1);
    let kind = u16::from_ne_bytes([message[4], message[5]]);
    if session.calls[0].arguments[2] == NETLINK_ROUTE {
        return kind & 3 == 2;
    }
    match (kind >> 8, kind & 0xff) {
        (NFNL_SUBSYS_NFTABLES, kind) => NFT_QUESTIONS.contains(&kind),
        (NFNL_SUBSYS_CTNETLINK, kind) => kind == CONNTRACK_QUESTION,
        _ => false,
    }
}

/// What makes a question the same: all but its sequence number, the protocol, and the namespace.
fn question(call: &Call, session: &Session<'_>) -> Vec<u8> {
    let mut message = call.input(1).to_owned();
    message[8..12].fill(0);
    message.extend(session.calls[0].arguments[2].to_ne_bytes());
    message.push(session.is_inside.into());
    message
}
