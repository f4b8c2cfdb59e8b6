//! Time: when an unanswered message is sent again, and when the client gives up.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The first pause: an answer takes a few milliseconds as a rule, but one may be lost on a link that has just come up.
const FIRST: Duration = Duration::from_millis(300);

/// The time limits, from flags of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest that the first pause may be (`-timeout`).
    pub first: Duration,
    /// The longest pause (`-resendmax`).
    pub pause: Duration,
    /// The time limit for getting an address (`-resendtimeout`).
    pub whole: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { first: Duration::from_secs(10), pause: Duration::from_secs(62), whole: Duration::from_secs(208) }
    }
}

/// The clock of one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    limits: Limits,
    end: Moment,
    pause: Duration,
    next: Moment,
}

impl Retry {
    /// Begins with a message that is sent now.
    pub fn new(limits: Limits, now: Moment, dice: &mut SplitMix64) -> Self {
        let pause = FIRST.min(limits.first);
        Self { limits, end: now + limits.whole, pause, next: now }.sent(now, dice)
    }

    /// The next form of the same question: the pauses start again, the end stays.
    #[must_use]
    pub fn anew(self, now: Moment, dice: &mut SplitMix64) -> Self {
        Self { pause: FIRST.min(self.limits.first), ..self }.sent(now, dice)
    }

    /// After a message that is sent now: the next pause is twice as long.
    #[must_use]
    pub fn sent(self, now: Moment, dice: &mut SplitMix64) -> Self {
        let next = (now + dice.about(self.pause)).min(self.end);
        Self { pause: (self.pause * 2).min(self.limits.pause), next, ..self }
    }

    /// When something is to be done next.
    pub const fn due(&self) -> Moment {
        self.next
    }

    /// Whether no further message is sent.
    pub fn is_over(&self, now: Moment) -> bool {
        now >= self.end
    }
}

/// A point in time: milliseconds since the start of the machine (`CLOCK_BOOTTIME`). The clock also counts while the machine is
/// suspended, so leases end meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment(u64);

impl Moment {
    /// So long after the start.
    pub fn at(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(Self::at(time).0))
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A generator of pseudo-random numbers (SplitMix64), for transaction ids and for variation of pauses, so that containers that
/// started together do not keep sending at the same time.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The pauses between messages, in milliseconds and roughly.
    fn pauses(limits: Limits) -> Vec<u64> {
        let mut dice = SplitMix64::new(7);
        let start = Moment::default();
        let mut retry = Retry::new(limits, start, &mut dice);
        let mut pauses = Vec::new();
        let mut now = start;
        while !retry.is_over(retry.due()) {
            pauses.push(u64::try_from((retry.due() - now).as_millis()).expect("small"));
            now = retry.due();
            retry = retry.sent(now, &mut dice);
        }
        pauses
    }

    #[test]
    fn pauses_double_up_to_the_limit_until_the_end() {
        let found = pauses(Limits::default());
        let doubled = [300, 600, 1200, 2400, 4800, 9600, 19200, 38400, 62000];
        for (pause, want) in found.iter().zip(doubled) {
            assert!((want * 9 / 10..=want * 11 / 10).contains(pause), "{found:?}");
        }
        assert!(found.len() >= 9 && found.iter().sum::<u64>() < 208_000, "{found:?}");
    }

    #[test]
    fn flags_are_upper_limits() {
        let ms = Duration::from_millis;
        let found = pauses(Limits { first: ms(100), pause: ms(200), whole: ms(1000) });
        assert!(found[0] <= 110 && found.iter().all(|pause| *pause <= 220), "{found:?}");
        assert!((4..=6).contains(&found.len()), "{found:?}");
    }
}
