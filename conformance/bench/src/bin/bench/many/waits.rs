//! Says what the processes of plugins are at, by looking at them again and again.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::locks::LockSamples;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// What the processes were at.
#[derive(Default)]
pub struct Waits {
    /// How many processes were seen at something, over all looks.
    seen: BTreeMap<&'static str, usize>,
    locks: LockSamples,
}

/// What a process is at that has this function on its stack, in this order of importance.
const PLACES: [(&str, &str); 21] = [
    ("flock_lock_inode_wait", OUR_LOCK),
    ("fcntl_setlk", OUR_LOCK),
    ("hrtimer_nanosleep", OUR_LOCK),
    ("do_wait", CHILD),
    ("netdev_run_todo", "waits for the deletion of a link (RCU)"),
    ("unregister_netdevice_many", "waits for the deletion of a link (RCU)"),
    ("nft_rcv_nl_event", "waits for the deletion of rules (RCU)"),
    ("nf_tables_trans_destroy", "waits for the deletion of rules (RCU)"),
    ("nf_tables_commit", "changes nf_tables, or waits for RCU in it"),
    ("nf_tables_valid_genid", "waits for the lock of nf_tables"),
    ("nf_tables_getrule", "reads nf_tables"),
    ("nfnetlink_rcv", "changes nf_tables, or waits for its lock"),
    ("rtnl_", RTNL),
    ("rtnetlink_rcv_msg", RTNL),
    ("devinet_", RTNL),
    ("netlink_dump", "reads a listing"),
    ("synchronize_", "waits for RCU elsewhere"),
    ("rcu_barrier", "waits for RCU elsewhere"),
    ("pipe_read", CHILD),
    ("poll_schedule", CHILD),
    ("anon_pipe_read", CHILD),
];

const OUR_LOCK: &str = "waits for a lock of ours";
const CHILD: &str = "waits for another process";
const RTNL: &str = "changes links, or waits for the lock of rtnetlink";
const RUNS: &str = "runs, or waits for a processor";
const REST: &str = "is at something else";

impl Waits {
    /// Looks at all processes that work starts.
    pub fn during<T>(work: impl FnOnce() -> T) -> Self {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut waits = Self::default();
                while !done.load(Ordering::Relaxed) {
                    waits.look();
                    thread::sleep(PAUSE);
                }
                waits
            });
            work();
            done.store(true, Ordering::Relaxed);
            watch.join().expect("the watch sees")
        })
    }

    fn look(&mut self) {
        self.locks.look();
        for process in descendants() {
            if let Some(place) = place(&process) {
                *self.seen.entry(place).or_default() += 1;
            }
        }
    }
}

/// What a process is at; `None` for one that has ended.
fn place(process: &Path) -> Option<&'static str> {
    let status = fs::read_to_string(process.join("stat")).ok()?;
    let stack = fs::read_to_string(process.join("stack")).ok()?;
    match status.rsplit_once(") ")?.1.chars().next()? {
        'R' => Some(RUNS),
        'Z' | 'X' => None,
        _ if stack.is_empty() => Some(RUNS),
        _ => {
            let found = PLACES.iter().find(|(function, _)| stack.contains(function));
            Some(found.map_or(REST, |(_, place)| place))
        }
    }
}

/// All processes below this one.
fn descendants() -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![Path::new("/proc/self").to_owned()];
    while let Some(process) = left.pop() {
        let Ok(tasks) = fs::read_dir(process.join("task")) else { continue };
        for task in tasks.flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().map(|number| Path::new("/proc").join(number));
            left.extend(children.clone());
            found.extend(children);
        }
    }
    found
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.seen.values().sum::<usize>().max(1);
        let mut seen: Vec<_> = self.seen.iter().collect();
        seen.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
        for (place, number) in seen {
            writeln!(f, "  {:>5.1} % of the processes: {place}", 100.0 * *number as f64 / all as f64)?;
        }
        self.locks.print(f)
    }
}
