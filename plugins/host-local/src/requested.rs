//! Addresses that the runtime or the user requests: `CNI_ARGS`, `args.cni.ips`, `runtimeConfig.ips`.
//!
//! They are kept in that order, without duplicates. A prefix length after an address is ignored. Pure.

use std::net::IpAddr;

use cni_core::cidr::{Cidr, parse_ip};
use cni_core::error::{Code, Error, Failure};
use cni_core::request::Request;
use cni_plugin::ipam::RequestedKeys;

/// A requested address that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestedError {
    /// In `CNI_ARGS`.
    #[error("ARGS: error parsing value of pair {:?}: invalid IP address {text}", format!("IP={text}"))]
    Args { text: String },
    /// In the configuration.
    #[error("invalid IP address {text}")]
    Invalid { key: String, text: String },
    /// Empty or `null`, in the configuration.
    #[error("invalid IP address: none is given")]
    Empty { key: String },
}

impl Failure for RequestedError {
    fn code(&self) -> Code {
        match self {
            Self::Args { .. } => Code::InvalidEnvironment,
            Self::Invalid { .. } | Self::Empty { .. } => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::Args { .. } => String::new(),
            Self::Invalid { key, .. } => key.clone(),
            Self::Empty { key } => format!("{key} is empty or null"),
        }
    }
}

/// Collects the requested addresses.
///
/// # Errors
/// [`RequestedError`] for the first that is not an address, and the errors of `CNI_ARGS`.
pub fn collect(request: &Request) -> Result<Vec<IpAddr>, Error> {
    let mut requested = Vec::new();
    if let Some(text) = request.args()?.ip {
        requested.push(parse_address(&text).ok_or(RequestedError::Args { text })?);
    }
    for (key, texts) in request.decode::<RequestedKeys>()?.lists() {
        for (index, text) in texts.iter().enumerate() {
            let address = parse_listed(&format!("{key}[{index}]"), text)?;
            if !requested.contains(&address) {
                requested.push(address);
            }
        }
    }
    Ok(requested)
}

fn parse_listed(key: &str, text: &str) -> Result<IpAddr, RequestedError> {
    if text.is_empty() {
        return Err(RequestedError::Empty { key: key.to_owned() });
    }
    parse_address(text).ok_or_else(|| RequestedError::Invalid { key: key.to_owned(), text: text.to_owned() })
}

fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains('/') { text.parse::<Cidr>().ok().map(Cidr::address) } else { parse_ip(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_request::request;
    use cni_testkit::error_parts;

    fn collected(args: &str, config: &str) -> Result<String, (u32, String, String)> {
        let request = request("ADD", &[("CNI_ARGS", args)], config);
        collect(&request)
            .map(|list| list.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" "))
            .map_err(error_parts)
    }

    #[test]
    fn all_three_sources_are_read_in_order_without_duplicates() {
        let config = r#"{"args":{"cni":{"ips":["10.1.2.7/24","2001:db8::7"]}},"runtimeConfig":{"ips":["10.1.2.8","::ffff:10.1.2.7"]}}"#;
        assert_eq!(collected("IP=10.1.2.9/24", config), Ok("10.1.2.9 10.1.2.7 2001:db8::7 10.1.2.8".to_owned()));
        assert_eq!(collected("IP=", "{}"), Ok(String::new()));
        assert_eq!(collected("", r#"{"args":null,"runtimeConfig":{"ips":null}}"#), Ok(String::new()));
    }

    #[test]
    fn a_value_that_is_no_address_is_named() {
        let refused = |code, text: &str, details: &str| Err((code, text.to_owned(), details.to_owned()));
        for (args, text) in [
            ("IP=zz", r#"ARGS: error parsing value of pair "IP=zz": invalid IP address zz"#),
            (
                "IP=10.1.2.3,10.1.2.4",
                r#"ARGS: error parsing value of pair "IP=10.1.2.3,10.1.2.4": invalid IP address 10.1.2.3,10.1.2.4"#,
            ),
            ("FOO=bar", r#"ARGS: unknown args ["FOO=bar"]"#),
        ] {
            assert_eq!(collected(args, "{}"), refused(4, text, ""));
        }
        let nil = "invalid IP address: none is given";
        for (config, text, details) in [
            (r#"{"runtimeConfig":{"ips":["010.1.2.3"]}}"#, "invalid IP address 010.1.2.3", "runtimeConfig.ips[0]"),
            (r#"{"args":{"cni":{"ips":["10.1.2.3","x/24"]}}}"#, "invalid IP address x/24", "args.cni.ips[1]"),
            (r#"{"runtimeConfig":{"ips":[""]}}"#, nil, "runtimeConfig.ips[0] is empty or null"),
            (r#"{"runtimeConfig":{"ips":["10.1.2.3",null]}}"#, nil, "runtimeConfig.ips[1] is empty or null"),
        ] {
            assert_eq!(collected("", config), refused(7, text, details));
        }
        let wrong_type = collected("", r#"{"runtimeConfig":{"ips":"10.1.2.3"}}"#).expect_err("refused");
        assert_eq!((wrong_type.0, wrong_type.1.as_str()), (6, "failed to load netconf"));
    }
}
