//! Other programs under a plugin's name, such as `dhcp daemon`: an argument selects them. Runtimes pass no arguments.

use std::process::ExitCode;

use cni_kernel::tun;

/// Does what the words behind a plugin's name ask for; `None` where they ask for nothing but the plugin.
pub fn of(name: &str, words: &[String]) -> Option<ExitCode> {
    let (first, rest) = words.split_first()?;
    match (name, first.as_str()) {
        ("dhcp", "daemon") => Some(cni_dhcp_daemon::run(rest)),
        tun::LABELLED => Some(ExitCode::from(tun::claim_standard_input(rest))),
        _ => None,
    }
}
