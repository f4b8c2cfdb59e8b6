//! nf_tables in memory, with the semantics of the real one.
//!
//! A transaction is carried out on a copy, which replaces the tables only if every change succeeds. A chain must exist
//! before rules jump to it or are added to it, and must be unreferenced before it is deleted. The fake can fail at a
//! given transaction, and let another program change something just before one.

mod listing;
mod sets;
mod table;

use std::net::IpAddr;

use cni_netfilter::nftables::{
    ChainId, Expression, Generation, ListedRule, NftChain, NftChange, NftRule, Nftables, NftablesError, SetElements,
    TableId, Transaction, TransactionError,
};

use sets::FakeSets;
use table::{FakeChain, FakeTable};

/// An nf_tables in memory.
#[derive(Debug, Default)]
pub struct FakeNftables {
    tables: Vec<FakeTable>,
    handles: u64,
    generation: u32,
    failing: Option<usize>,
    interference: Vec<(usize, Transaction)>,
    reload: Option<usize>,
    absent: bool,
    commits: usize,
    scripts: usize,
    lists: usize,
    last: Option<Transaction>,
}

impl FakeNftables {
    /// A machine without tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// A machine whose kernel has no nf_tables.
    pub fn unsupported() -> Self {
        Self { absent: true, ..Self::default() }
    }

    /// The output of `nft list ruleset`.
    pub fn dump(&self) -> String {
        self.tables.iter().map(listing::table).collect()
    }

    /// Lets the transaction of this number, counted from 1 over the fake's life, fail for an outside reason.
    pub fn fail_commit(&mut self, number: usize) {
        self.failing = Some(number);
    }

    /// Lets someone else carry out a transaction just before the one of this number.
    pub fn before_commit(&mut self, number: usize, transaction: Transaction) {
        self.interference.push((number, transaction));
    }

    /// Lets someone else load all tables again just before the transaction of this number: handles start again at 1.
    pub const fn reload_before_commit(&mut self, number: usize) {
        self.reload = Some(number);
    }

    /// The number of transactions that were tried.
    pub const fn commits(&self) -> usize {
        self.commits
    }

    /// The last transaction that was tried.
    pub const fn last_commit(&self) -> Option<&Transaction> {
        self.last.as_ref()
    }

    /// The number of transactions that needed the program `nft`.
    pub const fn scripts(&self) -> usize {
        self.scripts
    }

    /// The number of chains and sets that were read.
    pub const fn lists(&self) -> usize {
        self.lists
    }

    fn load_again(&mut self) {
        let rules = self.tables.iter_mut().flat_map(|table| &mut table.chains).flat_map(|chain| &mut chain.rules);
        self.handles = rules.zip(1..).map(|((handle, _), number)| *handle = number).count() as u64;
        self.generation += 1;
    }

    fn apply(&mut self, transaction: &Transaction) -> Result<(), String> {
        let (tables, handles) = (self.tables.clone(), self.handles);
        let done = transaction.ops.iter().try_for_each(|op| self.carry_out(op));
        match done {
            Ok(()) => self.generation += 1,
            Err(_) => (self.tables, self.handles) = (tables, handles),
        }
        done
    }

    fn carry_out(&mut self, op: &NftChange) -> Result<(), String> {
        let command = op.command();
        let refuse = |reason: &str| Err(format!("{command}: {reason}"));
        match op {
            NftChange::AddTable(table) => {
                if self.table(&table.id).is_none() {
                    self.tables.push(FakeTable { table: table.clone(), chains: Vec::new(), sets: FakeSets::default() });
                }
            }
            NftChange::AddChain(chain) => return self.add_chain(chain, &command),
            NftChange::AddSet(set) => match self.table(&set.id.table) {
                Some(table) => table.sets.add(set),
                None => return refuse("no such table"),
            },
            NftChange::AddElements(elements) => match self.table(&elements.set.table) {
                Some(table) => return table.sets.put(elements).or_else(refuse),
                None => return refuse("no such table"),
            },
            NftChange::DeleteElements(elements) => match self.table(&elements.set.table) {
                Some(table) => return table.sets.take(elements).or_else(refuse),
                None => return refuse("no such table"),
            },
            NftChange::FlushChain(id) => match self.chain(id) {
                Some(chain) => chain.rules.clear(),
                None => return refuse("no such chain"),
            },
            NftChange::DeleteChain(id) => return self.delete_chain(id, &command),
            NftChange::AddRule(rule) => return self.add_rule(rule, &command),
            NftChange::DeleteRule(id, handle) => {
                let rules = self.chain(id).map(|chain| &mut chain.rules);
                let at = rules.as_ref().and_then(|rules| rules.iter().position(|(number, _)| number == handle));
                match (rules, at) {
                    (Some(rules), Some(at)) => drop(rules.remove(at)),
                    (Some(_) | None, _) => return refuse("no such rule"),
                }
            }
        }
        Ok(())
    }

    fn table(&mut self, id: &TableId) -> Option<&mut FakeTable> {
        self.tables.iter_mut().find(|table| table.table.id == *id)
    }

    fn chain(&mut self, id: &ChainId) -> Option<&mut FakeChain> {
        self.table(&id.table)?.chains.iter_mut().find(|chain| chain.chain.id == *id)
    }

    fn add_chain(&mut self, chain: &NftChain, command: &str) -> Result<(), String> {
        let Some(table) = self.table(&chain.id.table) else { return Err(format!("{command}: no such table")) };
        if !table.chains.iter().any(|have| have.chain.id == chain.id) {
            table.chains.push(FakeChain { chain: chain.clone(), rules: Vec::new() });
        }
        Ok(())
    }

    fn delete_chain(&mut self, id: &ChainId, command: &str) -> Result<(), String> {
        let Some(table) = self.table(&id.table) else { return Err(format!("{command}: no such table")) };
        let others = table.chains.iter().filter(|chain| chain.chain.id != *id);
        if others.flat_map(|chain| &chain.rules).any(|(_, rule)| leads_to(rule, id)) {
            return Err(format!("{command}: in use"));
        }
        let before = table.chains.len();
        table.chains.retain(|chain| chain.chain.id != *id);
        if table.chains.len() < before { Ok(()) } else { Err(format!("{command}: no such chain")) }
    }

    fn add_rule(&mut self, rule: &NftRule, command: &str) -> Result<(), String> {
        let targets = rule
            .expressions
            .iter()
            .filter_map(Expression::leads_to)
            .map(|name| rule.chain.table.chain_named(name.clone()));
        for target in targets.chain([rule.chain.clone()]) {
            if self.chain(&target).is_none() {
                return Err(format!("{command}: no chain {target}"));
            }
        }
        let named: Vec<_> = rule.expressions.iter().filter_map(Expression::looks_in).collect();
        if !self.table(&rule.chain.table).is_some_and(|table| named.iter().all(|name| table.sets.has(name))) {
            return Err(format!("{command}: no such set"));
        }
        self.handles += 1;
        let handle = self.handles;
        if let Some(chain) = self.chain(&rule.chain) {
            chain.rules.push((handle, rule.clone()));
        }
        Ok(())
    }
}

fn leads_to(rule: &NftRule, chain: &ChainId) -> bool {
    rule.expressions.iter().filter_map(Expression::leads_to).any(|name| *name == chain.name)
}

fn listed((handle, rule): &(u64, NftRule)) -> ListedRule {
    ListedRule {
        handle: *handle,
        comment: rule.comment.as_ref().map(ToString::to_string),
        expressions: Some(rule.expressions.clone()).filter(|_| !rule.has_words()),
    }
}

fn unsupported(operation: String) -> NftablesError {
    NftablesError::Unsupported { operation, source: "protocol not supported".into() }
}

impl Nftables for FakeNftables {
    fn list(&mut self, chain: &ChainId) -> Result<Option<Vec<ListedRule>>, NftablesError> {
        self.lists += 1;
        if self.absent {
            return Err(unsupported(format!("list chain {chain}")));
        }
        Ok(self.chain(chain).map(|chain| chain.rules.iter().map(listed).collect()))
    }

    fn held(&mut self, elements: &SetElements) -> Result<Option<Vec<IpAddr>>, NftablesError> {
        self.lists += 1;
        if self.absent {
            return Err(unsupported(format!("look into set {}", elements.set)));
        }
        Ok(self.table(&elements.set.table).and_then(|table| table.sets.among(elements)))
    }

    fn generation(&mut self) -> Result<Generation, NftablesError> {
        if self.absent { Err(unsupported("read the generation".to_owned())) } else { Ok(Generation(self.generation)) }
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<(), TransactionError> {
        transaction.script().map_err(TransactionError::Failed)?;
        self.commits += 1;
        self.last = Some(transaction.clone());
        self.scripts += usize::from(transaction.has_words());
        let operation = "commit".to_owned();
        if self.absent {
            return Err(TransactionError::Failed(unsupported(operation)));
        }
        if self.failing == Some(self.commits) {
            let source = "as it was told to".into();
            return Err(TransactionError::Failed(NftablesError::Kernel { operation, source }));
        }
        let refused = |text: String| {
            TransactionError::Refused(NftablesError::Kernel { operation: "commit".to_owned(), source: text.into() })
        };
        let (due, later) = self.interference.drain(..).partition(|(number, _)| *number == self.commits);
        self.interference = later;
        due.iter().try_for_each(|(_, other): &(usize, Transaction)| self.apply(other)).map_err(refused)?;
        if self.reload == Some(self.commits) {
            self.load_again();
        }
        if transaction.since.is_some_and(|Generation(since)| since != self.generation) {
            return Err(refused("there has been a change".to_owned()));
        }
        self.apply(transaction).map_err(refused)
    }
}

#[cfg(test)]
mod tests;
