//! CHECK.

use super::{Breaker, Requirement, must_0_4, must_1_0, must_1_1, should_0_4, should_1_0, should_1_1};

pub const ALL: &[Requirement] = &[
    Requirement {
        id: "check-silent",
        says: "CHECK prints nothing, or an error",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters")],
    },
    Requirement {
        id: "check-at-once",
        says: "CHECK passes right after ADD",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters"), must_1_0("2. CHECK"), must_1_1("2. CHECK")],
    },
    Requirement {
        id: "check-prev-result",
        says: "CHECK looks into prevResult for what it expects",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters"), must_1_0("2. CHECK"), must_1_1("2. CHECK")],
    },
    Requirement {
        id: "check-later-plugins",
        says: "CHECK allows for what a later plugin of the list has changed, such as routes",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters"), must_1_0("2. CHECK"), must_1_1("2. CHECK")],
    },
    Requirement {
        id: "check-result",
        says: "CHECK fails when an interface, address or route of the result is missing or spoilt",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Parameters"), should_1_0("2. CHECK"), should_1_1("2. CHECK")],
    },
    Requirement {
        id: "check-other",
        says: "CHECK fails when something outside of the result is missing: rules, limits, reservations",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Parameters"), should_1_0("2. CHECK"), should_1_1("2. CHECK")],
    },
    Requirement {
        id: "check-unreachable",
        says: "CHECK fails when the plugin knows that the container cannot be reached",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Parameters"), should_1_0("2. CHECK"), should_1_1("2. CHECK")],
    },
];
