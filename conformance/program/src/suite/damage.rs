//! Removes what a plugin has made, besides its result.

use cni_catalog::{CommandSide, test_data};

use super::host::PrivateHost;

/// Takes away what the plugin under test has made for `ctr1`.
///
/// # Panics
/// When the plugin's row does not say how, or the command fails.
pub fn of(host: &PrivateHost) {
    let damage = test_data(&host.subject.plugin).damage.as_ref().expect("the case is for plugins that say how");
    let command = damage.command.replace("HOST_END", &host.guest.host_end());
    run(host, damage.side, &command);
}

/// Runs a command of a shell, and returns its output.
///
/// # Panics
/// When it fails.
pub fn run(host: &PrivateHost, side: CommandSide, command: &str) -> String {
    let words = ["sh", "-ec", command];
    match side {
        CommandSide::Host => host.sandbox.host().must(&words),
        CommandSide::Container => host.guest.container.must(&words),
    }
}
