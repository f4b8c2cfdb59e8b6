//! Rules as values: what is missing, what is made, what is removed.

mod iptables;
mod nftables;
mod rulesets;
