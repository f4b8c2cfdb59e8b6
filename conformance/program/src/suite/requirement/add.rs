//! ADD.

use super::{Breaker, Requirement, must_0_4, must_1_0, must_1_1, should_0_4, should_1_0, should_1_1};

pub const ALL: &[Requirement] = &[
    Requirement {
        id: "add-interface",
        says: "ADD makes, or adjusts, the interface CNI_IFNAME of the container",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Overview"), should_1_0("2. ADD"), should_1_1("2. ADD")],
    },
    Requirement {
        id: "add-ifname",
        says: "the interface in the container has the name in CNI_IFNAME",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Result"), must_1_0("2. ADD"), must_1_1("2. ADD")],
    },
    Requirement {
        id: "add-occupied",
        says: "ADD fails when the container has an interface of that name already",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters"), must_1_0("2. ADD"), must_1_1("2. ADD")],
    },
    Requirement {
        id: "add-result",
        says: "ADD that succeeds prints a result",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Result"), must_1_0("2. ADD"), must_1_1("2. ADD")],
    },
    Requirement {
        id: "add-addresses",
        says: "addresses and routes of the IPAM plugin are there in the container",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Overview"), should_1_0("2. Overview"), should_1_1("2. Overview")],
    },
    Requirement {
        id: "add-prev-result",
        says: "a prevResult is passed on, or changed on purpose, and never unknown",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Network Configuration Lists"), must_1_0("5. Success"), must_1_1("2. ADD")],
    },
    Requirement {
        id: "add-echo",
        says: "a plugin that changes nothing of the result prints the prevResult that it was given",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Network Configuration Lists"), must_1_0("5. Success"), must_1_1("5. ADD Success")],
    },
    Requirement {
        id: "concurrent",
        says: "calls for different containers may come at once, and what they share is locked",
        breaker: Breaker::Plugin,
        passages: &[must_1_0("3. Lifecycle & Ordering"), must_1_1("3. Lifecycle & Ordering")],
    },
    Requirement {
        id: "well-known-keys",
        says: "`ipMasq`, `ipam` and `dns` have their common meaning wherever a plugin knows them",
        breaker: Breaker::Plugin,
        passages: &[
            should_0_4("Network Configuration"),
            should_1_0("1. Plugin configuration objects"),
            should_1_1("1. Plugin configuration objects"),
        ],
    },
];
