//! Errors of the configuration, each with its key and value.

use cni_core::error::{Code, Failure};

/// A configuration that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Both keys say who marks.
    #[error("Cannot specify externalSetMarkChain and markMasqBit")]
    TwoMarkers { bit: i64, chain: String },
    /// The mark of a packet has 32 bits.
    #[error("MasqMarkBit must be between 0 and 31")]
    MarkBit { bit: i64 },
    /// `externalSetMarkChain` is not a name of a chain.
    #[error("invalid externalSetMarkChain {name:?}")]
    ExternalChain { name: String },
    /// `backend` is not a known back end.
    #[error("unrecognized backend {name:?}")]
    UnknownBackend { name: String },
    /// The conditions are written for another backend.
    #[error(
        "iptables backend was requested but configuration contains nftables-specific options [{}]",
        keys.join(" ")
    )]
    NftablesOptions { keys: Vec<&'static str> },
    /// Keys are given that mean something to iptables alone.
    #[error(
        "nftables backend was requested but configuration contains iptables-specific options [{}]",
        keys.join(" ")
    )]
    IptablesOptions { keys: Vec<&'static str> },
    /// A word that cannot be handed to the backend.
    #[error("invalid word {word:?} in {key}")]
    Condition { key: &'static str, index: usize, word: String },
    /// A number that is not a port.
    #[error("Invalid {side} port number: {port}")]
    Port { side: &'static str, key: &'static str, index: usize, port: i64 },
    /// A protocol without ports, or none.
    #[error("Invalid protocol: {protocol:?}")]
    Protocol { index: usize, protocol: String },
    /// `hostIP` is not an address.
    #[error("Invalid host IP: {host_ip:?}")]
    HostIp { index: usize, host_ip: String },
}

impl Failure for ConfigError {
    fn code(&self) -> Code {
        match self {
            Self::TwoMarkers { .. }
            | Self::MarkBit { .. }
            | Self::ExternalChain { .. }
            | Self::UnknownBackend { .. }
            | Self::NftablesOptions { .. }
            | Self::IptablesOptions { .. }
            | Self::Condition { .. }
            | Self::Port { .. }
            | Self::Protocol { .. }
            | Self::HostIp { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::TwoMarkers { bit, chain } => format!("externalSetMarkChain is {chain:?}, markMasqBit is {bit}"),
            Self::MarkBit { bit } => format!("markMasqBit is {bit}"),
            Self::ExternalChain { .. } => {
                "an iptables chain has 1 to 28 characters, no blank or quote, and does not start with - or !".to_owned()
            }
            Self::UnknownBackend { .. } => "backend must be iptables or nftables, or not be given".to_owned(),
            Self::NftablesOptions { .. } => {
                "conditions of iptables start with - or !; those of nft, in both keys, need \"backend\": \"nftables\" and no externalSetMarkChain"
                    .to_owned()
            }
            Self::IptablesOptions { .. } => {
                "conditions of nftables do not start with - or !, and it has no chain that sets marks; those of iptables need \"backend\": \"iptables\""
                    .to_owned()
            }
            Self::Condition { key, index, .. } => {
                format!("{key}[{index}] must be a word, without control characters, for nftables without ; and #")
            }
            Self::Port { key, index, .. } => {
                format!("runtimeConfig.portMappings[{index}].{key} must be between 1 and 65535")
            }
            Self::Protocol { index, .. } => {
                format!("runtimeConfig.portMappings[{index}].protocol must be tcp, udp or sctp")
            }
            Self::HostIp { index, .. } => {
                format!("runtimeConfig.portMappings[{index}].hostIP must be an IP address, or empty")
            }
        }
    }
}
