//! Requests for host-local.

use cni_core::request::Request;

/// A request of container `c1`, interface `eth0`, network `net`, unless the variables say otherwise.
pub fn request(command: &str, variables: &[(&str, &str)], config: &str) -> Request {
    let config = config.trim_start().strip_prefix('{').expect("an object");
    let comma = if config.trim_start().starts_with('}') { "" } else { "," };
    let variables = [&[("CNI_NETNS", "/netns")], variables].concat();
    cni_testkit::request(command, &variables, &format!(r#"{{"name":"net"{comma}{config}"#))
}
