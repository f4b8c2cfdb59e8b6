//! What a step does about an object that exists already.

/// What an object that exists already means to the step that would make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfPresent {
    /// Success: it is shared, and another ADD may have made it a moment ago.
    Accept,
    /// A failure.
    Refuse,
}
