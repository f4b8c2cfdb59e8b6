//! Implements [`Host`]: sends each request to the right namespace. `observe.rs` answers questions, `apply.rs` carries
//! out steps.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::rc::Rc;

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::request::{Command, Environment, Request};
use cni_files::{FileError, is_foreign};
use cni_kernel::netlink::Socket;
use cni_kernel::netns::Netns;
use cni_kernel::sysctl;
use cni_model::daemon::{AnswerTimeout, DaemonCall, DaemonError};
use cni_model::link::{Address, KernelRoute, Link, OtherEnd};
use cni_model::netns::{NamespaceNumber, NetnsError, NetnsView, NumberedLink, Occupancy};
use cni_model::plan::{Ns, Step, Sysctl};
use cni_model::routing::{FullRoute, KernelRule};
use cni_model::state_file::{StateFile, StateFileReadError};
use cni_model::traffic::{RedirectPart, TrafficControl};
use cni_model::vlan::BridgeVlan;
use cni_netfilter::Netfilter;
use cni_netfilter::firewalld::Firewalld;
use cni_plugin::host::{Devices, Files, Host, LinkQuery, NamespaceState, Routing};
use cni_plugin::ledger::Ledger;
use cni_plugin::lock::LockName;
use cni_plugin::run::{Plugin, Process, run};
use nix::unistd::{getegid, geteuid};

use crate::delegate::{ContainedPlugins, DelegateAnswer};
use crate::ledger::identity_of;
use crate::machine::Survey;
use crate::netns_survey::{NetnsSurvey, SurveyScope};
use crate::output::of_delegate;
use crate::side::own_netns_failed;
use crate::{apply, delegate, inhabitants, observe, unix};

pub use crate::machine::LinuxHost;

impl Host for LinuxHost {
    fn enter(&mut self, path: &str) -> Result<(), NetnsError> {
        self.enter_container(path)
    }

    fn is_own_netns(&mut self, path: &str) -> Result<bool, Error> {
        self.is_own(path)
    }

    fn links(&mut self, ns: Ns, query: LinkQuery<'_>) -> Result<Vec<Link>, Error> {
        observe::links(self, ns, query)
    }

    fn addresses(&mut self, ns: Ns, index: Option<u32>, family: Option<Family>) -> Result<Vec<Address>, Error> {
        Ok(self.socket(ns)?.addresses(index, family)?)
    }

    fn routing(&mut self) -> &mut dyn Routing {
        self
    }

    fn devices(&mut self) -> &mut dyn Devices {
        self
    }

    fn namespaces(&mut self) -> &mut dyn NamespaceState {
        self
    }

    fn ledger(&mut self) -> &mut dyn Ledger {
        &mut self.ledger
    }

    fn files(&mut self) -> &mut dyn Files {
        self
    }

    /// A delegate works under the locks of the plugin that waits for it.
    fn lock(&mut self, name: &LockName) -> Result<(), Error> {
        if delegate::is_delegate(&self.request) {
            return Ok(());
        }
        Ok(self.locks.take(name)?)
    }

    fn netfilter(&mut self, ns: Ns) -> Result<&mut dyn Netfilter, Error> {
        Ok(self.side(ns)?.netfilter())
    }

    fn firewalld(&mut self) -> &mut dyn Firewalld {
        &mut self.firewalld
    }

    fn apply(&mut self, step: &Step) -> Result<Option<Step>, Error> {
        apply::apply(self, step)
    }

    fn delegate(&mut self, plugin: &str, command: Command, other: Option<&Request>) -> Result<Vec<u8>, Error> {
        delegate::run(plugin, command, other.unwrap_or(&self.request), self.contained)
    }

    fn ask_daemon(&mut self, call: &DaemonCall, patience: AnswerTimeout<'_>) -> Result<Vec<u8>, DaemonError> {
        let container = if call.with_netns { self.side(Ns::Container).ok() } else { None };
        let netns = container.and_then(|side| side.netns().ok());
        unix::ask(call, netns.map(|netns| netns.as_fd()), patience)
    }

    fn random(&mut self) -> [u8; 8] {
        cni_files::random().to_le_bytes()
    }
}

impl Routing for LinuxHost {
    fn routes(&mut self, ns: Ns, family: Family, table: Option<u32>) -> Result<Vec<KernelRoute>, Error> {
        Ok(self.socket(ns)?.routes(family, table)?)
    }

    fn full_routes(&mut self, ns: Ns, family: Family, table: u32) -> Result<Vec<FullRoute>, Error> {
        Ok(self.socket(ns)?.full_routes(family, table)?)
    }

    fn rules(&mut self, ns: Ns, family: Family) -> Result<Vec<KernelRule>, Error> {
        Ok(self.socket(ns)?.rules(family)?)
    }
}

impl Devices for LinuxHost {
    fn entries(&mut self, directory: &Path) -> Result<Option<Vec<String>>, Error> {
        observe::entries(directory)
    }

    fn leads_to(&mut self, link: &Path) -> Result<Option<String>, Error> {
        observe::leads_to(link)
    }

    fn has_link_kind(&mut self, kind: &'static str) -> Result<bool, Error> {
        Ok(self.socket(Ns::Host)?.has_link_kind(kind)?)
    }

    fn other_end(&mut self, ns: Ns, link: &Link) -> Result<Option<OtherEnd>, Error> {
        observe::other_end(self, ns, link)
    }

    fn port_vlans(&mut self, ns: Ns, index: u32) -> Result<Vec<BridgeVlan>, Error> {
        Ok(self.socket(ns)?.bridge_vlans(index)?)
    }

    fn traffic_control(&mut self, ns: Ns, index: u32) -> Result<TrafficControl, Error> {
        Ok(observe::traffic_control(self.socket(ns)?, index)?)
    }

    fn missing_redirect_part(&mut self) -> Result<Option<RedirectPart>, Error> {
        let socket = Netns::inside_new(Socket::open)
            .map_err(|source| fail!(Kernel, "failed to create a network namespace", details: "{source}"))?;
        Ok(observe::missing_part(&mut socket?))
    }
}

impl NamespaceState for LinuxHost {
    fn identity(&mut self, ns: Ns) -> Result<Option<String>, Error> {
        identity_of(self.socket(ns)?.netns_cookie()?)
    }

    fn number_container(&mut self) -> Result<Option<NamespaceNumber>, Error> {
        observe::number_container(self)
    }

    fn numbered_link(&mut self, number: i32, index: u32) -> Result<NumberedLink, Error> {
        Ok(self.socket(Ns::Host)?.numbered_link(number, index)?)
    }

    fn numbered_links(&mut self, number: i32) -> Result<Option<Vec<Link>>, Error> {
        Ok(self.socket(Ns::Host)?.numbered_links(number)?)
    }

    fn numbered_addresses(&mut self, number: i32) -> Result<Option<Vec<Address>>, Error> {
        Ok(self.socket(Ns::Host)?.numbered_addresses(number)?)
    }

    fn path_by_process(&mut self, identity: &str) -> Result<Option<String>, Error> {
        Ok(inhabitants::path_by_process(identity).map_err(FileError::of("list", Path::new("/proc")))?)
    }

    fn occupancy(&mut self, number: i32, index: u32) -> Result<Occupancy, Error> {
        inhabitants::occupancy(number, index, self.socket(Ns::Host)?)
    }

    fn survey(&mut self, kind: Option<&str>) -> Rc<[NetnsView]> {
        let take = || {
            let NetnsSurvey { views, gaps, kept } = NetnsSurvey::take(SurveyScope::Links(kind));
            let gaps = gaps.text();
            gaps.iter()
                .for_each(|gaps| log::warn!("not every network namespace of the machine can be searched: {gaps}"));
            Survey { views: views.into(), gaps, _kept: kept }
        };
        let survey = self.surveys.entry(kind.map(str::to_owned)).or_insert_with(take);
        Rc::clone(&survey.views)
    }

    fn unseen(&mut self, kind: Option<&str>) -> Option<String> {
        self.surveys.get(&kind.map(str::to_owned))?.gaps.clone()
    }

    fn peer_addresses(&mut self, link: &Link) -> Result<Option<Vec<Address>>, Error> {
        Ok(self.socket(Ns::Host)?.peer_addresses(link)?)
    }

    fn keep(&mut self) {
        self.kept.push(self.container.take());
    }

    fn back(&mut self) {
        self.container = self.kept.pop().flatten();
    }

    fn leads_to_container(&mut self, path: &str) -> Result<bool, Error> {
        let container = self.side(Ns::Container)?.netns()?;
        let Ok(netns) = Netns::open(path) else { return Ok(false) };
        container.is_same(&netns).map_err(own_netns_failed)
    }
}

impl Files for LinuxHost {
    fn administrators_file(&mut self, path: &Path) -> Result<Option<String>, Error> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FileError::of("read", path)(source).into()),
        }
    }

    fn state_file(&mut self, file: &StateFile) -> Result<Option<String>, StateFileReadError> {
        let content = cni_files::read_private(&file.path()).map_err(|error| match is_foreign(&error) {
            true => StateFileReadError::Foreign(error.into()),
            false => StateFileReadError::Unreadable(error.into()),
        })?;
        Ok(content.map(|content| String::from_utf8_lossy(&content).into_owned()))
    }

    fn state_file_names(&mut self, directory: &Path) -> Result<Vec<String>, Error> {
        Ok(cni_files::private_names(directory)?)
    }

    fn sysctl(&mut self, ns: Ns, key: &Sysctl) -> Result<Option<String>, Error> {
        self.side(ns)?.within(|| sysctl::read(key)).map_err(|source| {
            let path = sysctl::path(key);
            fail!(Kernel, "failed to read {path}", details: "{source}")
        })
    }

    fn effective_ids(&mut self) -> (u32, u32) {
        (geteuid().as_raw(), getegid().as_raw())
    }
}

/// Replaces the process of a delegate.
struct ContainedProcess<'a> {
    contained: ContainedPlugins,
    stdin: &'a [u8],
    stdout: Vec<u8>,
    stderr: String,
}

impl Process for ContainedProcess<'_> {
    fn read_stdin(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.stdin.to_vec())
    }

    fn write_stdout(&mut self, text: &str) -> io::Result<()> {
        self.stdout.extend(text.as_bytes());
        Ok(())
    }

    fn write_stderr(&mut self, text: &str) {
        self.stderr.push_str(text);
    }

    fn host(&mut self, request: &Request) -> Result<Box<dyn Host>, Error> {
        Ok(Box::new(LinuxHost::new(request).with_contained(self.contained)))
    }
}

/// The parameters of a call inside the process.
#[derive(Clone, Copy, Debug)]
pub struct ContainedCall {
    /// The version of this release.
    pub version: &'static str,
    /// Calls the delegates of the plugin.
    pub contained: ContainedPlugins,
}

/// Calls a plugin of this release, and returns what its process would have printed.
pub fn call_contained(
    plugin: &dyn Plugin,
    call: ContainedCall,
    environment: Environment,
    stdin: &[u8],
) -> DelegateAnswer {
    let ContainedCall { version, contained } = call;
    let mut process = ContainedProcess { contained, stdin, stdout: Vec::new(), stderr: String::new() };
    let (status, said) = of_delegate(plugin.kind(), || run(plugin, version, environment, &mut process));
    DelegateAnswer { is_success: status == 0, stdout: process.stdout, stderr: said + &process.stderr }
}
