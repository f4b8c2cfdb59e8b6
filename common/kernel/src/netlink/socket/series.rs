//! Independent changes, sent several at a time: one that fails does not affect the others.
//!
//! They are sent in groups. The kernel processes them in order, so only the last of each group is acknowledged, and every
//! refused one is answered.

use netlink_packet_core::{NLM_F_ACK, NetlinkSerializable};

use super::super::error::Cause;
use super::super::reply::{Messages, ReplyKind};
use super::{Socket, uninterrupted};

/// The number of changes in a group: few enough that the socket's buffer holds a refusal of each.
const GROUP: usize = 64;

impl Socket {
    /// Sends a change for each item, in order. Calls `refused` with each item whose change the kernel refuses, and with the cause.
    pub fn series<T, M: NetlinkSerializable>(
        &mut self,
        items: &[T],
        change: impl Fn(&T) -> M,
        mut refused: impl FnMut(&T, Cause),
    ) -> Result<(), Cause> {
        for group in items.chunks(GROUP) {
            let (mut bytes, first) = (Vec::new(), self.sequence.wrapping_add(1));
            for (left, item) in (0..group.len()).rev().zip(group) {
                self.append(&mut bytes, change(item), if left == 0 { NLM_F_ACK } else { 0 });
            }
            uninterrupted(|| self.inner.send(&bytes, 0))?;
            self.await_last(first, |index, cause| {
                if let Some(item) = group.get(index) {
                    refused(item, cause);
                }
            })?;
        }
        Ok(())
    }

    /// Waits for the answer to the last change that was sent.
    fn await_last(&mut self, first: u32, mut refused: impl FnMut(usize, Cause)) -> Result<(), Cause> {
        let last = self.sequence;
        loop {
            self.receive()?;
            for message in Messages::new(&self.buffer) {
                let message = message?;
                let index = message.sequence.wrapping_sub(first);
                if index > last.wrapping_sub(first) {
                    continue;
                }
                let ReplyKind::Ended(result) = message.outcome() else { continue };
                if let (Err(errno), Ok(index)) = (result, usize::try_from(index)) {
                    refused(index, errno.into());
                }
                if message.sequence == last {
                    return Ok(());
                }
            }
        }
    }
}
