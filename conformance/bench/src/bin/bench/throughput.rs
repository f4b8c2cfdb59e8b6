//! Measures many containers at a time.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cni_conformance::{Attachment, Nomad, Runtime, Sandbox};

use crate::ComparedFolders;
use crate::chain::newcomer;
use crate::table::ratio;

/// What a side took for all containers, and how many of them failed.
struct ThroughputTimes {
    add: Duration,
    del: Duration,
    failed: usize,
}

/// Compares both sides: so many workers, so many containers.
pub fn compare(sides: &ComparedFolders, (workers, containers): (usize, usize)) {
    println!("\n{containers} containers, {workers} at a time: containers a second");
    println!("{:<22} {:>10} {:>11} {:>7}", "", "ours", "reference", "ratio");
    let [ours, reference] = [&sides.ours, &sides.reference].map(|folder| {
        let folder = folder.clone();
        thread::spawn(move || work(&folder, workers, containers)).join().expect("a side")
    });
    let rate = |time: Duration| containers as f64 / time.as_secs_f64();
    for (operation, ours, reference) in [("ADD", ours.add, reference.add), ("DEL", ours.del, reference.del)] {
        println!("{operation:<22} {:>10.0} {:>11.0} {:>7.1}", rate(ours), rate(reference), ratio(ours, reference));
    }
    println!("{:<22} {:>10} {:>11}", "failed", ours.failed, reference.failed);
}

fn work(folder: &Path, workers: usize, containers: usize) -> ThroughputTimes {
    let sandbox = Sandbox::new();
    let nomad = Nomad::default();
    nomad.ensure_forwarding_rules(&sandbox);
    let list = nomad.conflist();
    let made: Vec<_> = (0..containers).map(|number| newcomer(&sandbox, number)).collect();
    let mut attachments: Vec<Attachment> = made.iter().map(|(_, attachment)| attachment.clone()).collect();
    let failed = AtomicUsize::new(0);
    let runtime = Runtime::new(&sandbox, list).binaries(folder);
    let note = |succeeded: bool| {
        if !succeeded {
            failed.fetch_add(1, Ordering::Relaxed);
        }
    };
    let started = Instant::now();
    each(workers, &mut attachments, |attachment| note(runtime.add(attachment).succeeded()));
    let add = started.elapsed();
    let started = Instant::now();
    each(workers, &mut attachments, |attachment| note(runtime.del(attachment).succeeded()));
    ThroughputTimes { add, del: started.elapsed(), failed: failed.into_inner() }
}

/// Does work for each item, by so many threads.
fn each<T: Send>(workers: usize, items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let share = items.len().div_ceil(workers).max(1);
    thread::scope(|scope| {
        for items in items.chunks_mut(share) {
            scope.spawn(|| items.iter_mut().for_each(&work));
        }
    });
}
