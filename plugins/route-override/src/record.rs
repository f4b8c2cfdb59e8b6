//! The record of what ADD has changed, for DEL. Without the record DEL changes nothing, and the kernel deletes the
//! routes with the interface.

use cni_core::error::Error;
use cni_core::names::Attachment;
use cni_model::plan::{NewRoute, Ns};
use cni_model::record::RecordKind;
use cni_model::routing::{FullRoute, MAIN_TABLE};
use cni_plugin::host::Host;
use cni_plugin::json_record::{JsonRecord, is_of_entered};
use serde::{Deserialize, Serialize};

/// The changed routes of one attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteRecord {
    pub network: String,
    pub container: String,
    pub ifname: String,
    /// The namespace, if the kernel can identify it: a container may come again in a new one.
    namespace: Option<String>,
    pub removed: Vec<FullRoute>,
    pub added: Vec<FullRoute>,
}

impl JsonRecord for RouteRecord {
    const KIND: RecordKind = RecordKind::new("routeoverride");

    fn names(&self) -> [&str; 3] {
        [&self.network, &self.container, &self.ifname]
    }
}

impl RouteRecord {
    /// The record of an earlier ADD in the entered namespace; empty if there was none. An unusable record counts as
    /// missing.
    pub fn earlier(at: &Attachment, host: &mut dyn Host) -> Result<Self, Error> {
        let namespace = host.namespaces().identity(Ns::Container)?;
        let earlier = match Self::read(at, host)? {
            Some(earlier) if is_of_entered(earlier.namespace.as_deref(), host)? => earlier,
            Some(_) | None => Self::default(),
        };
        let [network, container, ifname] = [at.network.to_string(), at.container.to_string(), at.ifname.to_string()];
        Ok(Self { network, container, ifname, namespace, ..earlier })
    }

    /// The record with what another ADD is about to change.
    pub fn with(mut self, removed: &[FullRoute], added: impl Iterator<Item = FullRoute>) -> Self {
        // A route that an earlier ADD added is not one to restore.
        let own = self.added.clone();
        self.removed.extend(removed.iter().filter(|route| !own.iter().any(|own| is_same(own, route))).cloned());
        // Networks come before the next hops that are in them.
        self.removed.sort_by_key(|route| route.gateway.is_some());
        self.added.extend(added);
        self
    }
}

/// Whether the kernel treats two routes as the same.
pub fn is_same(one: &FullRoute, other: &FullRoute) -> bool {
    (one.dst, one.gateway, one.table, one.metric) == (other.dst, other.gateway, other.table, other.metric)
}

/// A new route as the kernel holds it.
pub fn as_kernel_has_it(new: &NewRoute, link: u32) -> FullRoute {
    let like = FullRoute::default_by(new.dst.address(), link, new.table.unwrap_or(MAIN_TABLE));
    let metric = new.priority.unwrap_or(like.metric);
    FullRoute { dst: new.dst, gateway: new.gw, metric, scope: new.scope.unwrap_or_default(), ..like }
}
