//! What a plugin contributes to an attachment.

/// What a plugin contributes to an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// The interface, and perhaps rules: its DEL is the last of the attachment.
    Interface,
    /// Rules for an interface that another plugin has made.
    Rules,
    /// Properties of an interface that another plugin has made, or what is inside the container.
    Properties,
    /// Neither.
    Nothing,
}
