//! Who owns the object of a step.

/// The owner of a step's object, which decides what happens to it if a later step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The attachment: the step is undone.
    Owned,
    /// Part of an owned object, and removed with it.
    Within,
    /// Everybody's: ensured, never undone. SPEC "Lifecycle & Ordering" lets runtimes add different
    /// containers to a network in parallel.
    Shared,
}
