//! Requests for host-local.

use cni_core::request::{Call, Environment, Request};
use cni_core::version::Version;

/// A request for container `c1`, interface `eth0`, network `net`, unless the variables say otherwise.
pub fn request(command: &str, variables: &[(&str, &str)], config: &str) -> Request {
    let usual = [("CNI_CONTAINERID", "c1"), ("CNI_IFNAME", "eth0"), ("CNI_NETNS", "/netns"), ("CNI_PATH", "/bin")];
    let variables = usual.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let config = config.trim_start().strip_prefix('{').expect("an object");
    let comma = if config.trim_start().starts_with('}') { "" } else { "," };
    let config = format!(r#"{{"name":"net"{comma}{config}"#);
    let call = Call::parse(command, Environment::new(variables)).expect("a good environment");
    call.with_config(config.into_bytes(), Version::ALL).expect("a good configuration")
}
