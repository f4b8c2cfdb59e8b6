//! Tables of cases: if a change breaks ten rows, the test names all ten.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs every named case, and fails at the end if any of them panicked.
///
/// # Panics
/// With the names of all cases that failed; their own messages stand before, in the test's output.
#[track_caller]
pub fn for_each<N: Display, C>(cases: impl IntoIterator<Item = (N, C)>, run: impl Fn(C)) {
    let mut failed = Vec::new();
    let mut total = 0;
    for (name, case) in cases {
        total += 1;
        if catch_unwind(AssertUnwindSafe(|| run(case))).is_err() {
            eprintln!("^^^ in the case: {name}\n");
            failed.push(name.to_string());
        }
    }
    assert!(total > 0, "the table is empty");
    assert!(failed.is_empty(), "{} of {total} cases failed:\n{}", failed.len(), failed.join("\n"));
}

/// Requires that one of three attempts succeeds. On a busy machine something may be late once; a real wait shows in every attempt.
///
/// # Panics
/// With the failures of all three.
#[track_caller]
pub fn within_three_attempts(attempt: impl Fn() -> Result<(), String>) {
    let failures: Vec<String> = (0..3).map_while(|_| attempt().err()).collect();
    assert!(failures.len() < 3, "{failures:#?}");
}

#[cfg(test)]
mod tests {
    use super::for_each;

    #[test]
    fn all_cases_run_and_the_failed_ones_are_named() {
        let caught =
            std::panic::catch_unwind(|| for_each([("a", 1), ("b", 2), ("c", 3)], |case| assert!(case == 2, "not 2")));
        let text = caught.expect_err("two of them fail").downcast::<String>().expect("a text");
        assert_eq!(*text, "2 of 3 cases failed:\na\nc");
    }
}
