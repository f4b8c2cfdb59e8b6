//! The protocol between plugin and daemon: one question per connection, as JSON. The daemon's first answer says how
//! long the second may take.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::grant::Grant;
use crate::record::LeaseKey;

/// The number of this protocol. Plugin and daemon are one program, but an older daemon may run on.
pub const VERSION: u32 = 1;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonQuestion {
    /// [`VERSION`] of who asks.
    pub protocol: u32,
    /// The operation.
    pub verb: Operation,
}

/// The operation of a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Leases an address, or returns the leased one.
    Add(LeaseRequest),
    /// Says whether an address is leased.
    Check {
        /// The owner of the lease.
        request: LeaseRequest,
        /// The address, if one is known.
        address: Option<Ipv4Addr>,
    },
    /// Gives the address back.
    Del {
        /// Whose.
        key: LeaseKey,
    },
    /// Gives all addresses of a network back but these.
    Gc {
        /// The network.
        network: String,
        /// Container and interface of those that keep theirs.
        valid: Vec<(String, String)>,
    },
    /// Says that the daemon answers.
    Status,
}

/// A request for a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRequest {
    /// The attachment.
    pub key: LeaseKey,
    /// The path of the namespace, which comes open along with the question.
    pub netns: String,
    /// Options that are sent to the server.
    pub provided: Vec<(u8, Vec<u8>)>,
    /// Options that are asked of it.
    pub requested: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DaemonAnswer {
    /// There will be another, within so many seconds.
    Wait {
        /// [`VERSION`] of the daemon.
        protocol: u32,
        /// The seconds.
        seconds: u64,
    },
    /// An address.
    Leased(Grant),
    /// It is done.
    Done,
    /// It cannot be done.
    Refused(DaemonRefusal),
}

/// An error of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonRefusal {
    /// The kind of the error.
    pub about: Reason,
    /// The reason.
    pub text: String,
}

impl DaemonRefusal {
    /// An error of a namespace, which has ended or is not what it was.
    pub const fn of_namespace(text: String) -> Self {
        Self { about: Reason::Namespace, text }
    }

    /// An error of an interface: it is missing, or not an Ethernet interface, or cannot be looked at now, such as for want of descriptors.
    pub const fn of_interface(text: String) -> Self {
        Self { about: Reason::Interface, text }
    }
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reason {
    /// The question is not understood.
    Question,
    /// The namespace.
    Namespace,
    /// The interface.
    Interface,
    /// Servers, or the lack of them.
    Server,
    /// CHECK: there is no such lease.
    Lease,
}

/// The text of a question or an answer.
///
/// # Panics
/// Never: both have nothing that JSON cannot say.
pub fn text(message: &impl Serialize) -> String {
    serde_json::to_string(message).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Reads a question.
pub fn question(text: &[u8]) -> Result<Operation, DaemonRefusal> {
    let refused = |text| DaemonRefusal { about: Reason::Question, text };
    match serde_json::from_slice::<DaemonQuestion>(text) {
        Ok(DaemonQuestion { protocol: VERSION, verb }) => Ok(verb),
        Ok(DaemonQuestion { protocol, .. }) => {
            Err(refused(format!("the daemon speaks protocol {VERSION}, the plugin {protocol}: restart the daemon")))
        }
        Err(error) => Err(refused(format!("the daemon does not understand the question, restart it: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_of_another_version_is_told_what_helps() {
        let other = text(&DaemonQuestion { protocol: 2, verb: Operation::Status });
        let Err(refusal) = question(other.as_bytes()) else { panic!("not refused") };
        assert_eq!(refusal.text, "the daemon speaks protocol 1, the plugin 2: restart the daemon");
        for odd in ["", "{}", "7", r#"{"protocol":1,"verb":"dance"}"#] {
            let Err(refusal) = question(odd.as_bytes()) else { panic!("not refused") };
            assert!(refusal.text.contains("does not understand the question, restart it"), "{refusal:?}");
        }
    }

    #[test]
    fn every_question_is_read_as_it_was_written() {
        let key = LeaseKey { container: "c1".to_owned(), network: "lan".to_owned(), ifname: "eth0".to_owned() };
        let request = LeaseRequest {
            key: key.clone(),
            netns: "/run/netns/c1".to_owned(),
            provided: vec![(12, vec![0, 255])],
            requested: vec![3, 1],
        };
        let valid = vec![("c1".to_owned(), "eth0".to_owned())];
        for verb in [
            Operation::Add(request.clone()),
            Operation::Check { request, address: Some([10, 1, 2, 5].into()) },
            Operation::Del { key },
            Operation::Gc { network: "lan".to_owned(), valid },
            Operation::Status,
        ] {
            let written = text(&DaemonQuestion { protocol: VERSION, verb: verb.clone() });
            assert_eq!(question(written.as_bytes()), Ok(verb), "{written}");
        }
    }
}
