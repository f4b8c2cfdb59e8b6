//! Tables and chains in memory.

use cni_netfilter::nftables::{NftChain, NftRule, NftTable};

use super::sets::FakeSets;

/// A chain with its rules and their handles.
#[derive(Clone, Debug)]
pub(super) struct FakeChain {
    pub(super) chain: NftChain,
    pub(super) rules: Vec<(u64, NftRule)>,
}

/// A table with its chains.
#[derive(Clone, Debug)]
pub(super) struct FakeTable {
    pub(super) table: NftTable,
    pub(super) chains: Vec<FakeChain>,
    pub(super) sets: FakeSets,
}
