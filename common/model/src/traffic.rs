//! Traffic control (`tc`): how fast a link sends, and where the packets go that it receives.

use std::fmt;

/// A token bucket (`tbf` of `linux/pkt_sched.h`): a packet leaves when the bucket holds a token for each of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaper {
    /// The rate, in bytes per second.
    pub rate: u64,
    /// How many bytes may wait for tokens; further packets are dropped.
    pub limit: u32,
    /// The time in which an empty bucket becomes full, in [ticks](Shaper::TICK).
    pub buffer: u32,
}

impl Shaper {
    /// A tick in nanoseconds: `PSCHED_SHIFT` of `net/pkt_sched.h`.
    pub const TICK: u64 = 64;

    /// The size of the bucket in bytes. A larger packet never leaves.
    pub fn bucket(&self) -> u64 {
        let bytes = u128::from(self.buffer) * u128::from(Self::TICK) * u128::from(self.rate) / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// The queueing discipline through which a link sends, where it is not the kernel's own choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootQdisc {
    /// A token bucket under the handle `1:`, as plugins make it.
    Shaper(Shaper),
    /// Any other.
    Other {
        /// The kernel's word for it, such as `htb`.
        kind: String,
    },
}

/// The place of a filter among all filters of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterRank {
    /// Before all others, if a priority is free there.
    First,
    /// After the others: the kernel chooses the priority. The queueing discipline that existed before the filter stays
    /// when the filter is removed.
    Last,
}

impl fmt::Display for FilterRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "",
            Self::Last => " last",
        })
    }
}

/// The parts of the kernel that a redirect needs, by the name of their module, in the order of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPart {
    /// The discipline for filters on what a link receives.
    Ingress,
    /// The filter.
    U32,
    /// The action.
    Mirred,
}

impl fmt::Display for RedirectPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "sch_ingress",
            Self::U32 => "cls_u32",
            Self::Mirred => "act_mirred",
        })
    }
}

/// The traffic control of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficControl {
    /// The queueing discipline; `None` if it is the kernel's default.
    pub root: Option<RootQdisc>,
    /// The indices of the links to which everything received is redirected; 0 for a link that no longer exists, whose
    /// packets are lost.
    pub redirects: Vec<u32>,
}
