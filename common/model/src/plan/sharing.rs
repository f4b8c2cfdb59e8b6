//! Who owns the object of a step.

/// To whom the object of a step belongs, which decides what happens to it when a later step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The attachment's alone: undone.
    Owned,
    /// Part of an owned object, with which it goes.
    Within,
    /// Everybody's: ensured, never undone. SPEC "Lifecycle & Ordering" lets runtimes add different
    /// containers to a network in parallel.
    Shared,
}
