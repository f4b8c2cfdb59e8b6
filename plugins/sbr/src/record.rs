//! What ADD has made, recorded for DEL: which routes were in the main table, nobody else knows.
//!
//! Without the record, as after an ADD of the reference, DEL removes rules alone, and the tables stay for as long as the
//! interface does.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_model::plan::Ns;
use cni_model::record::RecordKind;
use cni_model::routing::{FullRoute, SourceRule};
use cni_plugin::host::Host;
use cni_plugin::json_record::{JsonRecord, is_of_entered};
use serde::{Deserialize, Serialize};

use crate::lanes::{Lanes, push_new};

/// The routes and rules of one attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RoutingRecord {
    pub network: String,
    pub container: String,
    pub ifname: String,
    /// The namespace, if the kernel can identify it: a container may come again in a new one.
    namespace: Option<String>,
    /// The rules, by address and table.
    pub rules: Vec<(Cidr, u32)>,
    /// Routes in the tables.
    pub added: Vec<FullRoute>,
    /// Routes that were in the main table.
    pub moved: Vec<FullRoute>,
}

impl JsonRecord for RoutingRecord {
    const KIND: RecordKind = RecordKind::new("sbr");

    fn names(&self) -> [&str; 3] {
        [&self.network, &self.container, &self.ifname]
    }
}

impl RoutingRecord {
    /// What an ADD has left that wrote nothing down: rules alone can be told.
    pub fn of_rules(rules: Vec<SourceRule>) -> Self {
        let rules = rules.into_iter().map(|rule| (rule.source, rule.table)).collect();
        Self { rules, ..Self::default() }
    }

    /// What an ADD is about to do in the namespace that was entered, with this, which an earlier one has done there.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn with(self, lanes: &Lanes, at: &Attachment, host: &mut dyn Host) -> Result<Self, Error> {
        let mut record = self;
        record.network = at.network.to_string();
        record.container = at.container.to_string();
        record.ifname = at.ifname.to_string();
        record.namespace = host.namespaces().identity(Ns::Container)?;
        for lane in lanes.lanes.iter().filter(|lane| !lane.has_rule) {
            push_new(&mut record.rules, (lane.rule.source, lane.rule.table));
        }
        lanes.added().for_each(|route| push_new(&mut record.added, route.clone()));
        lanes.moved.iter().for_each(|route| push_new(&mut record.moved, route.clone()));
        record.moved.sort_by_key(|route| route.gateway.is_some());
        Ok(record)
    }
}

/// What an attachment has in the namespace that was entered. A record that makes no sense is as good as none.
///
/// # Errors
/// When the record cannot be read, or the kernel does not answer.
pub fn earlier(at: &Attachment, host: &mut dyn Host) -> Result<Option<RoutingRecord>, Error> {
    let Some(record) = RoutingRecord::read(at, host)? else { return Ok(None) };
    Ok(is_of_entered(record.namespace.as_deref(), host)?.then_some(record))
}
