//! The random steps of workers. A step depends only on the seed, the worker's number and the number of the step.

use std::fmt;
use std::time::Duration;

/// The largest number of containers of a worker.
pub const LIMIT: usize = 4;

/// A generator of pseudorandom numbers (splitmix64).
pub struct Random(u64);

impl Random {
    /// The generator for one step of a worker.
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

/// The action of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerAction {
    /// Adds a new container.
    Add(AddMode),
    /// Does something to a container of the worker.
    Act(ContainerAction),
}

/// How a container is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddMode {
    Complete,
    /// ADD is killed; then DEL.
    KilledThenDelete,
    /// ADD is killed, and the container ends without DEL.
    KilledWithoutDelete,
    /// ADD is killed; then DEL, and ADD of the same container.
    KilledThenAdd,
}

/// An action on an existing container, or on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerAction {
    /// Compares addresses, and connects.
    Verify,
    /// DEL, twice.
    Delete,
    /// DEL is killed; then DEL.
    DeleteKilled,
    /// Removes the name of the namespace; its process keeps running.
    RemoveNetnsName,
    /// Renames the interface from inside.
    Rename,
    /// The container ends without DEL.
    EndWithoutDelete,
    /// The container ends without DEL, and is added again, as after a reboot.
    AddAgain,
    /// When DEL is called, the path of the namespace leads to another container.
    ReusePath(PathReuse),
    /// A new container takes over the host port.
    Replace,
    /// Flushes the packet filter.
    Flush(Flush),
}

/// How the path of a namespace is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathReuse {
    /// The path is `/proc/PID/ns/net`, not a name below `/run/netns`.
    pub is_process: bool,
    /// The old container's process keeps running.
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

/// One step of a worker.
#[derive(Debug, Clone, Copy)]
pub struct WorkerStep {
    pub action: WorkerAction,
    /// Which of the worker's containers, modulo their number.
    pub which: usize,
    /// The network of a new container, modulo their number.
    pub network: usize,
    /// Whether the reference's plugins are called, if the network allows them.
    pub by_reference: bool,
    /// After which time a call is killed.
    pub killed_after: Duration,
}

const PATH_REUSES: [PathReuse; 4] = [
    PathReuse { is_process: false, survives: false },
    PathReuse { is_process: false, survives: true },
    PathReuse { is_process: true, survives: false },
    PathReuse { is_process: true, survives: true },
];

/// The modes with their weights.
const ADD_MODES: [(AddMode, usize); 4] = [
    (AddMode::Complete, 8),
    (AddMode::KilledThenDelete, 2),
    (AddMode::KilledWithoutDelete, 1),
    (AddMode::KilledThenAdd, 1),
];

/// The actions with their weights.
const ACTIONS: [(ContainerAction, usize); 16] = [
    (ContainerAction::Verify, 4),
    (ContainerAction::Delete, 3),
    (ContainerAction::DeleteKilled, 3),
    (ContainerAction::RemoveNetnsName, 2),
    (ContainerAction::Rename, 2),
    (ContainerAction::EndWithoutDelete, 1),
    (ContainerAction::AddAgain, 2),
    (ContainerAction::ReusePath(PATH_REUSES[0]), 1),
    (ContainerAction::ReusePath(PATH_REUSES[1]), 1),
    (ContainerAction::ReusePath(PATH_REUSES[2]), 1),
    (ContainerAction::ReusePath(PATH_REUSES[3]), 1),
    (ContainerAction::Replace, 2),
    (ContainerAction::Flush(Flush::V4), 1),
    (ContainerAction::Flush(Flush::V6), 1),
    (ContainerAction::Flush(Flush::HostPorts), 1),
    (ContainerAction::Flush(Flush::Tables), 1),
];

impl WorkerStep {
    /// Picks a random step for a worker with this number of containers.
    pub fn draw(random: &mut Random, containers: usize) -> Self {
        let adds = containers == 0 || (containers < LIMIT && random.below(2) == 0);
        let action = if adds {
            WorkerAction::Add(weighted(random, &ADD_MODES))
        } else {
            WorkerAction::Act(weighted(random, &ACTIONS))
        };
        let killed_after = Duration::from_millis(u64::try_from(random.below(150)).expect("a small number"));
        Self {
            action,
            which: random.below(LIMIT * 60),
            network: random.below(5040),
            by_reference: random.below(3) == 0,
            killed_after,
        }
    }
}

fn weighted<T: Copy>(random: &mut Random, choices: &[(T, usize)]) -> T {
    let mut at = random.below(choices.iter().map(|(_, weight)| weight).sum());
    for (action, weight) in choices {
        match at.checked_sub(*weight) {
            Some(rest) => at = rest,
            None => return *action,
        }
    }
    unreachable!("the number is below the sum of the weights")
}

impl fmt::Display for WorkerStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, by_reference, killed_after, .. } = self;
        match action {
            WorkerAction::Add(mode) => write!(f, "ADD {mode:?}")?,
            WorkerAction::Act(change) => write!(f, "{change:?}")?,
        }
        if !matches!(action, WorkerAction::Add(AddMode::Complete)) {
            write!(f, ", killed after {killed_after:?}")?;
        }
        if *by_reference { write!(f, ", by the reference") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(seed: u64, worker: u64) -> Vec<String> {
        (0..200).map(|step| format!("{:?}", WorkerStep::draw(&mut Random::of(seed, worker, step), 2))).collect()
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
        for (mode, _) in ADD_MODES {
            assert!(chosen.contains(&format!("action: Add({mode:?})")), "{mode:?}");
        }
        for (change, _) in ACTIONS {
            assert!(chosen.contains(&format!("action: Act({change:?})")), "{change:?}");
        }
    }

    #[test]
    fn without_containers_one_is_made_and_beyond_the_limit_none() {
        let adds = |step: WorkerStep| matches!(step.action, WorkerAction::Add(_));
        for step in 0..100 {
            assert!(adds(WorkerStep::draw(&mut Random::of(1, 1, step), 0)));
            assert!(!adds(WorkerStep::draw(&mut Random::of(1, 1, step), LIMIT)));
        }
    }
}
