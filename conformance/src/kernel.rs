//! What the kernels of small virtual machines often lack.

use std::sync::OnceLock;
use std::thread;

use crate::sandbox::Sandbox;

/// Something that tests need of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Bridges that separate their ports by VLAN.
    BridgeVlans,
    /// Links of the kind `dummy`.
    DummyLinks,
}

impl Feature {
    /// Tells whether the running kernel has it.
    pub fn is_here(self) -> bool {
        static ANSWERS: [OnceLock<bool>; 2] = [OnceLock::new(), OnceLock::new()];
        // A thread of its own, since the caller may have a sandbox of its own.
        let ask = move || Sandbox::new().exec(&self.proof()).code == Some(0);
        *ANSWERS[self as usize].get_or_init(|| thread::spawn(ask).join().expect("ask the kernel"))
    }

    /// A command that succeeds just on a kernel that has it.
    fn proof(self) -> Vec<&'static str> {
        let link = match self {
            Self::BridgeVlans => "bridge vlan_filtering 1",
            Self::DummyLinks => "dummy",
        };
        "ip link add proof type".split(' ').chain(link.split(' ')).collect()
    }
}
