//! The keys and arguments of the plugin, checked before anything is done. An argument overrides the key of the same
//! meaning.

use std::collections::BTreeMap;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_model::plan::{TapHeaders, TapOptions, TapQueues};
use cni_plugin::host::Host;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::args::TapArgs;
use crate::name::{NameOrigin, TapName};

/// The checked configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub name: TapName,
    /// The user who may open the device; that of the plugin if none.
    pub owner: Option<u32>,
    /// Likewise the group.
    pub group: Option<u32>,
    pub queues: TapQueues,
    pub headers: TapHeaders,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Keys {
    tap_name: String,
    owner: Option<u32>,
    group: Option<u32>,
    multi_queue: bool,
    vnet_hdr: bool,
    /// Not used here, but a runtime that sends something else than an object is not understood.
    prev_result: BTreeMap<String, IgnoredAny>,
}

impl Default for Keys {
    fn default() -> Self {
        let (tap_name, prev_result) = (String::new(), BTreeMap::new());
        Self { tap_name, owner: None, group: None, multi_queue: false, vnet_hdr: true, prev_result }
    }
}

impl Config {
    /// Reads and checks every key and argument.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let keys: Keys = request.decode()?;
        let args = TapArgs::parse(request.args_text())?;
        Ok(Self {
            name: name(&keys.tap_name, args.name.as_deref())?,
            owner: args.owner.or(somebody("owner", keys.owner)?),
            group: args.group.or(somebody("group", keys.group)?),
            queues: if keys.multi_queue { TapQueues::Many } else { TapQueues::One },
            headers: if keys.vnet_hdr { TapHeaders::Virtio } else { TapHeaders::PacketInformation },
        })
    }

    /// The properties of the device. As in the original, it belongs to the plugin's own user and group unless others
    /// are named.
    pub fn tap(&self, host: &mut dyn Host) -> TapOptions {
        let (user, group) = host.files().effective_ids();
        TapOptions { owner: self.owner.or(Some(user)), group: self.group.or(Some(group)), queues: self.queues }
    }
}

fn name(key: &str, argument: Option<&str>) -> Result<TapName, Error> {
    let key = if key.is_empty() { TapName::default() } else { TapName::parse(key, NameOrigin::Key)? };
    argument.map_or(Ok(key), |name| TapName::parse(name, NameOrigin::Arguments))
}

fn somebody(key: &str, id: Option<u32>) -> Result<Option<u32>, Error> {
    match id {
        // The number means "nobody" to the kernel.
        Some(id @ u32::MAX) => {
            let most = u32::MAX - 1;
            Err(fail!(InvalidConfig, "invalid {key} {id} (must be at most {most})"))
        }
        other => Ok(other),
    }
}
