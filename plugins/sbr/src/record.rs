//! The record of what ADD has made, for DEL: nothing else tells which routes were in the main table.
//!
//! Without the record, as after an ADD of the reference, DEL removes only the rules, and the tables stay until the
//! interface is deleted.

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_model::plan::Ns;
use cni_model::record::RecordKind;
use cni_model::routing::{FullRoute, SourceRule};
use cni_plugin::host::Host;
use cni_plugin::json_record::{JsonRecord, is_of_entered};
use serde::{Deserialize, Serialize};

use crate::interface_routing::{InterfaceRouting, push_new};

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
    /// The record of an ADD that wrote none: only its rules can be found.
    pub fn of_rules(rules: Vec<SourceRule>) -> Self {
        let rules = rules.into_iter().map(|rule| (rule.source, rule.table)).collect();
        Self { rules, ..Self::default() }
    }

    /// The record of a new ADD in the entered namespace, with what an earlier one has done there.
    pub fn with(self, routing: &InterfaceRouting, at: &Attachment, host: &mut dyn Host) -> Result<Self, Error> {
        let mut record = self;
        record.network = at.network.to_string();
        record.container = at.container.to_string();
        record.ifname = at.ifname.to_string();
        record.namespace = host.namespaces().identity(Ns::Container)?;
        for source in routing.sources.iter().filter(|source| !source.has_rule) {
            push_new(&mut record.rules, (source.rule.source, source.rule.table));
        }
        routing.added().chain(&routing.hinted).for_each(|route| push_new(&mut record.added, route.clone()));
        // A route that an earlier ADD added is not one to restore.
        let moved = routing.moved.iter().filter(|route| !record.added.contains(route));
        moved.for_each(|route| push_new(&mut record.moved, route.clone()));
        record.moved.sort_by_key(|route| route.gateway.is_some());
        Ok(record)
    }
}

/// The record of an attachment in the entered namespace. An unreadable record counts as missing.
pub fn earlier(at: &Attachment, host: &mut dyn Host) -> Result<Option<RoutingRecord>, Error> {
    let Some(record) = RoutingRecord::read(at, host)? else { return Ok(None) };
    Ok(is_of_entered(record.namespace.as_deref(), host)?.then_some(record))
}
