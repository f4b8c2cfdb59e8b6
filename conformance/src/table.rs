//! Tables whose cells a test computes, and prints as a whole.
//!
//! Each row names a cell and its value. If a cell fails, its error is printed and the others are computed all the
//! same, so one run shows the whole table. It is printed to standard error, which the test runner shows if a cell has
//! failed, or with `--nocapture`.

use std::any::Any;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, LazyLock, Mutex};
use std::thread;

/// Three times as many cells are computed at once as there are processors, since most of them wait. The tables of all tests of a program
/// share these slots: with more, a busy machine took longer for a step than the plugins allow.
static SLOTS: LazyLock<Slots> = LazyLock::new(|| {
    let most = 3 * thread::available_parallelism().map_or(1, usize::from);
    Slots { most, free: Mutex::new(most), freed: Condvar::new() }
});

struct Slots {
    most: usize,
    free: Mutex<usize>,
    freed: Condvar,
}

/// A slot, which is free again when this is dropped.
struct Slot<'a>(&'a Slots);

impl Slots {
    /// Waits for a free slot.
    fn take(&self) -> Slot<'_> {
        let free = self.free.lock().expect("nobody panics with it");
        *self.freed.wait_while(free, |free| *free == 0).expect("nobody panics with it") -= 1;
        Slot(self)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().expect("nobody panics with it") += 1;
        self.0.freed.notify_one();
    }
}

/// The value of a cell, or its error.
type CellResult = Result<String, String>;

/// Computes all cells, several at once, and prints the table.
///
/// The words of `head` name the columns that identify the cell.
///
/// # Panics If there are no cells, or any of them panicked.
#[track_caller]
pub fn work_out<const N: usize, C: Send>(
    head: [&str; N],
    cells: Vec<([String; N], C)>,
    work: impl Fn(C) -> String + Sync,
) {
    let (names, cells): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
    assert!(!cells.is_empty(), "the table is empty");
    let seen = each(cells, work);
    let printed = render(head, &names, &seen);
    let failed = seen.iter().filter(|seen| seen.is_err()).count();
    assert!(failed == 0, "{failed} of {} cells failed:\n{printed}", seen.len());
    eprintln!("{printed}");
}

fn each<C: Send>(cells: Vec<C>, work: impl Fn(C) -> String + Sync) -> Vec<CellResult> {
    let seen: Vec<Mutex<CellResult>> =
        cells.iter().map(|_| Mutex::new(Err("it was not worked out".to_owned()))).collect();
    let queue = Mutex::new(cells.into_iter().enumerate());
    let next = || queue.lock().expect("no worker panics with the queue").next();
    let worker = || {
        while let Some((index, cell)) = next() {
            let _slot = SLOTS.take();
            let outcome = catch_unwind(AssertUnwindSafe(|| work(cell))).map_err(|cause| text_of(&*cause));
            *seen[index].lock().expect("no worker panics with a cell") = outcome;
        }
    };
    thread::scope(|scope| {
        for _ in 0..SLOTS.most {
            scope.spawn(worker);
        }
    });
    seen.into_iter().map(|seen| seen.into_inner().expect("no worker panics with a cell")).collect()
}

fn text_of(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

fn render<const N: usize>(head: [&str; N], names: &[[String; N]], seen: &[CellResult]) -> String {
    let mut text = format!("{} | seen\n", head.join(" | "));
    for (names, seen) in names.iter().zip(seen) {
        let failed = |cause: &String| format!("FAILED: {}", cause.lines().next().unwrap_or_default());
        let about = seen.as_ref().map_or_else(failed, String::clone);
        writeln!(text, "{} | {about}", names.join(" | ")).expect("a string takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::work_out;

    #[test]
    fn every_cell_is_worked_out_and_the_failed_ones_say_why() {
        let work = |number| {
            assert!(number != 2, "two is bad\nand more of it");
            format!("saw {number}")
        };
        let cells = [1, 2, 3].map(|number| (["row".to_owned(), number.to_string()], number)).to_vec();
        let caught = std::panic::catch_unwind(|| work_out(["what", "n"], cells, work));
        let text = caught.expect_err("one of them fails").downcast::<String>().expect("a text");
        let table = "what | n | seen\nrow | 1 | saw 1\nrow | 2 | FAILED: two is bad\nrow | 3 | saw 3\n";
        assert_eq!(*text, format!("1 of 3 cells failed:\n{table}"));
    }
}
