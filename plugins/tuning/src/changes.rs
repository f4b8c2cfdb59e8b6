//! The record of what ADD has changed, for DEL and GC. The reference's file has no place for kernel parameters and the
//! network.
//!
//! Without the record, as after an ADD of the reference, DEL restores what the file says, and parameters stay.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_model::plan::{Ns, Sysctl};
use cni_model::record::RecordKind;
use cni_plugin::host::Host;
use cni_plugin::json_record::{JsonRecord, is_of_entered};
use serde::{Deserialize, Serialize};

use crate::announce::NotifyParameter;
use crate::config::Config;
use crate::sysctl;

/// The changes of one attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Changes {
    pub network: String,
    pub container: String,
    pub ifname: String,
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
    path: String,
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

impl JsonRecord for Changes {
    const KIND: RecordKind = RecordKind::new("tuning");

    fn names(&self) -> [&str; 3] {
        [&self.network, &self.container, &self.ifname]
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
            let key = parameter.name.of(&at.ifname);
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
            network: at.network.to_string(),
            container: at.container.to_string(),
            ifname: at.ifname.to_string(),
            namespace: host.namespaces().identity(Ns::Container)?,
            data_dir: config.data_dir().to_owned(),
            parameters,
        })
    }

    /// The same with parameters that have another value for a moment: a killed ADD leaves them so.
    pub fn with_switches(&self, switches: &[NotifyParameter]) -> Self {
        let mut changes = self.clone();
        for NotifyParameter { key, before } in switches {
            let (path, value, before) = (key.path(), "1".to_owned(), Some(before.clone()));
            let switch = ChangedParameter { path, value, before };
            if !self.parameters.iter().any(|parameter| parameter.is_same(&switch)) {
                changes.parameters.push(switch);
            }
        }
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
    for changes in Changes::others(at, host)? {
        if changes.are_here(host)? {
            others.push(changes);
        }
    }
    Ok(others)
}

/// A parameter as others have it who have changed it as well.
pub fn holders<'a>(own: &ChangedParameter, others: &'a [Changes]) -> impl Iterator<Item = &'a ChangedParameter> {
    others.iter().flat_map(|other| &other.parameters).filter(move |other| other.is_same(own))
}
