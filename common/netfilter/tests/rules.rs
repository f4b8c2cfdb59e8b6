//! Rules as values: what is made, mended and removed. The tables are given, and note what is asked of them.

mod iptables;
mod nftables;
