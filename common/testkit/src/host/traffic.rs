//! Traffic control: what limits the packets of a link, and where they go.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_model::plan::{Ns, Step};
use cni_model::traffic::{RootQdisc, Shaper, TrafficControl};

use super::kernel::{Kernel, Space};
use super::kernel_error::refuse;

impl Kernel {
    /// The traffic control of a link; a redirect to a missing link leads to 0.
    pub fn traffic_control(&self, space: &Space, index: u32) -> TrafficControl {
        let Some(entry) = self.entries(space).find(|entry| entry.link.index == index) else {
            return TrafficControl::default();
        };
        let is_there = |index: &u32| self.entries(space).any(|entry| entry.link.index == *index);
        let redirects = entry.redirects.iter().map(|to| if is_there(to) { *to } else { 0 }).collect();
        TrafficControl { root: entry.root_qdisc.clone(), redirects }
    }

    /// Limits a link, unless another program does.
    pub fn set_shaper(
        &mut self,
        space: &Space,
        (ns, name): (Ns, &IfName),
        shaper: Shaper,
    ) -> Result<Option<Step>, Error> {
        let entry = self.present(space, name.as_str())?;
        let name = name.clone();
        match entry.root_qdisc.replace(RootQdisc::Shaper(shaper)) {
            Some(RootQdisc::Other { kind }) => refuse(format!("{name} has a qdisc of kind {kind}")),
            Some(RootQdisc::Shaper(before)) if before == shaper => Ok(None),
            Some(RootQdisc::Shaper(shaper)) => Ok(Some(Step::SetShaper { ns, name, shaper })),
            None => Ok(Some(Step::RemoveShaper { ns, name })),
        }
    }

    /// Ends a limit.
    pub fn remove_shaper(&mut self, space: &Space, name: &str) {
        let entry = self.find_mut(space, name);
        if let Some(entry) = entry.filter(|entry| matches!(entry.root_qdisc, Some(RootQdisc::Shaper(_)))) {
            entry.root_qdisc = None;
        }
    }

    /// Leads what a link receives elsewhere.
    pub fn add_redirect(&mut self, space: &Space, ns: Ns, name: &IfName, to: &IfName) -> Result<Option<Step>, Error> {
        let target = self.present(space, to.as_str())?.link.index;
        let link = self.present(space, name.as_str())?.link.index;
        if self.traffic_control(space, link).redirects.contains(&target) {
            return Ok(None);
        }
        self.forget_dead(space, link);
        self.present(space, name.as_str())?.redirects.push(target);
        Ok(Some(Step::RemoveRedirect { ns, name: name.clone(), to: to.clone() }))
    }

    /// Ends that.
    pub fn remove_redirect(&mut self, space: &Space, name: &str, to: &str) {
        let target = self.find_mut(space, to).map(|entry| entry.link.index);
        let Some(entry) = self.find_mut(space, name) else { return };
        let link = entry.link.index;
        entry.redirects.retain(|to| Some(*to) != target);
        self.forget_dead(space, link);
    }

    fn forget_dead(&mut self, space: &Space, link: u32) {
        let mut alive = self.traffic_control(space, link).redirects;
        alive.retain(|to| *to != 0);
        if let Some(entry) = self.by_index_mut(space, link) {
            entry.redirects = alive;
        }
    }
}
