//! Traffic control (`tc`): how fast a link sends, and where the packets go that it receives.

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

/// The traffic control of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficControl {
    /// What it sends through; none where that is the kernel's own choice.
    pub root: Option<RootQdisc>,
    /// The indices of the links to which everything goes that it receives; 0 for a link that is gone, where all is lost.
    pub redirects: Vec<u32>,
}
