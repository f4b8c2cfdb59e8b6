//! The form of results.

use super::{Breaker, Requirement, must_0_4, must_1_0, must_1_1, should_0_4, should_1_0, should_1_1};

pub const ALL: &[Requirement] = &[
    Requirement {
        id: "result-version",
        says: "a result has the cniVersion of the configuration",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Result"), must_1_0("5. Success"), must_1_1("5. ADD Success")],
    },
    Requirement {
        id: "result-interfaces",
        says: "a result lists the interfaces that ADD made, by name",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Result"), must_1_0("5. Success"), must_1_1("5. ADD Success")],
    },
    Requirement {
        id: "result-mac",
        says: "an interface is listed with its hardware address",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Result"), must_1_0("5. Success"), must_1_1("5. ADD Success")],
    },
    Requirement {
        id: "result-mtu",
        says: "an MTU in the list of interfaces is that of the interface",
        breaker: Breaker::Plugin,
        passages: &[must_1_1("5. ADD Success")],
    },
    Requirement {
        id: "result-sandbox",
        says: "an interface in the container is listed with the path in CNI_NETNS, and one of the host with none",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Result"), should_1_0("5. Success"), should_1_1("5. ADD Success")],
    },
    Requirement {
        id: "result-ips",
        says: "an address of a result has its prefix length, and before 1.0.0 the version of IP",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("IPs"), must_1_0("5. Success"), must_1_1("5. ADD Success")],
    },
    Requirement {
        id: "result-ip-interface",
        says: "an address of a result points to the interface that has it",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Result"), must_1_0("5. Success"), must_1_1("5. ADD Success")],
    },
    Requirement {
        id: "result-of-ipam",
        says: "addresses, routes and dns of a result are those of the IPAM plugin",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Result"), should_1_0("4. Plugin Delegation"), should_1_1("4. Plugin Delegation")],
    },
    Requirement {
        id: "result-routes",
        says: "a route of a result has a destination with a prefix length, and a router of the same family",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Routes"), must_1_0("5. Success"), must_1_1("5. ADD Success")],
    },
];
