//! Exit status and error objects.

use super::{Breaker, Requirement, must_0_4, must_1_0, must_1_1, should_1_1};

pub const ALL: &[Requirement] = &[
    Requirement {
        id: "error-status",
        says: "an error is another exit status than 0",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Result"), must_1_0("2. CNI operations"), must_1_1("2. Errors")],
    },
    Requirement {
        id: "error-object",
        says: "an error is an object on standard output with a number `code` and a text `msg`",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Result"), must_1_0("2. CNI operations"), should_1_1("2. Errors")],
    },
    Requirement {
        id: "error-version",
        says: "an error object tells the cniVersion",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Result"), must_1_0("5. Error"), should_1_1("5. Error")],
    },
    Requirement {
        id: "error-codes",
        says: "codes below 100 mean what the SPEC says and nothing else",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Well-known Error Codes"), must_1_0("5. Error"), must_1_1("5. Error")],
    },
    Requirement {
        id: "code-2",
        says: "code 2 comes with the key and the value that are not supported",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Well-known Error Codes"), must_1_0("5. Error"), must_1_1("5. Error")],
    },
    Requirement {
        id: "code-3",
        says: "code 3 says that nothing of the container needs to be cleaned up",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Well-known Error Codes"), must_1_0("5. Error"), must_1_1("5. Error")],
    },
    Requirement {
        id: "code-4",
        says: "code 4 comes with the names of the variables that are wrong",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("Well-known Error Codes"), must_1_0("5. Error"), must_1_1("5. Error")],
    },
];
