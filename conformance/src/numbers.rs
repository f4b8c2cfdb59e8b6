//! Numbers that look random, and are the same for a seed.

/// A sequence of them (the generator of Knuth's MMIX).
#[derive(Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Begins one.
    pub const fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, below a limit.
    ///
    /// # Panics
    /// If the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % limit
    }
}
