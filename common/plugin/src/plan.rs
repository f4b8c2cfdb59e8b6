//! What a plugin wants done, as data: steps, in order, each with its class of sharing.
//!
//! Plans are made without touching anything and read like the commands an administrator would type. The
//! effect layer carries a [`Step`] out; the [`Journal`](crate::journal::Journal) takes owned steps back.

use std::fmt;

mod address;
mod display;
mod link;
mod route;
mod step;
mod sysctl;

pub use address::Dad;
pub use link::{BridgePort, LinkKind, LinkSetting, NewLink, VethPeer};
pub use route::{NewRoute, RouteNumberError};
pub use step::{Step, Until};
pub use sysctl::{Need, Sysctl};

/// One of the two network namespaces that a plugin works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ns {
    /// The namespace that the plugin was started in.
    Host,
    /// The namespace of the container, `CNI_NETNS`.
    Container,
}

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Container => "container",
        })
    }
}

/// What an object that is there already means to the step that would make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfPresent {
    /// Success: it is shared, and another ADD may have made it a moment ago.
    Accept,
    /// A failure.
    Refuse,
}

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

/// Steps in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    steps: Vec<(Sharing, Step)>,
}

impl Plan {
    /// Appends a step that is the attachment's alone.
    pub fn owned(&mut self, step: Step) {
        self.steps.push((Sharing::Owned, step));
    }

    /// Appends a step inside an owned object.
    pub fn within(&mut self, step: Step) {
        self.steps.push((Sharing::Within, step));
    }

    /// Appends a step on something that others use as well.
    pub fn shared(&mut self, step: Step) {
        self.steps.push((Sharing::Shared, step));
    }

    /// The steps in order.
    pub fn steps(&self) -> &[(Sharing, Step)] {
        &self.steps
    }
}
