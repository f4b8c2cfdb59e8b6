//! When an unanswered message is sent again, and when the client gives up.

use std::time::Duration;

use super::split_mix::SplitMix64;
use crate::moment::Moment;

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
