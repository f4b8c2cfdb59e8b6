//! The parts of a host that break, how each is broken and repaired, and the outcome of DEL on each back end.

/// A cell of the table for a part that a back end does not have.
pub const NOT_THERE: &str = "-";

/// A cell where every plugin succeeds and nothing is left.
const CLEAN: &str = "|";

/// What stays when nobody can reach the rules.
const RULES: &str = "portmap:104 firewall:104 bridge:104 | masquerade ports filter records";

const NATIVE_RULES: &str = "portmap:104 firewall:101 bridge:104 | masquerade ports filter records";
const LOCKED_RULES: &str = "portmap:11 firewall:11 bridge:11 | masquerade ports filter records";

/// The same on a host whose firewalld keeps the container's addresses.
const NO_SOURCE: &str = "portmap:104 bridge:104 | masquerade ports records";

/// The columns are those of `Backend::ALL`: who fails with which code, and what is left after the first DEL.
pub const TABLE: [(Part, [&str; 4]); 18] = [
    (Part::IptablesFail, [RULES, RULES, "portmap:104 bridge:104 | records", NO_SOURCE]),
    // Where portmap fails, its records stay for its next DEL. Rules in nf_tables are removed without the programs.
    (Part::IptablesMissing, [CLEAN, RULES, CLEAN, CLEAN]),
    (Part::NftablesRefused, [RULES, CLEAN, NATIVE_RULES, NO_SOURCE]),
    // The kernel forgets connections by itself, so that is worth a warning.
    (Part::ConntrackRefused, [CLEAN; 4]),
    // Another container would get the addresses of the link otherwise.
    (Part::LinkStays, ["bridge:101 | link leases records"; 4]),
    (Part::IpamMissing, ["bridge:104 | leases records"; 4]),
    (Part::IpamFails, ["bridge:123 | leases records"; 4]),
    (Part::IpamCrashes, ["bridge:0 | leases records"; 4]),
    (Part::LeasesReadOnly, ["bridge:5 | leases records"; 4]),
    (Part::LeasesLocked, ["bridge:11 | leases records"; 4]),
    (Part::AttachmentLocked, [CLEAN; 4]),
    (Part::IptablesLocked, [NOT_THERE, LOCKED_RULES, NOT_THERE, NOT_THERE]),
    (Part::RunFull, [CLEAN; 4]),
    // Such a host has containers all the same; what is recorded of one that is gone counts for nothing.
    (Part::RunReadOnly, ["| records"; 4]),
    (Part::RecordsForeign, ["firewall:5 | filter records"; 4]),
    (Part::RecordsTorn, [CLEAN; 4]),
    (Part::FirewalldSilent, [NOT_THERE, NOT_THERE, NOT_THERE, "firewall:11 | filter records"]),
    (Part::BusSilent, [NOT_THERE, NOT_THERE, NOT_THERE, "firewall:11 | filter records"]),
];

/// What breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    IptablesFail,
    IptablesMissing,
    NftablesRefused,
    ConntrackRefused,
    LinkStays,
    IpamMissing,
    IpamFails,
    IpamCrashes,
    LeasesReadOnly,
    LeasesLocked,
    AttachmentLocked,
    IptablesLocked,
    RunFull,
    RunReadOnly,
    RecordsForeign,
    RecordsTorn,
    FirewalldSilent,
    BusSilent,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Self::IptablesFail => "iptables fails",
            Self::IptablesMissing => "iptables is missing",
            Self::NftablesRefused => "the kernel refuses nf_tables",
            Self::ConntrackRefused => "the kernel refuses conntrack",
            Self::LinkStays => "the link cannot be deleted",
            Self::IpamMissing => "the IPAM plugin is missing",
            Self::IpamFails => "the IPAM plugin fails",
            Self::IpamCrashes => "the IPAM plugin crashes",
            Self::LeasesReadOnly => "the leases are read-only",
            Self::LeasesLocked => "the lock of the leases is held",
            Self::AttachmentLocked => "the lock of the attachment is held",
            Self::IptablesLocked => "the lock of iptables is held",
            Self::RunFull => "/run is full",
            Self::RunReadOnly => "/run is read-only",
            Self::RecordsForeign => "the records are another user's",
            Self::RecordsTorn => "the records are torn",
            Self::FirewalldSilent => "firewalld does not answer",
            Self::BusSilent => "D-Bus does not answer",
        }
    }

    /// Words for it; each error must contain one of them.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Self::IptablesFail => &["iptables"],
            Self::IptablesMissing => &["iptables"],
            Self::NftablesRefused => &["not permitted", "iptables"],
            Self::ConntrackRefused => &["conntrack"],
            Self::LinkStays => &["failed to delete veth"],
            Self::IpamMissing => &["failed to find plugin \"host-local\""],
            Self::IpamFails => &["no lease today"],
            Self::IpamCrashes => &["netplugin failed"],
            Self::LeasesReadOnly => &["/run/leases/n1"],
            Self::LeasesLocked => &["the lock /run/leases/n1/lock is held by process"],
            Self::AttachmentLocked => &["work.lock"],
            Self::IptablesLocked => &["the lock /run/xtables.lock is held by process"],
            Self::RunFull | Self::RunReadOnly => &["/run/"],
            Self::RecordsForeign | Self::RecordsTorn => &["/run/cni/.cni-plugins-rs"],
            Self::FirewalldSilent | Self::BusSilent => &["D-Bus at"],
        }
    }
}
