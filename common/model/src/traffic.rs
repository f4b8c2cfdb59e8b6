//! Traffic control (`tc`): how fast a link sends, and where the packets go that it receives.

use std::fmt;

/// A token bucket (`tbf` of `linux/pkt_sched.h`): a packet leaves when the bucket holds a token for each of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaper {
    /// How many tokens come each second: bytes per second.
    pub rate: u64,
    /// How many bytes may wait for tokens; more are dropped.
    pub limit: u32,
    /// How long an empty bucket takes to become full, in [ticks](Shaper::TICK).
    pub buffer: u32,
}

impl Shaper {
    /// A tick in nanoseconds: `PSCHED_SHIFT` of `net/pkt_sched.h`.
    pub const TICK: u64 = 64;

    /// How many bytes fit into the bucket. A larger packet never leaves.
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
    /// Before all others, as far as a place is free there.
    First,
    /// After the others: where the kernel puts a filter whose place nobody chooses. The discipline that was there before the
    /// filter stays when the filter is removed.
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

/// What of the kernel a redirect needs, in the order in which it is needed, by the name of its module.
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
    /// What it sends through; none where that is the kernel's own choice.
    pub root: Option<RootQdisc>,
    /// The indices of the links to which everything goes that it receives; 0 for a link that is gone, where all is lost.
    pub redirects: Vec<u32>,
}
