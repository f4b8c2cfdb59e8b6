//! The records of a host in memory.

use std::collections::BTreeMap;
use std::time::Duration;

use cni_core::error::Error;
use cni_model::plan::Step;
use cni_model::record::{RecordKey, RecordKind};
use cni_plugin::records::Records;

/// Records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FakeRecords(BTreeMap<RecordKey, String>);

impl FakeRecords {
    /// Every record as `kind/name: text`, in order.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(|(key, text)| format!("{key}: {text:?}")).collect()
    }

    /// The keys of the records, in order.
    pub fn keys(&self) -> Vec<RecordKey> {
        self.0.keys().cloned().collect()
    }

    /// Forgets everything, as a reboot does.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes a record; returns the step that takes it back.
    pub fn write(&mut self, key: &RecordKey, text: &str) -> Option<Step> {
        let key = key.clone();
        match self.0.insert(key.clone(), text.to_owned()) {
            None => Some(Step::RemoveRecord { key }),
            Some(earlier) if earlier != text => Some(Step::WriteRecord { key, text: earlier }),
            Some(_) => None,
        }
    }

    /// Removes a record; returns the step that takes that back.
    pub fn remove(&mut self, key: &RecordKey) -> Option<Step> {
        self.0.remove(key).map(|text| Step::WriteRecord { key: key.clone(), text })
    }
}

impl Records for FakeRecords {
    fn read(&mut self, key: &RecordKey) -> Result<Option<String>, Error> {
        Ok(self.0.get(key).cloned())
    }

    /// Time does not pass here.
    fn written(&mut self, key: &RecordKey) -> Result<Option<Duration>, Error> {
        Ok(self.0.get(key).map(|_| Duration::ZERO))
    }

    fn names(&mut self, kind: RecordKind) -> Result<Vec<String>, Error> {
        Ok(self.0.keys().filter(|key| key.kind() == kind).map(|key| key.name().to_owned()).collect())
    }

    /// It was started yesterday, and time does not pass here.
    fn since_boot(&mut self) -> Result<Duration, Error> {
        Ok(Duration::from_secs(86_400))
    }
}
