//! The duties of plugins towards the plugins that they call, and of IPAM plugins.

use super::{Breaker, Requirement, must_0_4, must_1_0, must_1_1, should_0_4, should_1_0, should_1_1};

pub const ALL: &[Requirement] = &[
    Requirement {
        id: "delegate-path",
        says: "a delegated plugin is looked for in every folder of CNI_PATH",
        breaker: Breaker::Plugin,
        passages: &[
            must_0_4("IP Address Management (IPAM) Interface"),
            should_1_0("4. Delegated plugin execution procedure"),
            should_1_1("4. Delegated plugin execution procedure"),
        ],
    },
    Requirement {
        id: "delegate-environment",
        says: "a delegated plugin gets the variables that the plugin got",
        breaker: Breaker::Plugin,
        passages: &[
            must_0_4("IP Address Management (IPAM) Interface"),
            must_1_0("4. Delegated Plugin protocol"),
            must_1_1("4. Delegated Plugin protocol"),
        ],
    },
    Requirement {
        id: "delegate-configuration",
        says: "a delegated plugin gets the whole configuration",
        breaker: Breaker::Plugin,
        passages: &[
            must_0_4("IP Address Management (IPAM) Interface"),
            should_1_0("4. Delegated plugin execution procedure"),
            should_1_1("4. Delegated plugin execution procedure"),
        ],
    },
    Requirement {
        id: "delegate-stderr",
        says: "what a delegated plugin prints on standard error goes to that of the plugin",
        breaker: Breaker::Plugin,
        passages: &[
            should_1_0("4. Delegated plugin execution procedure"),
            should_1_1("4. Delegated plugin execution procedure"),
        ],
    },
    Requirement {
        id: "delegate-check",
        says: "CHECK asks the delegated plugin, and hands its error on",
        breaker: Breaker::Plugin,
        passages: &[
            should_0_4("Parameters"),
            must_1_0("4. Delegated plugin execution procedure"),
            must_1_1("4. Delegated plugin execution procedure"),
        ],
    },
    Requirement {
        id: "delegate-del",
        says: "DEL calls the delegated plugin, and hands its error on",
        breaker: Breaker::Plugin,
        passages: &[
            should_0_4("Parameters"),
            must_1_0("4. Delegated plugin execution procedure"),
            must_1_1("4. Delegated plugin execution procedure"),
        ],
    },
    Requirement {
        id: "delegate-gc",
        says: "GC calls the delegated plugin, and hands its error on",
        breaker: Breaker::Plugin,
        passages: &[must_1_1("2. GC")],
    },
    Requirement {
        id: "delegate-status",
        says: "STATUS asks the delegated plugin, and hands its error on",
        breaker: Breaker::Plugin,
        passages: &[must_1_1("2. STATUS")],
    },
    Requirement {
        id: "delegate-rollback",
        says: "when the delegated plugin fails ADD, it is called with DEL before the plugin fails",
        breaker: Breaker::Plugin,
        passages: &[
            should_1_0("4. Delegated plugin execution procedure"),
            should_1_1("4. Delegated plugin execution procedure"),
        ],
    },
    Requirement {
        id: "ipam-result",
        says: "an IPAM plugin determines addresses, gateway and routes",
        breaker: Breaker::Plugin,
        passages: &[must_0_4("IP Allocation"), must_1_0("4. Plugin Delegation"), must_1_1("4. Plugin Delegation")],
    },
    Requirement {
        id: "ipam-abbreviated",
        says: "the result of an IPAM plugin has no interfaces, and its addresses point to none",
        breaker: Breaker::Plugin,
        passages: &[
            should_0_4("IP Address Management (IPAM) Interface"),
            must_1_0("5. Delegated plugins (IPAM)"),
            must_1_1("5. Delegated plugins (IPAM)"),
        ],
    },
];
