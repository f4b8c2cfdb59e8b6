//! The vlan plugin: what it alone has. What it shares with ipvlan and macvlan is in `on_a_master`.

mod keys;
