//! VERSION, and the version of each configuration.

use super::{Breaker, Requirement, must_0_4, must_1_0, must_1_1, should_0_4, should_1_0, should_1_1};

pub const ALL: &[Requirement] = &[
    Requirement {
        id: "version-answer",
        says: "VERSION prints an object with the list `supportedVersions`",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters"), must_1_0("5. Version"), must_1_1("5. VERSION Success")],
    },
    // 1.0.0 says so too, but also that nothing comes on standard input.
    Requirement {
        id: "version-echo",
        says: "the answer to VERSION has the cniVersion of the question",
        breaker: Breaker::Plugin,
        passages: &[must_1_1("5. VERSION Success")],
    },
    Requirement {
        id: "version-without-parameters",
        says: "VERSION needs no variable but CNI_COMMAND",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Parameters"), should_1_0("2. VERSION"), should_1_1("2. VERSION")],
    },
    Requirement {
        id: "version-unsupported",
        says: "a configuration of a version that the plugin does not know is refused with code 1",
        breaker: Breaker::Plugin,
        passages: &[should_0_4("Result"), must_1_0("5. Error"), must_1_1("5. Error")],
    },
];
