//! What workers choose to do. A choice follows from the seed, the worker's number and the step's alone.

use std::fmt;
use std::time::Duration;

/// How many containers a worker has at most.
pub const LIMIT: usize = 4;

/// A generator of numbers that look random (splitmix64).
pub struct Random(u64);

impl Random {
    /// The numbers of one step of one worker.
    pub fn of(seed: u64, worker: u64, step: u64) -> Self {
        let mut random = Self(seed);
        random.0 ^= random.next().wrapping_add(worker);
        random.0 ^= random.next().wrapping_add(step);
        random
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `end`, without `end`.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).expect("a small number");
        usize::try_from(self.next() % end).expect("a small number")
    }
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// ADD of a new container.
    Make(Making),
    /// Something is done to a container that it has.
    Change(Change),
}

/// How a container is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    Whole,
    /// ADD is killed, and DEL comes.
    KilledThenDelete,
    /// ADD is killed; the container ends, and no DEL comes.
    KilledThenAbandon,
    /// ADD is killed, then come DEL, and ADD of the same container.
    KilledThenAdd,
}

/// What is done to a container, or to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// CHECK of addresses and traffic.
    Look,
    /// DEL, twice.
    Delete,
    /// DEL that is killed, and DEL.
    DeleteKilled,
    /// The namespace loses its name; its process lives on.
    LoseName,
    /// Somebody inside gives the interface another name.
    Rename,
    /// The container ends, and no DEL comes.
    Abandon,
    /// The container ends, no DEL comes, and it is added again as after a reboot.
    Resurrect,
    /// The path of its namespace leads to another container when DEL comes.
    Recycle(Recycled),
    /// A new container takes over its host port.
    Update,
    /// The packet filter is flushed.
    Flush(Flush),
}

/// How the path of a namespace comes to lead to another container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recycled {
    /// The path is `/proc/PID/ns/net`, and not a name below `/run/netns`.
    pub is_process: bool,
    /// The old container's process lives on.
    pub survives: bool,
}

/// What is flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    V4,
    V6,
    HostPorts,
    Tables,
}

/// What a worker does in one step.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    pub deed: Deed,
    /// Which of the worker's containers, modulo their number.
    pub which: usize,
    /// The network of a new container, modulo their number.
    pub network: usize,
    /// Whether the reference's plugins are called, where they can be.
    pub by_reference: bool,
    /// When a call is killed, after its start.
    pub killed_after: Duration,
}

const RECYCLED: [Recycled; 4] = [
    Recycled { is_process: false, survives: false },
    Recycled { is_process: false, survives: true },
    Recycled { is_process: true, survives: false },
    Recycled { is_process: true, survives: true },
];

/// How often which is chosen.
const MAKING: [(Making, usize); 4] =
    [(Making::Whole, 8), (Making::KilledThenDelete, 2), (Making::KilledThenAbandon, 1), (Making::KilledThenAdd, 1)];

/// The same for containers that are there.
const CHANGES: [(Change, usize); 16] = [
    (Change::Look, 4),
    (Change::Delete, 3),
    (Change::DeleteKilled, 3),
    (Change::LoseName, 2),
    (Change::Rename, 2),
    (Change::Abandon, 1),
    (Change::Resurrect, 2),
    (Change::Recycle(RECYCLED[0]), 1),
    (Change::Recycle(RECYCLED[1]), 1),
    (Change::Recycle(RECYCLED[2]), 1),
    (Change::Recycle(RECYCLED[3]), 1),
    (Change::Update, 2),
    (Change::Flush(Flush::V4), 1),
    (Change::Flush(Flush::V6), 1),
    (Change::Flush(Flush::HostPorts), 1),
    (Change::Flush(Flush::Tables), 1),
];

impl Choice {
    /// Draws what a worker does that has so many containers.
    pub fn draw(random: &mut Random, containers: usize) -> Self {
        let makes = containers == 0 || (containers < LIMIT && random.below(2) == 0);
        let deed = if makes { Deed::Make(weighted(random, &MAKING)) } else { Deed::Change(weighted(random, &CHANGES)) };
        let killed_after = Duration::from_millis(u64::try_from(random.below(150)).expect("a small number"));
        Self {
            deed,
            which: random.below(LIMIT * 60),
            network: random.below(5040),
            by_reference: random.below(3) == 0,
            killed_after,
        }
    }
}

fn weighted<T: Copy>(random: &mut Random, deeds: &[(T, usize)]) -> T {
    let mut at = random.below(deeds.iter().map(|(_, weight)| weight).sum());
    for (deed, weight) in deeds {
        match at.checked_sub(*weight) {
            Some(rest) => at = rest,
            None => return *deed,
        }
    }
    unreachable!("the number is below the sum of the weights")
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { deed, by_reference, killed_after, .. } = self;
        match deed {
            Deed::Make(making) => write!(f, "ADD {making:?}")?,
            Deed::Change(change) => write!(f, "{change:?}")?,
        }
        if !matches!(deed, Deed::Make(Making::Whole)) {
            write!(f, ", killed after {killed_after:?}")?;
        }
        if *by_reference { write!(f, ", by the reference") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(seed: u64, worker: u64) -> Vec<String> {
        (0..200).map(|step| format!("{:?}", Choice::draw(&mut Random::of(seed, worker, step), 2))).collect()
    }

    #[test]
    fn a_seed_gives_the_same_choices_every_time_and_each_worker_others() {
        assert_eq!(history(7, 1), history(7, 1));
        assert_ne!(history(7, 1), history(7, 2));
        assert_ne!(history(7, 1), history(8, 1));
    }

    #[test]
    fn every_deed_is_chosen() {
        let chosen = history(1, 1).concat() + &history(2, 1).concat();
        for (making, _) in MAKING {
            assert!(chosen.contains(&format!("deed: Make({making:?})")), "{making:?}");
        }
        for (change, _) in CHANGES {
            assert!(chosen.contains(&format!("deed: Change({change:?})")), "{change:?}");
        }
    }

    #[test]
    fn without_containers_one_is_made_and_beyond_the_limit_none() {
        let makes = |choice: Choice| matches!(choice.deed, Deed::Make(_));
        for step in 0..100 {
            assert!(makes(Choice::draw(&mut Random::of(1, 1, step), 0)));
            assert!(!makes(Choice::draw(&mut Random::of(1, 1, step), LIMIT)));
        }
    }
}
