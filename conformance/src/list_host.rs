//! A host with one configuration list, called as by a runtime.

use serde_json::Value;

use crate::{Attachment, Chain, Container, Namespace, Runtime, Sandbox, Skeleton, State};

/// A sandbox and the list of its network.
pub struct ListHost {
    pub sandbox: Sandbox,
    pub list: Value,
}

impl ListHost {
    pub fn new(list: Value) -> Self {
        Self { sandbox: Sandbox::new(), list }
    }

    pub fn runtime(&self) -> Runtime<'_> {
        Runtime::new(&self.sandbox, self.list.clone())
    }

    /// Attaches a new container.
    ///
    /// # Panics
    /// When that fails.
    #[track_caller]
    pub fn add(&self, name: &str) -> (Container, Attachment) {
        let container = self.sandbox.container(name);
        let mut attachment = Attachment::new(name, &container);
        self.runtime().add(&mut attachment).expect_success();
        (container, attachment)
    }

    /// Attaches a new container, which may fail.
    pub fn try_to_add(&self, name: &str) -> Chain {
        let container = self.sandbox.container(name);
        self.runtime().add(&mut Attachment::new(name, &container))
    }

    /// # Panics
    /// When CHECK fails.
    #[track_caller]
    pub fn check(&self, attachment: &Attachment) {
        self.runtime().check(attachment).expect_success();
    }

    /// # Panics
    /// When DEL fails.
    #[track_caller]
    pub fn del(&self, attachment: &Attachment) {
        self.runtime().del(attachment).expect_success();
    }

    /// The host and some containers.
    pub fn state_with(&self, containers: &[&Container]) -> State {
        let containers: Vec<&Namespace> = containers.iter().map(|container| &***container).collect();
        State::capture(&self.sandbox, &containers)
    }

    /// The state of the host, without containers.
    pub fn state(&self) -> State {
        self.state_with(&[])
    }

    /// Requires that the host, and some containers, are unchanged, except the state of host-local.
    ///
    /// # Panics Otherwise, with the differences.
    #[track_caller]
    pub fn is_as_before(&self, before: &State, containers: &[&Container]) {
        let shared = Skeleton::on_bridge("none").with_leases("/run/cni/net1", 2);
        shared.assert_nothing_else(before, || self.state_with(containers));
    }
}
