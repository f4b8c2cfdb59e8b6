//! A generator of pseudo-random numbers, for transaction ids and for variation of pauses, so that containers that
//! started together do not keep sending at the same time.

use std::time::Duration;

/// SplitMix64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Begins with a random number.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A transaction id.
    pub fn xid(&mut self) -> u32 {
        u32::try_from(self.throw() >> 32).unwrap_or_default()
    }

    /// A time up to a tenth shorter or longer.
    pub fn about(&mut self, time: Duration) -> Duration {
        let part = u32::try_from(self.throw() % 201).unwrap_or(100);
        time * (900 + part) / 1000
    }
}
