//! Requirements that no plugin can break: they are about runtimes and authors of configurations.

use super::{Breaker, Requirement, must_0_4, must_1_0, must_1_1, should_0_4, should_1_0, should_1_1};

const fn of_runtimes(id: &'static str, says: &'static str, passages: &'static [super::Passage]) -> Requirement {
    Requirement { id, says, breaker: Breaker::Runtime, passages }
}

pub const ALL: &[Requirement] = &[
    of_runtimes(
        "runtime-namespace-first",
        "the container's namespace is made before any plugin is called",
        &[must_0_4("General considerations"), must_1_0("3. Lifecycle & Ordering"), must_1_1("3. Lifecycle & Ordering")],
    ),
    of_runtimes(
        "runtime-one-at-a-time",
        "operations for one container do not overlap",
        &[must_0_4("General considerations"), must_1_0("3. Lifecycle & Ordering"), must_1_1("3. Lifecycle & Ordering")],
    ),
    of_runtimes(
        "runtime-del-follows-add",
        "every ADD is followed by a DEL in the end, also one that failed",
        &[must_0_4("General considerations"), must_1_0("3. Lifecycle & Ordering"), must_1_1("3. Lifecycle & Ordering")],
    ),
    of_runtimes(
        "runtime-no-add-twice",
        "ADD does not come twice for one attachment without DEL between",
        &[must_0_4("General considerations"), should_1_0("2. ADD"), should_1_1("2. ADD")],
    ),
    of_runtimes(
        "runtime-prev-result",
        "prevResult is handed to later plugins on ADD, and to all on CHECK and DEL",
        &[
            must_0_4("Network Configuration Lists"),
            must_1_0("3. Deriving execution configuration from plugin configuration"),
            must_1_1("3. Deriving request configuration from plugin configuration"),
        ],
    ),
    of_runtimes(
        "runtime-del-backwards",
        "DEL goes through the list from its end",
        &[
            must_0_4("Network Configuration Lists"),
            must_1_0("3. Deleting an attachment"),
            must_1_1("3. Deleting an attachment"),
        ],
    ),
    of_runtimes(
        "runtime-stores-result",
        "the final result is kept for CHECK and DEL",
        &[should_0_4("Parameters"), must_1_0("3. Adding an attachment"), must_1_1("3. Adding an attachment")],
    ),
    of_runtimes(
        "runtime-same-environment",
        "each plugin of a list gets the same environment",
        &[must_0_4("Network Configuration Lists")],
    ),
    of_runtimes(
        "runtime-name-and-version",
        "name and cniVersion of each plugin are those of the list",
        &[
            must_0_4("Network Configuration Lists"),
            must_1_0("3. Deriving execution configuration from plugin configuration"),
            must_1_1("3. Deriving request configuration from plugin configuration"),
        ],
    ),
    of_runtimes(
        "runtime-capabilities",
        "runtimeConfig holds what the plugin's capabilities name, and capabilities are taken out",
        &[
            must_0_4("Network Configuration Lists"),
            must_1_0("3. Deriving runtimeConfig"),
            must_1_1("3. Deriving runtimeConfig"),
        ],
    ),
    of_runtimes(
        "runtime-check-only-added",
        "CHECK is for containers that were added and not deleted since, and not under disableCheck",
        &[must_0_4("Parameters"), must_1_0("2. CHECK"), must_1_1("2. CHECK")],
    ),
    of_runtimes(
        "runtime-stops-at-error",
        "a list ends at the first plugin that fails",
        &[
            must_0_4("Network Configuration List Error Handling"),
            must_1_0("3. Adding an attachment"),
            must_1_1("3. Adding an attachment"),
        ],
    ),
    of_runtimes(
        "runtime-same-parameters",
        "DEL and CHECK have the parameters of ADD",
        &[should_0_4("Parameters"), must_1_0("2. CHECK"), must_1_1("2. CHECK")],
    ),
    of_runtimes(
        "runtime-highest-version",
        "of the versions of a configuration the highest that is known is taken",
        &[must_1_1("1. Version considerations")],
    ),
    of_runtimes(
        "runtime-gc-alone",
        "GC does not run beside ADD or DEL, nor in place of DEL, nor under disableGC",
        &[must_1_1("3. Lifecycle & Ordering")],
    ),
    of_runtimes("runtime-gc-list", "GC comes with the list of valid attachments", &[must_1_1("2. GC")]),
    of_runtimes(
        "runtime-unknown-keys",
        "keys that the runtime does not know reach the plugin unchanged",
        &[must_1_0("1. Plugin configuration objects"), must_1_1("1. Plugin configuration objects")],
    ),
    of_runtimes(
        "runtime-own-namespace",
        "plugins are called in the runtime's own network namespace",
        &[must_1_0("2. Overview"), must_1_1("2. Overview")],
    ),
    of_runtimes(
        "runtime-inlined-plugins",
        "plugins of other sources are added to the list as loadOnlyInlinedPlugins says",
        &[must_1_1("1. Configuration format")],
    ),
];
