//! Points in time since the machine was started. The clock also counts while the machine is suspended, so leases end
//! meanwhile.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the start of the machine (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment(u64);

impl Moment {
    /// So long after the start.
    pub fn at(since_start: Duration) -> Self {
        Self(u64::try_from(since_start.as_millis()).unwrap_or(u64::MAX))
    }

    /// The time from `now` until this moment; zero if it has passed.
    pub fn after(self, now: Self) -> Duration {
        self - now
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
