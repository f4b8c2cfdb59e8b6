//! iptables in memory, with the semantics of the real one.
//!
//! A batch is carried out on a copy, which replaces the tables only if every line succeeds. A chain must exist before
//! rules jump to it or are added to it, and must be empty and unreferenced before it is deleted. The fake can fail at
//! a given batch, and let another program change something just before one.

use std::collections::BTreeMap;

use cni_core::family::Family;
use cni_core::names::ChainName;
use cni_netfilter::iptables::{
    Batch, BatchError, BatchLine, BatchRefusal, ChainRules, Iptables, IptablesError, IptablesRule, IptablesTable,
    SkeletonLock, Target,
};

type Chains = BTreeMap<ChainName, Vec<IptablesRule>>;

/// A packet filter in memory.
#[derive(Debug, Default)]
pub struct FakeIptables {
    tables: BTreeMap<(Family, IptablesTable), Chains>,
    failing: Option<usize>,
    interference: Vec<(usize, Batch)>,
    commits: usize,
    lists: usize,
    locks: usize,
    uninstalled: Vec<Family>,
    lacking: Vec<(Family, IptablesTable)>,
    unreadable: Vec<ChainName>,
}

/// The chains that every table has.
const fn built_in(table: IptablesTable) -> &'static [&'static str] {
    match table {
        IptablesTable::Nat => &["PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"],
        IptablesTable::Filter => &["INPUT", "FORWARD", "OUTPUT"],
    }
}

fn fresh(table: IptablesTable) -> Chains {
    built_in(table).iter().map(|name| (ChainName::fixed(name), Vec::new())).collect()
}

impl FakeIptables {
    /// A machine without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Loads what `iptables -S` printed: `-N` and `-A` lines; anything else is refused.
    pub fn load(&mut self, family: Family, table: IptablesTable, text: &str) -> Result<(), String> {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let op = match line.strip_prefix("-N ") {
                Some(name) => ChainName::parse(name).ok().map(BatchLine::CreateChain),
                None => IptablesRule::parse(line).map(BatchLine::Append),
            };
            let op = op.ok_or_else(|| line.to_owned())?;
            self.apply(&Batch { family, table, ops: vec![op] })?;
        }
        Ok(())
    }

    /// The table as `iptables -S` prints it, without policies.
    pub fn dump(&self, family: Family, table: IptablesTable) -> String {
        let Some(chains) = self.tables.get(&(family, table)) else {
            return String::new();
        };
        let user = chains.keys().filter(|name| !built_in(table).contains(&name.as_str()));
        let created = user.map(|name| format!("-N {name}"));
        created.chain(chains.values().flatten().map(IptablesRule::to_string)).collect::<Vec<_>>().join("\n")
    }

    /// Removes the programs of some families; those of the others exist.
    pub fn uninstall(&mut self, families: impl Into<Vec<Family>>) {
        self.uninstalled = families.into();
    }

    /// Lets a chain hold something that cannot be read, as only nft writes it.
    pub fn obscure(&mut self, chain: ChainName) {
        self.unreadable.push(chain);
    }

    /// Lets the kernel lack some tables, whose programs exist.
    pub fn lack(&mut self, tables: impl Into<Vec<(Family, IptablesTable)>>) {
        self.lacking = tables.into();
    }

    fn locate(&self, family: Family, table: IptablesTable) -> Result<(), IptablesError> {
        if self.lacking.contains(&(family, table)) {
            let (program, text) = ("fake".to_owned(), "Table does not exist".to_owned());
            return Err(IptablesError::NoTable { family, table, refusal: BatchRefusal { program, text } });
        }
        if self.uninstalled.contains(&family) {
            let program = format!("{}-restore", family.iptables());
            return Err(IptablesError::NoProgram { program, path: "/bin".to_owned() });
        }
        Ok(())
    }

    /// Lets the batch of this number, counted from 1 over the fake's life, fail for an outside reason.
    pub fn fail_commit(&mut self, number: usize) {
        self.failing = Some(number);
    }

    /// Lets someone else carry out a batch just before the one of this number.
    pub fn before_commit(&mut self, number: usize, batch: Batch) {
        self.interference.push((number, batch));
    }

    /// The number of batches that were tried.
    pub const fn commits(&self) -> usize {
        self.commits
    }

    /// The number of chains that were read.
    pub const fn lists(&self) -> usize {
        self.lists
    }

    /// How often the lock was taken.
    pub const fn locks(&self) -> usize {
        self.locks
    }

    fn apply(&mut self, batch: &Batch) -> Result<(), String> {
        let key = (batch.family, batch.table);
        let mut chains = self.tables.get(&key).cloned().unwrap_or_else(|| fresh(batch.table));
        batch.ops.iter().try_for_each(|op| carry_out(&mut chains, op))?;
        self.tables.insert(key, chains);
        Ok(())
    }
}

fn carry_out(chains: &mut Chains, op: &BatchLine) -> Result<(), String> {
    let refuse = |reason: &str| Err(format!("{op:?}: {reason}"));
    match op {
        BatchLine::Require(rule) if !contains(chains, rule) => refuse("no such rule"),
        BatchLine::CreateChain(name) if chains.contains_key(name) => refuse("the chain exists"),
        BatchLine::DeleteChain(name) if chains.get(name).is_none_or(|rules| !rules.is_empty()) => {
            refuse("no empty chain")
        }
        BatchLine::DeleteChain(name) if chains.values().flatten().any(|rule| rule.jumps_to(name)) => refuse("in use"),
        BatchLine::Insert(rule) | BatchLine::Append(rule) if !fits(chains, rule) => refuse("no such chain"),
        BatchLine::Delete(rule) if !contains(chains, rule) => refuse("no such rule"),
        BatchLine::Require(_) => Ok(()),
        BatchLine::CreateChain(name) | BatchLine::EmptyChain(name) => {
            chains.insert(name.clone(), Vec::new());
            Ok(())
        }
        BatchLine::DeleteChain(name) => {
            chains.remove(name);
            Ok(())
        }
        BatchLine::Insert(rule) => with(chains, rule, |rules, rule| rules.insert(0, rule)),
        BatchLine::Append(rule) => with(chains, rule, Vec::push),
        BatchLine::Delete(rule) => with(chains, rule, |rules, rule| {
            if let Some(at) = rules.iter().position(|have| *have == rule) {
                rules.remove(at);
            }
        }),
    }
}

fn contains(chains: &Chains, rule: &IptablesRule) -> bool {
    chains.get(&rule.chain).is_some_and(|rules| rules.contains(&rule.canonical()))
}

fn fits(chains: &Chains, rule: &IptablesRule) -> bool {
    let target_exists = if let Target::Jump(to) = &rule.target { chains.contains_key(to) } else { true };
    chains.contains_key(&rule.chain) && target_exists
}

fn with(
    chains: &mut Chains,
    rule: &IptablesRule,
    change: impl FnOnce(&mut Vec<IptablesRule>, IptablesRule),
) -> Result<(), String> {
    change(chains.entry(rule.chain.clone()).or_default(), rule.canonical());
    Ok(())
}

impl Iptables for FakeIptables {
    fn list(&mut self, family: Family, table: IptablesTable, chain: &ChainName) -> Result<ChainRules, IptablesError> {
        self.locate(family, table)?;
        self.lists += 1;
        if self.unreadable.contains(chain) {
            let (program, status) = ("fake".to_owned(), "exit status: 3".to_owned());
            return Err(IptablesError::Failed { program, status, text: format!("{chain} is incompatible") });
        }
        let chains = self.tables.entry((family, table)).or_insert_with(|| fresh(table));
        Ok(chains.get(chain).cloned())
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), BatchError> {
        self.locate(batch.family, batch.table).map_err(BatchError::Failed)?;
        batch.text().map_err(BatchError::Failed)?;
        self.commits += 1;
        let program = "fake".to_owned();
        if self.failing == Some(self.commits) {
            let (status, text) = ("as it was told to".to_owned(), String::new());
            return Err(BatchError::Failed(IptablesError::Failed { program, status, text }));
        }
        let refused = |text| BatchError::Refused(BatchRefusal { program: "fake".to_owned(), text });
        let (due, later) = self.interference.drain(..).partition(|(number, _)| *number == self.commits);
        self.interference = later;
        due.iter().try_for_each(|(_, other): &(usize, Batch)| self.apply(other)).map_err(refused)?;
        self.apply(batch).map_err(refused)
    }

    fn absence(&mut self, family: Family, table: IptablesTable) -> Option<IptablesError> {
        self.locate(family, table).err()
    }

    fn lock(&mut self) -> Result<SkeletonLock, IptablesError> {
        self.locks += 1;
        Ok(SkeletonLock::new((), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lines: &[BatchLine]) -> Batch {
        Batch { family: Family::V4, table: IptablesTable::Nat, ops: lines.to_vec() }
    }

    #[test]
    fn a_batch_that_is_refused_changes_nothing() {
        let mut fake = FakeIptables::new();
        let (a, b) = (ChainName::fixed("A"), ChainName::fixed("B"));
        let to_b = IptablesRule::new(a.clone(), Vec::new(), Target::Jump(b));
        let refused = fake.commit(&batch(&[BatchLine::CreateChain(a), BatchLine::Append(to_b)]));
        let Err(BatchError::Refused(refusal)) = refused else {
            panic!("not refused: {refused:?}");
        };
        assert!(refusal.text.ends_with("no such chain"), "{}", refusal.text);
        assert_eq!(fake.dump(Family::V4, IptablesTable::Nat), "");
    }

    #[test]
    fn a_chain_in_use_stays() {
        let mut fake = FakeIptables::new();
        fake.load(Family::V4, IptablesTable::Nat, "-N A\n-A OUTPUT -j A").expect("loads");
        let a = ChainName::fixed("A");
        let refused = fake.commit(&batch(&[BatchLine::EmptyChain(a.clone()), BatchLine::DeleteChain(a)]));
        assert!(
            matches!(&refused, Err(BatchError::Refused(refusal)) if refusal.text.ends_with("in use")),
            "{refused:?}"
        );
        assert_eq!(fake.load(Family::V4, IptablesTable::Nat, "-P INPUT DROP"), Err("-P INPUT DROP".to_owned()));
    }
}
