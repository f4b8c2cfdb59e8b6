//! The former properties of an interface, in the reference's format: the members that ADD has changed, in a fixed
//! order, one on each line.

use cni_core::json::{Json, JsonError};
use serde::Deserialize;

use crate::properties::Properties;

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

/// Writes what the interface was.
pub fn render(before: &Properties) -> String {
    let Properties { mac, promisc, mtu, all_multicast, tx_queue_length } = before;
    let members = [
        mac.as_ref().map(|mac| format!(" \"mac\": \"{mac}\"")),
        promisc.map(|on| format!(" \"promisc\": {on}")),
        mtu.map(|mtu| format!(" \"mtu\": {mtu}")),
        all_multicast.map(|on| format!(" \"allmulti\": {on}")),
        tx_queue_length.map(|packets| format!(" \"txQLen\": {packets}")),
    ];
    let members: Vec<String> = members.into_iter().flatten().collect();
    if members.is_empty() { "{}".to_owned() } else { format!("{{\n{}\n}}", members.join(",\n")) }
}

/// Parses the former properties. A value that no interface can have had is ignored.
///
/// # Errors
/// If the text is incomplete: a killed process of the reference leaves half of it.
pub fn parse(text: &str) -> Result<Properties, JsonError> {
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
        assert_eq!(render(&before), text);
        assert_eq!(render(&Properties { mtu: Some(1500), ..Properties::default() }), "{\n \"mtu\": 1500\n}");
        assert_eq!(render(&Properties::default()), "{}");
    }

    #[test]
    fn a_torn_text_is_ignored_and_an_impossible_value_is_left_out() {
        for text in ["", "{", "{\n \"mac\": \"ee:22", "[]", "7", "{\"mtu\": \"x\"}"] {
            parse(text).expect_err(text);
        }
        let odd = r#"{"mac":"zz","mtu":-1,"txQLen":-1,"allmulti":null,"other":{},"promisc":true}"#;
        assert_eq!(parse(odd), Ok(Properties { promisc: Some(true), ..Properties::default() }));
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
            prop_assert_eq!(parse(&render(&before)), Ok(before));
        }
    }
}
