//! The sets of a table in memory.

use std::net::IpAddr;

use cni_netfilter::nftables::{NftName, Set, SetElements};

/// Sets with their elements.
#[derive(Clone, Debug, Default)]
pub(super) struct FakeSets(Vec<(Set, Vec<IpAddr>)>);

impl FakeSets {
    /// Makes a set; one that exists stays.
    pub(super) fn add(&mut self, set: &Set) {
        if !self.0.iter().any(|(have, _)| have.id == set.id) {
            self.0.push((set.clone(), Vec::new()));
        }
    }

    /// Puts elements into a set; those that it holds stay.
    pub(super) fn put(&mut self, elements: &SetElements) -> Result<(), &'static str> {
        let held = self.held(elements)?;
        for address in &elements.addresses {
            if !held.contains(address) {
                held.push(*address);
            }
        }
        Ok(())
    }

    /// Takes elements out of a set, which must hold them.
    pub(super) fn take(&mut self, elements: &SetElements) -> Result<(), &'static str> {
        let held = self.held(elements)?;
        for address in &elements.addresses {
            let at = held.iter().position(|have| have == address).ok_or("no such element")?;
            held.remove(at);
        }
        Ok(())
    }

    /// Those of some elements that a set holds; `None` when the set does not exist.
    pub(super) fn among(&self, elements: &SetElements) -> Option<Vec<IpAddr>> {
        let (_, held) = self.0.iter().find(|(set, _)| set.id == elements.set)?;
        Some(elements.addresses.iter().copied().filter(|address| held.contains(address)).collect())
    }

    /// Whether a set of this name exists.
    pub(super) fn has(&self, name: &NftName) -> bool {
        self.0.iter().any(|(set, _)| set.id.name == *name)
    }

    /// The sets with their elements, in the order in which they were made.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(Set, Vec<IpAddr>)> {
        self.0.iter()
    }

    fn held(&mut self, elements: &SetElements) -> Result<&mut Vec<IpAddr>, &'static str> {
        let found = self.0.iter_mut().find(|(set, _)| set.id == elements.set);
        found.map(|(_, held)| held).ok_or("no such set")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::family::Family;
    use cni_netfilter::nftables::{SetId, TableFamily, TableId};

    fn elements(last: &[u8]) -> SetElements {
        let set = SetId { table: TableId::fixed(TableFamily::Ip, "t"), name: NftName::fixed("m") };
        SetElements { set, addresses: last.iter().map(|last| [10, 0, 0, *last].into()).collect() }
    }

    #[test]
    fn a_set_holds_each_element_once_and_gives_up_what_it_holds() {
        let mut sets = FakeSets::default();
        assert_eq!(sets.put(&elements(&[1])), Err("no such set"));
        let set = Set { id: elements(&[]).set, family: Family::V4 };
        sets.add(&set);
        assert_eq!(sets.put(&elements(&[1, 2])), Ok(()));
        sets.add(&set);
        assert_eq!(sets.put(&elements(&[2, 3])), Ok(()));
        assert_eq!(sets.take(&elements(&[1, 2, 3])), Ok(()));
        assert_eq!(sets.take(&elements(&[1])), Err("no such element"));
    }
}
