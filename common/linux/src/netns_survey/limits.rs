//! How much of the machine a survey looks at, and what it could not see.

use std::time::{Duration, Instant};

use cni_kernel::netns::Netns;

use nix::time::{ClockId, clock_gettime};

/// How much processor time DEL takes to look for a link. It is as much on a machine with much load.
const MOST_WORK: Duration = Duration::from_secs(2);

/// How long DEL waits for the locks of the kernel besides.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many descriptors DEL looks at of one process. Any user can open many more, at no cost.
const MOST_DESCRIPTORS: usize = 10_000;

/// The limits of a survey.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// When it ends, unless it has ended before.
    pub deadline: Option<Instant>,
    /// How much processor time this process has had then.
    pub work: Option<Duration>,
    /// How many descriptors are looked at of one process.
    pub descriptors: usize,
    /// The only user besides root whose namespaces are looked into; `None` for all users.
    pub user: Option<u32>,
}

impl Limits {
    /// Those of a survey that may take as long as it needs.
    pub const NONE: Self = Self { deadline: None, work: None, descriptors: usize::MAX, user: None };

    /// Those of a survey that DEL waits for.
    pub fn of_del() -> Self {
        let work = processor_time().map(|spent| spent + MOST_WORK);
        let work = work.inspect_err(|error| log::debug!("there is no clock of processor time: {error}")).ok();
        Self { deadline: Some(Instant::now() + PATIENCE), work, descriptors: MOST_DESCRIPTORS, user: None }
    }

    /// Whether a namespace is one that is not looked into.
    pub fn exclude(&self, namespace: &Netns) -> bool {
        self.user.is_some_and(|user| namespace.is_of_other_user(user))
    }

    /// Whether the time is over.
    pub fn are_reached(&self) -> bool {
        let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        is_late || self.work.is_some_and(|most| processor_time().is_ok_and(|spent| spent >= most))
    }
}

/// How long processors have worked for this process, in its own code and in the kernel.
fn processor_time() -> nix::Result<Duration> {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from)
}

/// What could not be seen: the first thing, and how many more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    first: Option<String>,
    others: usize,
}

impl Gaps {
    /// Adds one.
    pub fn add(&mut self, gap: impl Into<String>) {
        match self.first {
            None => self.first = Some(gap.into()),
            Some(_) => self.others += 1,
        }
    }

    /// Adds those of another part of the survey.
    pub fn merge(&mut self, others: Self) {
        if let Some(first) = others.first {
            self.add(first);
            self.others += others.others;
        }
    }

    /// All of them in a sentence; `None` when everything was seen.
    pub fn text(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(if self.others == 0 { first.clone() } else { format!("{first}; and {} more", self.others) })
    }
}
