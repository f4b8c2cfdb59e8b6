//! The attachments that GC must keep: `cni.dev/valid-attachments`.
//!
//! GC removes everything that is not in the list, so a list with an unreadable entry is refused. An empty list, or the
//! `null` that Go runtimes send for it, means that no attachment is valid. `cnitool gc` sends no list at all; then
//! nothing is known to be invalid, and nothing is removed.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::error::Error;
use crate::fail;
use crate::json::{Json, JsonError};
use crate::names::{Attachment, ContainerId, IfName, NetworkName};

/// The key of SPEC section "GC", and the one that libcni sends as well, from an early draft.
const KEYS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

/// The attachments of a network that are in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidAttachments(BTreeSet<(ContainerId, IfName)>);

#[derive(Default, Deserialize)]
#[serde(default)]
struct AttachmentEntry {
    #[serde(rename = "containerID")]
    container_id: String,
    ifname: String,
}

impl ValidAttachments {
    /// Reads the list from a configuration; `None` when the runtime sends none.
    ///
    /// # Errors
    /// Unless all of it is understood.
    pub fn parse(config: &Json) -> Result<Option<Self>, Error> {
        let Some((key, list)) = KEYS.into_iter().find_map(|key| Some((key, config.get(key)?))) else {
            return Ok(KEYS.into_iter().any(|key| config.has_key(key)).then(Self::default));
        };
        let no_list = |problem: JsonError| fail!(Decoding, "{key} is not a list of attachments; nothing was removed", details: "{problem}");
        let entries: Vec<AttachmentEntry> = list.decode().map_err(no_list)?;
        let mut attachments = BTreeSet::new();
        for (index, AttachmentEntry { container_id, ifname }) in entries.into_iter().enumerate() {
            let refused = |details: String| fail!(InvalidConfig, "{key}[{index}] is not an attachment; nothing was removed", details: "{details}");
            let container = ContainerId::parse(&container_id);
            let container = container.map_err(|error| refused(format!("containerID {container_id:?}: {error}")))?;
            let name = IfName::parse(&ifname).map_err(|error| refused(format!("ifname {ifname:?}: {error}")))?;
            attachments.insert((container, name));
        }
        Ok(Some(Self(attachments)))
    }

    /// Whether the list contains an attachment of the container with this interface, or with any interface if `None`.
    pub fn contains(&self, container: &str, ifname: Option<&str>) -> bool {
        let mut attachments = self.0.iter().filter(|(id, _)| id.as_str() == container);
        match ifname {
            Some(ifname) => attachments.any(|(_, name)| name.as_str() == ifname),
            None => attachments.next().is_some(),
        }
    }

    /// A configuration whose list contains these attachments as well, for a plugin that must keep what they have.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn extend_list<'a>(config: &Json, more: impl IntoIterator<Item = &'a Attachment>) -> Result<Json, Error> {
        let Self(mut all) = Self::parse(config)?.unwrap_or_default();
        all.extend(more.into_iter().map(|at| (at.container.clone(), at.ifname.clone())));
        let text = |text: &str| Json::String(text.to_owned());
        let entry = |(container, ifname): &(ContainerId, IfName)| {
            let members = [("containerID", container.as_str()), ("ifname", ifname.as_str())];
            Json::Object(members.map(|(key, value)| (key.to_owned(), text(value))).into())
        };
        let list = Json::Array(all.iter().map(entry).collect());
        let Json::Object(entries) = config else { return Ok(config.clone()) };
        let is_list = |name: &str| KEYS.iter().any(|key| name.eq_ignore_ascii_case(key));
        let entry =
            |(name, value): &(String, Json)| (name.clone(), if is_list(name) { list.clone() } else { value.clone() });
        Ok(Json::Object(entries.iter().map(entry).collect()))
    }

    /// The attachments, which are all of one network.
    pub fn of_network(&self, network: &NetworkName) -> impl Iterator<Item = Attachment> {
        self.0.iter().map(move |(container, ifname)| Attachment {
            network: network.clone(),
            container: container.clone(),
            ifname: ifname.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(config: &str) -> Result<Option<ValidAttachments>, (u32, String, String)> {
        let config = Json::parse(config.as_bytes()).expect("JSON");
        ValidAttachments::parse(&config).map_err(|error| (error.code().number(), error.to_string(), error.details()))
    }

    #[test]
    fn both_keys_are_read_and_the_specs_comes_first() {
        let entry = |id: &str| format!(r#"[{{"containerID":"{id}","ifname":"eth0"}}]"#);
        let old = format!(r#""cni.dev/attachments":{}"#, entry("old"));
        let new = format!(r#""cni.dev/valid-attachments":{}"#, entry("new"));
        let valid = parse(&format!("{{{old}}}")).expect("valid").expect("a list");
        assert!(valid.contains("old", Some("eth0")) && valid.contains("old", None));
        assert!(!valid.contains("old", Some("eth1")) && !valid.contains("new", None));
        let valid = parse(&format!("{{{old},{new}}}")).expect("valid").expect("a list");
        assert!(valid.contains("new", Some("eth0")) && !valid.contains("old", None));
        let null_before_old = format!(r#"{{"cni.dev/valid-attachments":null,{old}}}"#);
        let valid = parse(&null_before_old).expect("valid").expect("a list");
        assert!(valid.contains("old", Some("eth0")));
    }

    #[test]
    fn null_is_an_empty_list_and_no_key_is_no_list() {
        for key in KEYS {
            for list in ["[]", "null"] {
                assert_eq!(parse(&format!(r#"{{"{key}":{list}}}"#)), Ok(Some(ValidAttachments::default())), "{key}");
            }
        }
        assert_eq!(parse(r#"{"name":"n1"}"#), Ok(None));
    }

    #[test]
    fn a_list_is_extended_under_both_keys() {
        let old = r#"[{"containerID":"c1","ifname":"eth0"}]"#;
        let config = format!(r#"{{"name":"n1","cni.dev/valid-attachments":{old},"cni.dev/attachments":{old}}}"#);
        let config = Json::parse(config.as_bytes()).expect("JSON");
        let network = NetworkName::parse("n1").expect("network");
        let container = ContainerId::parse("c2").expect("an ID");
        let at = Attachment { network, container, ifname: IfName::parse("eth1").expect("a name") };
        let new = r#"[{"containerID":"c1","ifname":"eth0"},{"containerID":"c2","ifname":"eth1"}]"#;
        assert_eq!(
            ValidAttachments::extend_list(&config, [&at]).expect("extended").to_string(),
            format!(r#"{{"name":"n1","cni.dev/valid-attachments":{new},"cni.dev/attachments":{new}}}"#)
        );
    }

    #[test]
    fn a_list_that_is_not_understood_is_refused() {
        let of = |at: &str| format!("cni.dev/attachments{at}; nothing was removed");
        let entry = |id: &str, ifname: &str| format!(r#"{{"containerID":"{id}","ifname":"{ifname}"}}"#);
        let (list, one) = (of(" is not a list of attachments"), of("[0] is not an attachment"));
        let too_long = r#"ifname "eth0eth0eth0eth0": interface name is too long"#;
        for (value, code, text, details) in [
            ("{}".to_owned(), 6, &list, "invalid type: map, expected a sequence"),
            (r#"["c1"]"#.to_owned(), 6, &list, r#"[0]: invalid type: string "c1", expected struct AttachmentEntry"#),
            (
                format!("[{},null]", entry("c1", "eth0")),
                7,
                &of("[1] is not an attachment"),
                r#"containerID "": invalid characters in containerID"#,
            ),
            (format!("[{}]", entry("a/b", "eth0")), 7, &one, r#"containerID "a/b": invalid characters in containerID"#),
            (format!("[{}]", entry("c1", "eth0eth0eth0eth0")), 7, &one, too_long),
        ] {
            let error = parse(&format!(r#"{{"cni.dev/attachments":{value}}}"#)).expect_err("refused");
            assert_eq!(error, (code, text.clone(), details.to_owned()), "{value}");
        }
    }
}
