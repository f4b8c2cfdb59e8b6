//! A host with one configuration list, called as by a runtime.

use serde_json::Value;

use crate::{Attachment, Container, Runtime, Sandbox};

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

    /// # Panics
    /// When DEL fails.
    #[track_caller]
    pub fn del(&self, attachment: &Attachment) {
        self.runtime().del(attachment).expect_success();
    }
}
