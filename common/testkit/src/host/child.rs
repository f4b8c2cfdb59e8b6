//! Links on a master.

use cni_core::error::Error;
use cni_model::link::Link;
use cni_model::plan::{ChildKind, MasterLink, NewLink};

use super::kernel::{Kernel, Space};
use super::kernel_error::refuse;

impl Kernel {
    /// Makes a child in one namespace of a master in another or the same.
    pub fn add_child(
        &mut self,
        space: &Space,
        there: &Space,
        new: &NewLink,
        (master, kind): (&MasterLink, &ChildKind),
    ) -> Result<bool, Error> {
        let Some(of) = self.by_index_mut(there, master.index).map(|entry| entry.link.clone()) else {
            return refuse(format!("{} is gone", master.name));
        };
        self.refuse_second_vlan(there, master, kind)?;
        let NewLink { name, mac, mtu, if_present: _, kind: _ } = new;
        let index = self.add(
            space,
            Link {
                name: name.to_string(),
                kind: Some(kind.name().to_owned()),
                mac: mac.clone().or(of.mac),
                mtu: mtu.unwrap_or(of.mtu),
                peer: Some(master.index),
                peer_netns: (space != there).then_some(0),
                tx_queue_length: 1000,
                child: Some(kind.clone()),
                ..Link::default()
            },
        );
        if let Some(entry) = self.by_index_mut(space, index) {
            entry.parent = Some((there.clone(), master.index));
        }
        if let ChildKind::Ipvlan { .. } = kind {
            let of_master = Some((there.clone(), master.index));
            self.entries_mut()
                .filter(|entry| entry.parent == of_master)
                .for_each(|entry| entry.link.child = Some(kind.clone()));
        }
        Ok(true)
    }

    /// Refuses a second link for a VLAN of a master, in any namespace.
    fn refuse_second_vlan(&self, there: &Space, master: &MasterLink, kind: &ChildKind) -> Result<(), Error> {
        let taken = self.children(there, master.index, "vlan").iter().any(|link| link.child.as_ref() == Some(kind));
        if taken { refuse("file exists") } else { Ok(()) }
    }

    /// The links of a kind on a master, in every namespace.
    pub fn children(&self, space: &Space, master: u32, kind: &str) -> Vec<Link> {
        let of_master = Some((space.clone(), master));
        let found = self.all().filter(|entry| entry.parent == of_master && entry.link.kind.as_deref() == Some(kind));
        found.map(|entry| entry.link.clone()).collect()
    }
}
