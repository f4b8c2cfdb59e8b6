//! What a case calls by name: `$web` stands for all that the plugins derive from the container `web`.

use std::net::IpAddr;

use serde_json::Value;
use sha2::{Digest, Sha512};

use crate::runtime::Attachment;

/// A name, and the text that it stands for.
type Pair = (String, String);

/// The names of the plugin that a case is carried out for, of the version, and of the interface.
pub const OF_SUBJECTS: [&str; 3] = ["$plugin", "$version", "$ifname"];

/// The names of an attachment: `$web.ip`, `$web.ip6`, `$web.mac`, `$web.veth` from the result of its ADD, and `$web` for the hash in the
/// names of its chains.
pub fn of(name: &str, network: &str, attachment: &Attachment) -> Vec<Pair> {
    let mut pairs = hashes(name, network, &attachment.container_id);
    let Some(result) = &attachment.result else { return pairs };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for interface in result["interfaces"].as_array().into_iter().flatten() {
        let is_inside = interface["sandbox"].as_str().is_some_and(|sandbox| !sandbox.is_empty());
        if is_inside && interface["name"] == attachment.ifname.as_str() {
            pairs.push((format!("${name}.mac"), text(&interface["mac"])));
        } else if !is_inside && text(&interface["name"]).starts_with("veth") {
            pairs.push((format!("${name}.veth"), text(&interface["name"])));
            pairs.push((format!("${name}.vethmac"), text(&interface["mac"])));
        }
    }
    for ip in result["ips"].as_array().into_iter().flatten() {
        let address = text(&ip["address"]);
        let address = address.split('/').next().and_then(|address| address.parse::<IpAddr>().ok());
        let Some(address) = address else { continue };
        let key = if address.is_ipv4() { format!("${name}.ip") } else { format!("${name}.ip6") };
        if !pairs.iter().any(|(known, _)| *known == key) {
            pairs.push((key, address.to_string()));
        }
    }
    pairs.retain(|(_, text)| !text.is_empty());
    pairs
}

/// The reference names a chain by a prefix and as much of a SHA-512 as 28 letters hold.
fn hashes(name: &str, network: &str, id: &str) -> Vec<Pair> {
    let digest = Sha512::digest(format!("{network}{id}"));
    let text: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let prefixes = ["CNI-", "CNI-DN-", "CNI-SN-"];
    prefixes.map(|prefix| (format!("{prefix}${name}"), format!("{prefix}{}", &text[..28 - prefix.len()]))).into()
}

/// Puts what names stand for in their place. The longest name comes first, so that `$web.ip6` is not taken for `$web.ip`.
pub fn expand(line: &str, pairs: &[Pair]) -> String {
    let mut pairs: Vec<&Pair> = pairs.iter().collect();
    pairs.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    pairs.into_iter().fold(line.to_owned(), |line, (name, text)| line.replace(name, text))
}

/// Puts names in the place of what changes from run to run: names of chains and of veths, and MAC addresses.
pub fn collapse(text: &str, pairs: &[Pair]) -> String {
    let stays = |name: &str| name.ends_with(".ip") || name.ends_with(".ip6") || OF_SUBJECTS.contains(&name);
    let changing = pairs.iter().filter(|(name, _)| !stays(name));
    let mut pairs: Vec<&Pair> = changing.collect();
    pairs.sort_by_key(|(_, text)| std::cmp::Reverse(text.len()));
    pairs.into_iter().fold(text.to_owned(), |text, (name, found)| text.replace(found, name))
}
