//! STATUS and GC, which are about a network, not a container.

use super::{Breaker, Requirement, must_1_1, should_1_1};

pub const ALL: &[Requirement] = &[
    Requirement {
        id: "status-ready",
        says: "STATUS succeeds when the plugin can serve ADD",
        breaker: Breaker::Plugin,
        passages: &[must_1_1("2. STATUS")],
    },
    Requirement {
        id: "status-not-ready",
        says: "STATUS fails, with an error object, when the plugin knows that it cannot serve ADD",
        breaker: Breaker::Plugin,
        passages: &[must_1_1("2. STATUS")],
    },
    Requirement {
        id: "status-exhausted",
        says: "STATUS fails when addresses have run out, or a service that the plugin needs is not there",
        breaker: Breaker::Plugin,
        passages: &[should_1_1("2. STATUS")],
    },
    Requirement {
        id: "status-informs",
        says: "other operations work without STATUS before, and after a STATUS that failed",
        breaker: Breaker::Plugin,
        passages: &[must_1_1("2. STATUS")],
    },
    Requirement {
        id: "gc-stale",
        says: "GC takes away what belongs to attachments that are not in the list",
        breaker: Breaker::Plugin,
        passages: &[should_1_1("2. GC")],
    },
    Requirement {
        id: "gc-valid",
        says: "GC leaves alone what belongs to attachments in the list",
        breaker: Breaker::Plugin,
        passages: &[must_1_1("2. GC")],
    },
    Requirement {
        id: "gc-silent",
        says: "GC prints nothing when it succeeds",
        breaker: Breaker::Plugin,
        passages: &[must_1_1("2. GC")],
    },
    Requirement {
        id: "gc-goes-on",
        says: "GC goes on after an error, removes what it can, and tells the error",
        breaker: Breaker::Plugin,
        passages: &[should_1_1("2. GC")],
    },
];
