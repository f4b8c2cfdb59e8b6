//! What ADD keeps for DEL and GC: the former properties of the interface in the reference's file, and a record of the rest. The
//! reference's file has no place for kernel parameters and the network.
//!
//! Without the record, as after an ADD of the reference, DEL restores what the file says, and parameters stay.

use cni_core::error::Error;
use cni_core::json::{Json, JsonError};
use cni_core::names::Attachment;
use cni_model::plan::{Ns, Sysctl};
use cni_model::record::{Part, PartKind};
use cni_plugin::host::Host;
use cni_plugin::json_part::{JsonPart, is_of_entered};
use cni_plugin::ledger::{TUNING, of_container};
use serde::{Deserialize, Serialize};

use crate::config::{Config, Properties};
use crate::sysctl;

/// The changes of one attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Changes {
    /// The namespace, if the kernel can identify it: a container may come again in a new one.
    namespace: Option<String>,
    /// The directory of the reference's file.
    pub data_dir: String,
    pub parameters: Vec<ChangedParameter>,
}

/// A kernel parameter with the value that ADD has given it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChangedParameter {
    /// Below `/proc/sys`.
    pub path: String,
    pub value: String,
    /// None for one that can only be written.
    pub before: Option<String>,
}

impl ChangedParameter {
    pub fn key(&self) -> Sysctl {
        Sysctl::fixed(&self.path.split('/').collect::<Vec<_>>())
    }

    /// Whether another one is the same parameter, with any value.
    pub fn is_same(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl JsonPart for Changes {
    const KIND: PartKind = TUNING;

    fn part(at: &Attachment) -> Part {
        of_container(TUNING, at)
    }
}

impl Changes {
    /// The changes of a new ADD in the entered namespace. A parameter that an earlier ADD, or another attachment of the
    /// container, has changed there keeps its first value.
    pub fn observe(
        config: &Config,
        at: &Attachment,
        earlier: Option<&Self>,
        host: &mut dyn Host,
    ) -> Result<Self, Error> {
        let mut parameters: Vec<ChangedParameter> = Vec::new();
        for parameter in &config.parameters {
            let key = parameter.of(&at.ifname);
            let before = sysctl::value(&key, host)?;
            parameters.push(ChangedParameter { path: key.path(), value: parameter.value.clone(), before });
        }
        // Their records are read after the values, and written before: a value that one of them has set is seen with its record.
        let others = of_others(at, host)?;
        for parameter in &mut parameters {
            let before = holders(parameter, &others).next().map(|held| held.before.clone());
            parameter.before = before.unwrap_or_else(|| parameter.before.take());
        }
        for changed in earlier.into_iter().flat_map(|earlier| &earlier.parameters) {
            match parameters.iter_mut().find(|parameter| parameter.is_same(changed)) {
                Some(parameter) => parameter.before.clone_from(&changed.before),
                None => parameters.push(changed.clone()),
            }
        }
        Ok(Self {
            namespace: host.namespaces().identity(Ns::Container)?,
            data_dir: config.data_dir.clone(),
            parameters,
        })
    }

    /// The same with parameters that have another value for a moment: a killed ADD leaves them so.
    pub fn with_switches(&self, switches: &[ChangedParameter]) -> Self {
        let mut changes = self.clone();
        let is_new = |switch: &&ChangedParameter| !self.parameters.iter().any(|parameter| parameter.is_same(switch));
        changes.parameters.extend(switches.iter().filter(is_new).cloned());
        changes
    }

    /// Whether the changes were made in the entered namespace, if the kernel can tell.
    pub fn are_here(&self, host: &mut dyn Host) -> Result<bool, Error> {
        is_of_entered(self.namespace.as_deref(), host)
    }
}

/// The changes of other attachments of the container in the entered namespace.
pub fn of_others(at: &Attachment, host: &mut dyn Host) -> Result<Vec<Changes>, Error> {
    let mut others = Vec::new();
    for (other, changes) in Changes::holders(&|thing| thing == Changes::part(at).thing(), host)? {
        if other != *at && changes.are_here(host)? {
            others.push(changes);
        }
    }
    Ok(others)
}

/// A parameter as others have it who have changed it as well.
pub fn holders<'a>(own: &ChangedParameter, others: &'a [Changes]) -> impl Iterator<Item = &'a ChangedParameter> {
    others.iter().flat_map(|other| &other.parameters).filter(move |other| other.is_same(own))
}

/// Renders the former properties of an interface in the reference's format: the members that ADD has changed, in a fixed
/// order, one on each line.
pub fn render_backup(before: &Properties) -> String {
    let [mac, promisc, mtu, all_multicast, tx_queue_length] = before.texts();
    let texts = [mac.map(|mac| format!("\"{mac}\"")), promisc, mtu, all_multicast, tx_queue_length];
    let members = ["mac", "promisc", "mtu", "allmulti", "txQLen"].iter().zip(texts);
    let members: Vec<String> = members.filter_map(|(name, text)| Some(format!(" \"{name}\": {}", text?))).collect();
    if members.is_empty() { "{}".to_owned() } else { format!("{{\n{}\n}}", members.join(",\n")) }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BackupMembers {
    mac: String,
    promisc: Option<bool>,
    mtu: i64,
    allmulti: Option<bool>,
    #[serde(rename = "txQLen")]
    tx_queue_length: Option<i64>,
}

/// Parses such a text. A value that no interface can have had is ignored.
///
/// # Errors
/// If the text is incomplete: a killed process of the reference leaves half of it.
pub fn parse_backup(text: &str) -> Result<Properties, JsonError> {
    let BackupMembers { mac, promisc, mtu, allmulti, tx_queue_length } = Json::parse(text.as_bytes())?.decode()?;
    Ok(Properties {
        mac: mac.parse().ok(),
        promisc,
        mtu: u32::try_from(mtu).ok().filter(|mtu| *mtu != 0),
        all_multicast: allmulti,
        tx_queue_length: tx_queue_length.and_then(|packets| u32::try_from(packets).ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::mac::Mac;
    use proptest::prelude::*;

    #[test]
    fn the_text_is_the_references_to_the_byte() {
        let before = Properties {
            mac: "ee:22:80:f6:47:0c".parse().ok(),
            promisc: Some(false),
            mtu: Some(1500),
            all_multicast: Some(false),
            tx_queue_length: Some(1000),
        };
        let text = "{\n \"mac\": \"ee:22:80:f6:47:0c\",\n \"promisc\": false,\n \"mtu\": 1500,\n \"allmulti\": false,\n \"txQLen\": 1000\n}";
        assert_eq!(render_backup(&before), text);
        assert_eq!(render_backup(&Properties { mtu: Some(1500), ..Properties::default() }), "{\n \"mtu\": 1500\n}");
        assert_eq!(render_backup(&Properties::default()), "{}");
    }

    #[test]
    fn a_torn_text_is_ignored_and_an_impossible_value_is_left_out() {
        for text in ["", "{", "{\n \"mac\": \"ee:22", "[]", "7", "{\"mtu\": \"x\"}"] {
            parse_backup(text).expect_err(text);
        }
        let odd = r#"{"mac":"zz","mtu":-1,"txQLen":-1,"allmulti":null,"other":{},"promisc":true}"#;
        assert_eq!(parse_backup(odd), Ok(Properties { promisc: Some(true), ..Properties::default() }));
    }

    fn properties() -> impl Strategy<Value = Properties> {
        let mac = any::<[u8; 6]>().prop_map(Mac::local);
        let members = (
            proptest::option::of(mac),
            any::<Option<bool>>(),
            proptest::option::of(1..u32::MAX),
            any::<Option<bool>>(),
            any::<Option<u32>>(),
        );
        members.prop_map(|(mac, promisc, mtu, all_multicast, tx_queue_length)| Properties {
            mac,
            promisc,
            mtu,
            all_multicast,
            tx_queue_length,
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(before in properties()) {
            prop_assert_eq!(parse_backup(&render_backup(&before)), Ok(before));
        }
    }
}
