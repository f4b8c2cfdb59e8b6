//! The macvlan plugin: what it alone has. What it shares with vlan and ipvlan is in `on_a_master`.

mod check;
mod del;
mod traffic;
