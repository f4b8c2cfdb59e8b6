//! DEL.

use super::{Breaker, Requirement, must_1_0, must_1_1, should_0_4, should_1_0, should_1_1};

pub const ALL: &[Requirement] = &[
    Requirement {
        id: "del-undoes",
        says: "DEL takes away the interface, or undoes what ADD did, and releases all that the container holds",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Parameters"), should_1_0("2. DEL"), should_1_1("2. DEL")],
    },
    Requirement {
        id: "del-again",
        says: "DEL may come again, and succeeds with nothing left to do",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("General considerations"), must_1_0("2. DEL"), must_1_1("2. DEL")],
    },
    Requirement {
        id: "del-missing",
        says: "DEL succeeds although the namespace or the interface is gone, and cleans up the rest",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Parameters"), should_1_0("2. DEL"), should_1_1("2. DEL")],
    },
    Requirement {
        id: "del-without-netns",
        says: "DEL without CNI_NETNS cleans up what it can, and succeeds",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Parameters"), must_1_0("2. DEL"), must_1_1("2. DEL")],
    },
    Requirement {
        id: "del-without-result",
        says: "DEL without prevResult cleans up what it can, and succeeds",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Parameters"), should_1_0("2. DEL"), should_1_1("2. DEL")],
    },
    Requirement {
        id: "del-ipam-anyway",
        says: "addresses go back although the namespace is gone",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Parameters"), should_1_0("2. DEL"), should_1_1("2. DEL")],
    },
];
