//! Devices, and what the kernel can do.

use std::path::Path;

use cni_core::error::Error;
use cni_model::link::{Link, OtherEnd};
use cni_model::plan::Ns;
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_model::vlan::BridgeVlan;
use cni_plugin::devices::Devices;

use super::FakeHost;

impl Devices for FakeHost {
    fn entries(&mut self, directory: &Path) -> Result<Option<Vec<String>>, Error> {
        Ok(self.devices.entries(directory))
    }

    fn leads_to(&mut self, link: &Path) -> Result<Option<String>, Error> {
        Ok(self.devices.leads_to(link))
    }

    fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, Error> {
        Ok(self.absent_kind != Some(kind))
    }

    fn other_end(&mut self, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.other_end(&space, link))
    }

    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error> {
        let space = self.space(ns)?;
        let port = self.kernel.entries(&space).find(|entry| entry.link.index == index);
        Ok(port.map(|entry| entry.vlans.clone()).unwrap_or_default())
    }

    fn traffic_control(&mut self, ns: Ns, index: u32) -> Result<TrafficControl, Error> {
        let space = self.space(ns)?;
        Ok(self.kernel.traffic_control(&space, index))
    }

    fn missing_redirect_part(&mut self) -> Result<Option<RedirectPart>, Error> {
        Ok(self.absent_part)
    }
}
