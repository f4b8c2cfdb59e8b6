//! One side of a comparison, in its own thread and sandbox.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Works one turn for each request.
pub struct BenchSide<T> {
    request: Sender<()>,
    answer: Receiver<T>,
}

impl<T: Send + 'static> BenchSide<T> {
    /// Starts a side. `work` reports each turn, and ends when there is no next one.
    pub fn start(work: impl FnOnce(&dyn Fn() -> Option<()>, &dyn Fn(T)) + Send + 'static) -> Self {
        let (request, requests) = channel();
        let (answers, answer) = channel();
        thread::spawn(move || {
            let next = || requests.recv().ok();
            let tell = |reported| answers.send(reported).expect("the comparison waits for an answer");
            work(&next, &tell);
        });
        Self { request, answer }
    }

    /// Waits for one turn.
    pub fn turn(&self) -> T {
        self.request.send(()).expect("the side is at work");
        self.answer.recv().expect("the side answers")
    }
}

/// Lets all sides work in turns. The first turn makes what containers share; it is not counted.
pub fn in_turns<T: Send + 'static, const SIDES: usize>(rounds: usize, sides: [BenchSide<T>; SIDES]) -> [Vec<T>; SIDES] {
    let mut reported = [const { Vec::new() }; SIDES];
    sides.iter().for_each(|side| drop(side.turn()));
    for _ in 0..rounds {
        for (side, reported) in sides.iter().zip(&mut reported) {
            reported.push(side.turn());
        }
    }
    reported
}
