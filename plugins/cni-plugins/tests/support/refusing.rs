//! A host that refuses one change, and passes everything else on to the real one.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::request::{Command, Request};
use cni_linux::host::LinuxHost;
use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use cni_model::link::{Address, Link};
use cni_model::netns::NetnsError;
use cni_model::plan::{Ns, Step};
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;
use cni_plugin::host::{Devices, Files, Host, LinkQuery, NamespaceState, Routing};
use cni_plugin::ledger::Ledger;
use cni_plugin::lock::LockName;

/// The real host behind one refusal.
pub struct RefusingHost {
    host: LinuxHost,
    before_refusal: Option<usize>,
}

impl RefusingHost {
    /// Refuses the change of a number, counted from zero; delegating ADD is a change as well.
    pub fn new(host: LinuxHost, refused: usize) -> Self {
        Self { host, before_refusal: Some(refused) }
    }

    fn count(&mut self, step: &dyn Fn() -> String) -> Result<(), Error> {
        match self.before_refusal {
            Some(0) => {
                self.before_refusal = None;
                let step = step();
                Err(fail!(Kernel, "refused by the test: {step}"))
            }
            Some(before) => {
                self.before_refusal = Some(before - 1);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl Host for RefusingHost {
    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        self.host.enter(path)
    }

    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error> {
        self.host.is_own_netns(path)
    }

    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
        self.host.links(ns, query)
    }

    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error> {
        self.host.addresses(ns, index, family)
    }

    fn routing(&mut self) -> &mut dyn Routing {
        self.host.routing()
    }

    fn devices(&mut self) -> &mut dyn Devices {
        self.host.devices()
    }

    fn namespaces(&mut self) -> &mut dyn NamespaceState {
        self.host.namespaces()
    }

    fn ledger(&mut self) -> &mut dyn Ledger {
        self.host.ledger()
    }

    fn files(&mut self) -> &mut dyn Files {
        self.host.files()
    }

    fn lock(&mut self, name: &LockName) -> Result<(), Error> {
        self.host.lock(name)
    }

    fn netfilter(&mut self, ns: Ns) -> Result<&mut dyn Netfilter, Error> {
        self.host.netfilter(ns)
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        self.host.firewalld()
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        self.count(&|| step.to_string())?;
        self.host.apply(step)
    }

    fn delegate(&mut self, plugin: &str, command: Command, other: Option<&Request>) -> Result<Vec<u8>, Error> {
        if command == Command::Add {
            self.count(&|| format!("delegate ADD to {plugin}"))?;
        }
        self.host.delegate(plugin, command, other)
    }

    fn ask_daemon(&mut self, call: &DaemonCall, patience: AnswerTimeout<'_>) -> Result<Vec<u8>, DaemonError> {
        self.host.ask_daemon(call, patience)
    }

    fn random(&mut self) -> [u8; 8] {
        self.host.random()
    }
}
