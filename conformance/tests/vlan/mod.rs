//! The vlan plugin: what only it has. What it shares with ipvlan and macvlan is in `on_a_master`.

mod keys;
