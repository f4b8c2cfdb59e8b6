//! The macvlan plugin: what only it has. What it shares with vlan and ipvlan is in `on_a_master`.

mod check;
mod del;
mod traffic;
