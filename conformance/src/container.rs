//! A container as plugins see it: a named network namespace.
//!
//! No process needs to run in it. A test runs its commands inside by the methods of [`Namespace`].

use std::ops::Deref;

use crate::namespace::Namespace;

/// A network namespace mounted under `/run/netns`; it derefs to [`Namespace`].
#[derive(Debug, Clone)]
pub struct Container(Namespace);

impl Container {
    /// Makes a container on the machine of the calling thread; its programs are searched in these folders.
    pub fn create(name: &str, search: &str) -> Self {
        Self(Namespace::create(name, search))
    }
}

impl Deref for Container {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.0
    }
}
