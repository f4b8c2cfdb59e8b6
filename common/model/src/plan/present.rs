//! What a step does if its object already exists.

/// What a step does if its object exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfPresent {
    /// Success: it is shared, and another ADD may have made it a moment ago.
    Accept,
    /// A failure.
    Refuse,
}
