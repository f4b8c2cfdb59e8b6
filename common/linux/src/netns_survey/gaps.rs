//! What a survey could not see.

/// What could not be seen: the first thing, and how many more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    first: Option<String>,
    others: usize,
}

impl Gaps {
    /// Adds one.
    pub fn add(&mut self, gap: impl Into<String>) {
        match self.first {
            None => self.first = Some(gap.into()),
            Some(_) => self.others += 1,
        }
    }

    /// Adds those of another part of the survey.
    pub fn merge(&mut self, others: Self) {
        if let Some(first) = others.first {
            self.add(first);
            self.others += others.others;
        }
    }

    /// All of them in a sentence; `None` when everything was seen.
    pub fn text(&self) -> Option<String> {
        let first = self.first.as_ref()?;
        Some(if self.others == 0 { first.clone() } else { format!("{first}; and {} more", self.others) })
    }
}
