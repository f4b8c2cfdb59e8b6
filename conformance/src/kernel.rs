//! What the kernels of small virtual machines often lack.

use std::sync::OnceLock;
use std::thread;

use crate::sandbox::Sandbox;

/// How many features there are.
const FEATURES: usize = 3;

/// Something that tests need of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Bridges that separate their ports by VLAN.
    BridgeVlans,
    /// Links of the kind `dummy`.
    DummyLinks,
    /// Links of the kind `macvlan`.
    MacvlanLinks,
}

impl Feature {
    /// Tells whether the running kernel has it.
    pub fn is_here(self) -> bool {
        static ANSWERS: [OnceLock<bool>; FEATURES] = [const { OnceLock::new() }; FEATURES];
        // A thread of its own, since the caller may have a sandbox of its own.
        let ask = move || Sandbox::new().exec(&["sh", "-ec", &self.proof()]).code == Some(0);
        *ANSWERS[self as usize].get_or_init(|| thread::spawn(ask).join().expect("ask the kernel"))
    }

    /// Lines of shell that succeed just on a kernel that has it.
    fn proof(self) -> String {
        let link = match self {
            Self::BridgeVlans => "bridge vlan_filtering 1",
            Self::DummyLinks => "dummy",
            Self::MacvlanLinks => "macvlan",
        };
        format!("ip link add master0 type bridge; ip link add link master0 name proof type {link}")
    }
}
