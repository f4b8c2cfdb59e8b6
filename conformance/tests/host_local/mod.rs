//! What no script can say of host-local. Everything else is in `conformance/cases/host-local`.

mod killed;
