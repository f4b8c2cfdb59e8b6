//! Black-box conformance harness for CNI plugins.
//!
//! It knows binaries, their environment, standard streams, exit status and the kernel state that they leave behind,
//! and nothing else of the plugins. A test makes a [`Sandbox`], which gives its thread a network and a mount namespace
//! of its own, runs plugins in it through an [`Invocation`], the small runtime [`Runtime`] or the real `cnitool`, and
//! compares [`State`] snapshots or sends traffic. Everything here panics with a message that names the thing and its
//! value: a harness that cannot do its work must fail the test.

pub mod binaries;
pub mod case;
pub mod cases;
pub mod child;
pub mod cnitool;
pub mod compare;
pub mod container;
pub mod declared_keys;
pub mod drawn;
pub mod firewalld;
pub mod flannel;
pub mod guest;
pub mod injection;
pub mod kernel;
pub mod keys;
pub mod leases;
pub mod list_host;
pub mod losses;
pub mod namespace;
pub mod network;
pub mod nomad;
pub mod numbers;
pub mod outside;
pub mod page;
pub mod plugin;
pub mod plugins;
pub mod ports;
pub mod processes;
pub mod reference;
pub mod result_cache;
pub mod runtime;
pub mod sandbox;
pub mod script;
pub mod stand_in;
pub mod state;
pub mod table;
pub mod traffic;
pub mod transcript;
pub mod uml;
pub mod wait;

pub use cnitool::CniTool;
pub use container::Container;
pub use guest::{Guest, GuestScript, GuestSettings};
pub use kernel::Feature;
pub use list_host::ListHost;
pub use losses::Loss;
pub use namespace::Namespace;
pub use network::Network;
pub use nomad::{Hairpin, Nomad, Subnets};
pub use outside::Outside;
pub use plugin::{CniError, Invocation, Outcome, Verb, at_once};
pub use ports::{PortMapping, Spelling};
pub use runtime::{Attachment, Chain, Runtime};
pub use sandbox::{Flavour, Sandbox};
pub use state::State;
