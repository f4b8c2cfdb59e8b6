//! Features that kernels of small virtual machines often lack.

use std::fmt;
use std::sync::OnceLock;
use std::thread;

use crate::sandbox::Sandbox;

/// Something that tests need of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Bridges that separate their ports by VLAN.
    BridgeVlans,
    /// A network card that tests may move, `eth0` of the first namespace.
    Hardware,
    /// Links of the kind `dummy`.
    DummyLinks,
    /// Links of the kind `macvlan`.
    MacvlanLinks,
    /// Links of the kind `vlan`.
    VlanLinks,
    /// Links of the kind `ipvlan`.
    IpvlanLinks,
    /// Links of the kind `vrf`.
    VrfLinks,
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BridgeVlans => "bridges that separate VLANs",
            Self::Hardware => "a network card that tests may move",
            Self::DummyLinks => "links of the kind dummy",
            Self::MacvlanLinks => "links of the kind macvlan",
            Self::VlanLinks => "links of the kind vlan",
            Self::IpvlanLinks => "links of the kind ipvlan",
            Self::VrfLinks => "links of the kind vrf",
        })
    }
}

impl Feature {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::BridgeVlans,
        Self::Hardware,
        Self::DummyLinks,
        Self::MacvlanLinks,
        Self::VlanLinks,
        Self::IpvlanLinks,
        Self::VrfLinks,
    ];

    /// The feature that a kind of link is.
    pub fn of_link(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.to_string() == format!("links of the kind {kind}"))
    }

    /// Tells whether the running kernel has it.
    pub fn is_here(self) -> bool {
        static ANSWERS: [OnceLock<bool>; Feature::ALL.len()] = [const { OnceLock::new() }; Feature::ALL.len()];
        // A thread of its own, since the caller may have a sandbox of its own.
        let ask = move || Sandbox::new().exec(&["sh", "-ec", &self.proof()]).code == Some(0);
        *ANSWERS[self as usize].get_or_init(|| thread::spawn(ask).join().expect("ask the kernel"))
    }

    /// Lines of shell that succeed just on a kernel that has it.
    fn proof(self) -> String {
        let link = match self {
            Self::Hardware => {
                return "grep -q 'User Mode Linux' /proc/cpuinfo; nsenter --net=/proc/1/ns/net ip link show dev eth0"
                    .to_owned();
            }
            Self::BridgeVlans => "proof type bridge vlan_filtering 1",
            Self::DummyLinks => "proof type dummy",
            Self::MacvlanLinks => "link master0 name proof type macvlan",
            Self::VlanLinks => "link master0 name proof type vlan id 5",
            Self::VrfLinks => "proof type vrf table 7",
            Self::IpvlanLinks => "link master0 name proof type ipvlan",
        };
        format!("ip link add master0 type bridge; ip link add {link}")
    }
}
