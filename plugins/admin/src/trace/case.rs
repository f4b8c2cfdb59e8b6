//! The input of the judgement: the paths that were observed, and facts about the host and the container.

use std::net::IpAddr;

use super::packet_path::PacketPath;

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aim {
    /// Packets to a container, or to a port that perhaps leads to one: `port 8080/tcp`.
    In(String),
    /// Packets from a container to an address: `192.0.2.1:80`.
    Out(String),
}

/// How the packets were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeReply {
    /// By others, within so many seconds.
    Real { seconds: u64 },
    /// By the probe, which was answered.
    Answered,
    /// The probe was refused: nothing listens.
    Refused,
    /// Nothing came back.
    Silent,
    /// The kernel could not send it, or a router said that it goes no further.
    Unreachable(String),
}

/// A container that is traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub container: String,
    pub addresses: Vec<IpAddr>,
    /// Whether its list has the plugin firewall.
    pub has_firewall: bool,
    /// Whether its list asks for a masquerade.
    pub has_masquerade: bool,
    /// What `repair` finds missing, by plugin.
    pub missing: Vec<String>,
}

/// What dropped a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedBy {
    /// `the policy of table ip filter, chain FORWARD`.
    pub by: String,
    /// `Docker`.
    pub owner: Option<String>,
    pub rejects: bool,
    /// Whether it was on its way through the host.
    pub is_forwarding: bool,
}

/// Where a container sends packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerRoute {
    /// Nowhere.
    None,
    /// To a router; whether the host has its address.
    Via { gateway: IpAddr, is_host: bool },
    /// To the link itself.
    OnLink,
    /// To itself.
    Local,
}

/// Whether a program listens on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listening {
    /// A program listens, also for others than the machine itself.
    Yes,
    /// It listens on the loopback address alone.
    OnLoopback,
    /// It listens on another address.
    Elsewhere(IpAddr),
    No,
}

/// The container that has a port for which another one waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    pub container: String,
    /// It has died, and the runtime has not deleted it.
    pub is_dead: bool,
}

/// What was found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceFacts {
    pub subject: Option<Subject>,
    /// Its address, of the family of the packets.
    pub address: Option<IpAddr>,
    /// The container that has the port, when it is not the subject.
    pub holder: Option<PortHolder>,
    /// Why the host did not route the packet, or the answer.
    pub unrouted: Option<TraceVerdict>,
    pub listening: Option<Listening>,
    /// The container's route to the other end.
    pub route: Option<ContainerRoute>,
    /// The name of the link by which the packet left.
    pub left_by: Option<String>,
    /// Rules of iptables-legacy that have met packets meanwhile.
    pub legacy: Vec<String>,
}

/// All of it.
#[derive(Clone, Debug)]
pub struct TraceCase<'a> {
    pub aim: Aim,
    pub reply: ProbeReply,
    /// The path of the packet, and of the answer.
    pub forth: Option<&'a PacketPath>,
    pub back: Option<&'a PacketPath>,
    /// What dropped them.
    pub drop: Option<DroppedBy>,
    pub back_drop: Option<DroppedBy>,
    pub facts: &'a TraceFacts,
}

/// What has become of the packet, and what helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceVerdict {
    pub arrived: bool,
    pub why: String,
    pub helps: Option<String>,
}

impl TraceVerdict {
    /// It has arrived.
    pub fn arrived(why: impl Into<String>) -> Self {
        Self { arrived: true, why: why.into(), helps: None }
    }

    /// It has not.
    pub fn lost(why: impl Into<String>, helps: impl Into<String>) -> Self {
        Self { arrived: false, why: why.into(), helps: Some(helps.into()) }
    }

    /// The sentence.
    pub fn text(&self) -> String {
        let Self { arrived: _, why, helps } = self;
        helps.as_ref().map_or_else(|| why.clone(), |helps| format!("{why}: {helps}"))
    }
}
