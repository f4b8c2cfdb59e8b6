//! A container of the machine in memory.

/// A container's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FakeContainer {
    /// It can be entered; the kernel identifies it so, if it can.
    Present(Option<String>),
    /// It does not exist, or no longer.
    Gone,
    /// The namespace lives without a process, and its path leads nowhere.
    Unnamed,
    /// It exists, and cannot be entered.
    Closed,
}
