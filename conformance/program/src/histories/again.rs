//! Tells whether a difference is repeatable, by running the same history again. A difference that depends on timing is
//! not, or not always.

use super::difference::{Comparison, Difference};
use super::history::History;
use super::kind::DifferenceKind;

/// The outcome of further runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recurrence {
    /// The second shows a difference of the same kind.
    AtOnce(Difference),
    /// The second shows another one, or just the third shows one.
    Otherwise(Difference),
    /// Neither the second nor the third shows any.
    Never,
}

/// Lives through a history that has shown a difference once more, and twice if that shows none.
pub fn recurrence(history: &History, first: &Difference, live: &mut dyn FnMut(&History) -> Comparison) -> Recurrence {
    if let Comparison::Different(second) = live(history) {
        let same = DifferenceKind::of(history, first) == DifferenceKind::of(history, &second);
        return if same { Recurrence::AtOnce(second) } else { Recurrence::Otherwise(second) };
    }
    match live(history) {
        Comparison::Different(third) => Recurrence::Otherwise(third),
        Comparison::Same | Comparison::Ended { .. } => Recurrence::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::{Recurrence, recurrence};
    use crate::histories::{Comparison, Difference, History};

    fn difference(change: &str) -> Difference {
        Difference { step: 0, changes: vec![change.to_owned()] }
    }

    /// The conclusion from a first difference and these results of further runs; all runs must be made.
    #[track_caller]
    fn after(lives: &[Comparison]) -> Recurrence {
        let history = serde_json::json!({"iptables": "nft", "networks": {}, "containers": {}, "steps": ["ADD c0"]});
        let history: History = serde_json::from_value(history).expect("a history");
        let mut left = lives.iter();
        let mut live = |lived: &History| {
            assert_eq!(*lived, history, "the very same history");
            left.next().expect("no more lives than these").clone()
        };
        let found = recurrence(&history, &difference("+ files: a"), &mut live);
        assert_eq!(left.len(), 0, "lives that were not lived");
        found
    }

    #[test]
    fn one_that_comes_again_is_lived_twice() {
        let again = difference("+ files: b");
        assert_eq!(after(&[Comparison::Different(again.clone())]), Recurrence::AtOnce(again));
    }

    #[test]
    fn another_one_is_distinguished_from_the_first() {
        let another = difference("+ c0 routes: a");
        assert_eq!(after(&[Comparison::Different(another.clone())]), Recurrence::Otherwise(another));
    }

    #[test]
    fn one_that_does_not_come_again_is_lived_three_times() {
        let third = difference("+ files: b");
        assert_eq!(after(&[Comparison::Same, Comparison::Different(third.clone())]), Recurrence::Otherwise(third));
        assert_eq!(after(&[Comparison::Same, Comparison::Same]), Recurrence::Never);
        assert_eq!(after(&[Comparison::Ended { step: 0 }, Comparison::Same]), Recurrence::Never);
    }
}
