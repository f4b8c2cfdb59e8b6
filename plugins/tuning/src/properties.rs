//! The properties of an interface that the plugin sets: configured ones, or former ones.

use cni_core::mac::Mac;
use cni_core::names::IfName;
use cni_model::link::Link;
use cni_model::plan::{LinkSetting, Ns, Step};

/// Five properties, each with its value if it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    pub mac: Option<Mac>,
    /// `IFF_PROMISC`: what the administrator asks for. Packet sniffers are not counted.
    pub promisc: Option<bool>,
    /// In bytes.
    pub mtu: Option<u32>,
    /// `IFF_ALLMULTI`
    pub all_multicast: Option<bool>,
    /// In packets.
    pub tx_queue_length: Option<u32>,
}

impl Properties {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those of a link that `wanted` would change.
    pub fn before(link: &Link, wanted: &Self) -> Self {
        Self {
            mac: wanted.mac.as_ref().and(link.mac.clone()),
            promisc: wanted.promisc.map(|_| link.promisc),
            mtu: wanted.mtu.map(|_| link.mtu),
            all_multicast: wanted.all_multicast.map(|_| link.all_multicast),
            tx_queue_length: wanted.tx_queue_length.map(|_| link.tx_queue_length),
        }
    }

    /// These properties, and the missing ones from `others`.
    pub fn or(self, others: Self) -> Self {
        Self {
            mac: self.mac.or(others.mac),
            promisc: self.promisc.or(others.promisc),
            mtu: self.mtu.or(others.mtu),
            all_multicast: self.all_multicast.or(others.all_multicast),
            tx_queue_length: self.tx_queue_length.or(others.tx_queue_length),
        }
    }

    /// The steps of ADD, in the reference's order.
    pub fn steps(&self, name: &IfName) -> Vec<Step> {
        let Self { mac, promisc, mtu, all_multicast, tx_queue_length } = self.clone();
        let settings = [
            mac.map(LinkSetting::Mac),
            promisc.map(LinkSetting::Promisc),
            mtu.map(LinkSetting::Mtu),
            all_multicast.map(LinkSetting::AllMulticast),
            tx_queue_length.map(LinkSetting::TxQueueLength),
        ];
        settings.into_iter().flatten().map(|setting| Step::set_link(Ns::Container, name, setting)).collect()
    }
}
