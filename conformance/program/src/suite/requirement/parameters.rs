//! Operations and the variables that come with them.

use super::{Breaker, Requirement, must_0_4, must_1_0, must_1_1, should_0_4};

pub const ALL: &[Requirement] = &[
    Requirement {
        id: "operations",
        says: "a plugin answers every operation of the version",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters"), must_1_0("2. CNI operations"), must_1_1("2. CNI operations")],
    },
    Requirement {
        id: "ifname-unusable",
        says: "a plugin that cannot use the name in CNI_IFNAME returns an error",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters"), must_1_0("2. Parameters"), must_1_1("2. Parameters")],
    },
    Requirement {
        id: "ifname-rules",
        says: "an interface name is not empty, not . or .., below 16 bytes, and has no slash, colon or blank",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters")],
    },
    Requirement {
        id: "container-id",
        says: "a container ID is not empty, begins with a letter or digit, and goes on with these, _, . and -",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters"), must_1_0("2. Parameters"), must_1_1("2. Parameters")],
    },
    Requirement {
        id: "required-variables",
        says: "ADD, DEL and CHECK cannot do without the variables that the SPEC calls required",
        breaker: Breaker::Plugin,
        passages: &[must_1_0("2. CNI operations"), must_1_1("2. CNI operations")],
    },
    Requirement {
        id: "args-ignored",
        says: "data in `args` that a plugin does not understand is passed over",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Network Configuration")],
    },
    Requirement {
        id: "network-name",
        says: "a network has a name: a letter or digit, then these, _, . and -",
        breaker: Breaker::Plugin,
        passages: &[
            must_0_4("Network Configuration"),
            must_1_0("1. Configuration format"),
            must_1_1("1. Configuration format"),
        ],
    },
    Requirement {
        id: "state-key",
        says: "state is kept by network, container and interface, so that attachments do not meet",
        breaker: Breaker::Plugin,
        passages: &[
            should_0_4("General considerations"),
            must_1_0("3. Execution of Network Configurations"),
            must_1_1("3. Execution of Network Configurations"),
        ],
    },
];
