//! A lock for processes whose change of nf_tables was refused because another change came first.
//!
//! A change is bound to the state that was read: the kernel refuses it if anybody else has changed something since. If
//! a hundred processes start at once, one succeeds each time, and the others read everything again. So a process that
//! was refused takes this lock until its change is made. Then at most one of these plugins competes with programs that
//! do not know the lock.

use std::time::Duration;

use cni_files::Lock;

use crate::locks::take_in_netns;
use cni_kernel::netns::NetnsScope;

/// The time limit for the lock. After that, the change is tried without it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The lock for changes of a network namespace that are tried again, until it is dropped.
#[derive(Debug)]
pub(crate) struct RetryLock(#[expect(dead_code, reason = "it is released when it is dropped")] Option<Lock>);

impl RetryLock {
    /// Takes it.
    pub(crate) fn take(scope: &NetnsScope) -> Self {
        let lock = take_in_netns("late", scope, PATIENCE).unwrap_or_else(|error| {
            log::debug!("nf_tables are changed again without a lock: {error}");
            None
        });
        Self(lock)
    }
}
