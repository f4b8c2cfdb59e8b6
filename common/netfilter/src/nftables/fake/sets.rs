//! The sets and maps of a table in memory.

use super::super::name::NftName;
use super::super::set::{Element, Elements, Set};

/// Sets and maps with their elements.
#[derive(Clone, Debug, Default)]
pub(in crate::nftables) struct FakeSets(Vec<(Set, Vec<Element>)>);

impl FakeSets {
    /// Makes a set; one that is there stays.
    pub(super) fn add(&mut self, set: &Set) {
        if !self.0.iter().any(|(have, _)| have.id == set.id) {
            self.0.push((set.clone(), Vec::new()));
        }
    }

    /// Puts elements into a set; those that it holds stay, but a map has one verdict for each key.
    pub(super) fn put(&mut self, elements: &Elements) -> Result<(), &'static str> {
        let held = self.held(elements)?;
        for element in &elements.elements {
            match held.iter().find(|have| have.key == element.key) {
                Some(have) if have != element => return Err("another verdict is there"),
                Some(_) => {}
                None => held.push(element.clone()),
            }
        }
        Ok(())
    }

    /// Takes elements out of a set, which must hold them.
    pub(super) fn take(&mut self, elements: &Elements) -> Result<(), &'static str> {
        let held = self.held(elements)?;
        for element in &elements.elements {
            let at = held.iter().position(|have| have == element).ok_or("no such element")?;
            held.remove(at);
        }
        Ok(())
    }

    /// Those of some elements that a set holds; `None` when there is no such set.
    pub(super) fn among(&self, elements: &Elements) -> Option<Vec<Element>> {
        let (_, held) = self.0.iter().find(|(set, _)| set.id == elements.set)?;
        Some(
            elements
                .elements
                .iter()
                .filter(|element| held.iter().any(|have| have.key == element.key))
                .cloned()
                .collect(),
        )
    }

    /// Whether there is a set of this name.
    pub(super) fn has(&self, name: &NftName) -> bool {
        self.0.iter().any(|(set, _)| set.id.name == *name)
    }

    /// The sets with their elements, in the order in which they were made.
    pub(in crate::nftables) fn iter(&self) -> impl Iterator<Item = &(Set, Vec<Element>)> {
        self.0.iter()
    }

    fn held(&mut self, elements: &Elements) -> Result<&mut Vec<Element>, &'static str> {
        let found = self.0.iter_mut().find(|(set, _)| set.id == elements.set);
        found.map(|(_, held)| held).ok_or("no such set")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nftables::{ElementKey, KeyType, SetId, SetKind, TableFamily, TableId, Verdict};

    fn elements(ports: &[u16], verdict: &Verdict) -> Elements {
        let set = SetId { table: TableId::fixed(TableFamily::Ip, "t"), name: NftName::fixed("m") };
        let element = |port: &u16| Element { key: ElementKey::Port(*port), verdict: Some(verdict.clone()) };
        Elements { set, elements: ports.iter().map(element).collect() }
    }

    #[test]
    fn a_map_holds_one_verdict_for_each_key() {
        let mut sets = FakeSets::default();
        assert_eq!(sets.put(&elements(&[80], &Verdict::Accept)), Err("no such set"));
        let set = Set { id: elements(&[], &Verdict::Accept).set, key: KeyType::Port, kind: SetKind::VerdictMap };
        sets.add(&set);
        assert_eq!(sets.put(&elements(&[80, 81], &Verdict::Accept)), Ok(()));
        sets.add(&set);
        assert_eq!(sets.put(&elements(&[81, 82], &Verdict::Accept)), Ok(()));
        assert_eq!(sets.put(&elements(&[82], &Verdict::Drop)), Err("another verdict is there"));
        assert_eq!(sets.take(&elements(&[80, 81, 82], &Verdict::Accept)), Ok(()));
        assert_eq!(sets.take(&elements(&[80], &Verdict::Accept)), Err("no such element"));
    }
}
