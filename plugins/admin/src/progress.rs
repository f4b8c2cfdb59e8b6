//! How far a verb has come, on a terminal, where it lasts longer than a second.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::time::{Duration, Instant};

/// How long nothing is shown: most calls end sooner.
const SILENCE: Duration = Duration::from_secs(1);

/// A line on standard error that is replaced as the work goes on, and removed at its end.
pub struct Progress {
    total: usize,
    started: Instant,
    is_terminal: bool,
    is_shown: bool,
}

impl Progress {
    /// Begins the work on so many things.
    pub fn new(total: usize) -> Self {
        Self { total, started: Instant::now(), is_terminal: stderr().is_terminal(), is_shown: false }
    }

    /// Shows that so many are done.
    pub fn show(&mut self, done: usize) {
        if self.is_terminal && is_due(self.started.elapsed()) {
            self.is_shown = true;
            write(&line(done, self.total));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            write(ERASE);
        }
    }
}

/// Moves to the beginning of the line and erases it (`console_codes(4)`).
const ERASE: &str = "\r\x1b[K";

fn is_due(elapsed: Duration) -> bool {
    elapsed >= SILENCE
}

/// A terminal that is gone needs no progress.
fn write(text: &str) {
    let _lost = stderr().write_all(text.as_bytes());
}

fn line(done: usize, total: usize) -> String {
    format!("{ERASE}{done} of {total}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_work_shows_nothing() {
        assert!(!is_due(Duration::from_millis(999)));
        assert!(is_due(Duration::from_secs(1)));
    }
}
