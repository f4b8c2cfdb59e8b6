//! A survey of the network namespaces of the machine: which links and addresses are in them.
//!
//! It looks into each namespace that a thread is in or that a process holds open, that is mounted in any mount namespace, and
//! that has a number for this one. What it could not see it says: only a survey without gaps shows that something is nowhere.
//! It does not see a namespace that only a socket holds, or a descriptor on its way between processes.

use std::collections::BTreeSet;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;

use cni_core::error::Error;
use cni_core::fail;
use cni_kernel::netlink::{Dump, NetlinkError, Socket};
use cni_kernel::netns::Netns;
use cni_model::link::Link;
use cni_model::netns::{NetnsError, NetnsView};

use crate::inhabitants::hidden_processes;
use crate::ledger::identity_of;

mod limits;
mod mount_namespaces;
mod paths;

pub use limits::Gaps;
use limits::Limits;
use paths::Paths;

/// How often the machine is looked at, if a namespace cannot be opened by the paths that were seen.
const ROUNDS: usize = 3;

/// How often DEL asks for the links of a namespace that change meanwhile.
const QUESTIONS: usize = 3;

/// So many namespaces are kept open for DEL.
const MOST_KEPT: usize = 64;

/// What a survey looks for.
#[derive(Clone, Copy, Debug)]
pub enum SurveyScope<'s> {
    /// All links and addresses, however long it takes, except in namespaces of users other than root and this one: any user can show
    /// what looks like a container there, or what cannot be opened.
    Everything { user: u32 },
    /// The links of a kind, or hardware for `None`, within a time limit: DEL waits for it, and any user of the machine can
    /// make namespaces and fill them.
    Links(Option<&'s str>),
}

/// What was found.
#[derive(Debug, Default)]
pub struct NetnsSurvey {
    /// Every network namespace; of a survey for links, those that have such links.
    pub views: Vec<NetnsView>,
    /// What could not be seen.
    pub gaps: Gaps,
    /// Paths of the views lead there for as long as these are open.
    pub kept: Vec<OwnedFd>,
}

impl NetnsSurvey {
    /// Looks at the whole machine.
    pub fn take(scope: SurveyScope<'_>) -> Self {
        let mut found = Self::default();
        match (hidden_processes(), scope) {
            (Some(reason), SurveyScope::Everything { .. }) => found.gaps.add(reason),
            // It is so for every DEL on this machine.
            (Some(reason), SurveyScope::Links(_)) => {
                log::info!("not all processes of the machine can be seen: {reason}")
            }
            (None, _) => {}
        }
        match Surveyor::new(scope) {
            Ok(surveyor) => surveyor.look(found),
            Err(error) => {
                found.gaps.add(error.in_full());
                found
            }
        }
    }
}

/// A survey at work.
struct Surveyor<'s> {
    scope: SurveyScope<'s>,
    limits: Limits,
    own: Socket,
    /// The numbers of namespaces that were not looked into.
    numbers: BTreeSet<i32>,
    /// The names of namespaces that were looked into.
    seen: BTreeSet<String>,
    found: NetnsSurvey,
}

impl<'s> Surveyor<'s> {
    fn new(scope: SurveyScope<'s>) -> Result<Self, Error> {
        let limits = match scope {
            SurveyScope::Everything { user } => Limits { user: Some(user), ..Limits::NONE },
            SurveyScope::Links(_) => Limits::of_del(),
        };
        let mut own = Socket::open()?;
        own.set_deadline(limits.deadline);
        let numbers = own.numbered_netns()?.into_iter().collect();
        Ok(Self { scope, limits, own, numbers, seen: BTreeSet::new(), found: NetnsSurvey::default() })
    }

    fn look(mut self, begun: NetnsSurvey) -> NetnsSurvey {
        self.found = begun;
        for round in 1..=ROUNDS {
            let mut paths = Paths::new(self.limits, self.seen.clone());
            paths.observe_threads();
            let mut vanished = self.visit_all(&mut paths);
            paths.observe_hidden();
            vanished.extend(self.visit_all(&mut paths));
            self.found.kept.append(&mut paths.roots);
            if vanished.is_empty() || round == ROUNDS || self.limits.are_reached() {
                self.visit_remaining(vanished);
                self.found.gaps.merge(paths.gaps);
                break;
            }
        }
        for number in std::mem::take(&mut self.numbers) {
            if !self.limits.are_reached() {
                self.visit_number(number);
            }
        }
        if self.limits.are_reached() {
            self.found.gaps.add("the time limit is reached");
        }
        self.found
    }

    /// Looks once more for namespaces that could not be opened, and opens each as soon as a path to it is seen: any user can make many
    /// that last for a moment, or move from process to process. One that still exists and cannot be opened is a gap. A survey for
    /// links, which has little time, does not look again: all of them are gaps.
    fn visit_remaining(&mut self, mut vanished: Vec<String>) {
        let mut again = Paths::new(self.limits, self.seen.clone()).opening(&vanished);
        let is_thorough = matches!(self.scope, SurveyScope::Everything { .. });
        if is_thorough && !vanished.is_empty() && !self.limits.are_reached() {
            again.observe_threads();
            again.observe_hidden();
            let found = again.take();
            vanished.retain(|name| found.contains_key(name) && !again.opened.contains_key(name));
        }
        vanished.iter().for_each(|name| self.found.gaps.add(format!("{name} cannot be opened")));
        self.found.gaps.merge(std::mem::take(&mut again.gaps));
        for (name, netns) in again.opened.into_iter().filter_map(|(name, netns)| Some((name, netns?))) {
            if let Err(error) = self.look_inside(netns, &[]) {
                self.found.gaps.add(format!("{name}: {}", error.in_full()));
            }
        }
    }

    /// Looks into the namespaces that were found. Returns the names of those that could not be opened.
    fn visit_all(&mut self, paths: &mut Paths) -> Vec<String> {
        let mut vanished = Vec::new();
        for (name, places) in paths.take() {
            if self.limits.are_reached() {
                break;
            }
            if self.visit(&name, &places) {
                self.seen.insert(name);
            } else {
                vanished.push(name);
            }
        }
        vanished
    }

    /// Looks into a namespace by one of its paths. Returns whether it could be opened.
    fn visit(&mut self, name: &str, paths: &[PathBuf]) -> bool {
        let mut refused = None;
        for path in paths {
            let netns = match Netns::open(path) {
                Ok(netns) => netns,
                Err(NetnsError::Gone { .. }) => continue,
                Err(error @ NetnsError::Failed { .. }) => {
                    refused = Some(Error::from(error).in_full());
                    continue;
                }
            };
            if netns.name().ok().as_deref() != Some(name) {
                continue;
            }
            if let Err(error) = self.look_inside(netns, paths) {
                self.found.gaps.add(format!("{}: {}", path.display(), error.in_full()));
            }
            return true;
        }
        let is_refused = refused.is_some();
        refused.into_iter().for_each(|refused| self.found.gaps.add(refused));
        is_refused
    }

    fn look_inside(&mut self, netns: Netns, paths: &[PathBuf]) -> Result<(), Error> {
        let number = if self.numbers.is_empty() { None } else { self.own.netns_id(netns.as_fd())? };
        number.inspect(|number| {
            self.numbers.remove(number);
        });
        match self.scope {
            // One with a number has a link whose other end is on the host, or that was moved from there.
            SurveyScope::Everything { .. } if number.is_none() && self.limits.exclude(&netns) => Ok(()),
            SurveyScope::Everything { .. } => self.look_at_all(&netns, paths),
            SurveyScope::Links(kind) => self.look_for_links(kind, netns, number, paths),
        }
    }

    /// The links of a namespace count, even if its addresses change all the time and cannot be listed.
    fn look_at_all(&mut self, netns: &Netns, paths: &[PathBuf]) -> Result<(), Error> {
        let mut socket = enter(netns)?;
        let identity = identity_of(socket.netns_cookie()?)?;
        let (links, addresses) = (socket.links()?, socket.addresses(None, None));
        let (addresses, failure) = addresses.map_or_else(|error| (Vec::new(), Err(error)), |found| (found, Ok(())));
        self.found.views.push(NetnsView { paths: texts(paths), identity, links, addresses });
        Ok(failure?)
    }

    /// Enters only a namespace without a number. Only one with such links is of use.
    fn look_for_links(
        &mut self,
        kind: Option<&str>,
        netns: Netns,
        number: Option<i32>,
        paths: &[PathBuf],
    ) -> Result<(), Error> {
        let links = match number {
            Some(_) => self.links(None, kind, number)?,
            None => {
                let mut inside = enter(&netns)?;
                inside.set_deadline(self.limits.deadline);
                self.links(Some(&mut inside), kind, None)?
            }
        };
        if links.is_empty() {
            return Ok(());
        }
        let identity = identity_of(enter(&netns)?.netns_cookie()?)?;
        let mut paths = texts(paths);
        if paths.is_empty() {
            paths.extend(self.keep(netns));
        }
        self.found.views.push(NetnsView { paths, identity, links, ..NetnsView::default() });
        Ok(())
    }

    /// Lists links of a kind, by a socket in their namespace, or by its number. One that only changes meanwhile is a gap,
    /// although most of its links are seen.
    fn links(
        &mut self,
        inside: Option<&mut Socket>,
        kind: Option<&str>,
        number: Option<i32>,
    ) -> Result<Vec<Link>, NetlinkError> {
        let socket = inside.unwrap_or(&mut self.own);
        let mut links = Vec::new();
        for _ in 0..QUESTIONS {
            match socket.links_once(kind, number)? {
                Dump::Whole(found) => return Ok(found),
                Dump::Interrupted(found) => links = found,
            }
        }
        self.found.gaps.add("the links of a network namespace change all the time");
        Ok(links)
    }

    /// Keeps a namespace open that no text leads to. Returns a path that does.
    fn keep(&mut self, netns: Netns) -> Option<String> {
        if self.found.kept.len() >= MOST_KEPT {
            self.found.gaps.add(format!("more than {MOST_KEPT} network namespaces have names that are not UTF-8"));
            return None;
        }
        let kept = OwnedFd::from(netns);
        let path = format!("/proc/self/fd/{}", kept.as_raw_fd());
        self.found.kept.push(kept);
        Some(path)
    }

    /// Looks into a namespace that has no path.
    fn visit_number(&mut self, number: i32) {
        let seen = match self.scope {
            SurveyScope::Everything { .. } => self.numbered(number),
            SurveyScope::Links(kind) => self
                .links(None, kind, Some(number))
                .map(|links| (!links.is_empty()).then(|| NetnsView { links, ..NetnsView::default() })),
        };
        match seen {
            Ok(view) => self.found.views.extend(view),
            Err(error) => self.found.gaps.add(Error::from(error).in_full()),
        }
    }

    /// What is in a namespace that has a number; `None` if it has ended.
    fn numbered(&mut self, number: i32) -> Result<Option<NetnsView>, NetlinkError> {
        let Some(links) = self.own.numbered_links(number)? else { return Ok(None) };
        let addresses = self.own.numbered_addresses(number)?;
        Ok(addresses.map(|addresses| NetnsView { links, addresses, ..NetnsView::default() }))
    }
}

fn enter(netns: &Netns) -> Result<Socket, Error> {
    let opened = netns.inside(Socket::open);
    Ok(opened.map_err(|source| fail!(Kernel, "failed to enter the network namespace", details: "{source}"))??)
}

/// The paths that are texts.
fn texts(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().filter_map(|path| path.to_str()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What only root can set up.
    mod as_root {
        use std::io::{BufRead as _, BufReader};
        use std::os::unix::process::CommandExt as _;
        use std::process::{Command, Stdio};
        use std::sync::mpsc;

        use cni_core::names::IfName;
        use cni_model::plan::{IfPresent, LinkKind, NewLink};
        use nix::sched::{CloneFlags, unshare};

        use super::*;

        const EVERYTHING: SurveyScope<'_> = SurveyScope::Everything { user: 0 };
        const USER: u32 = 65534;

        #[test]
        fn a_search_for_links_finds_them_where_a_thread_is_and_lists_no_addresses() {
            let (ready, is_ready) = mpsc::channel();
            let (end, has_ended) = mpsc::channel::<()>();
            let thread = std::thread::spawn(move || {
                unshare(CloneFlags::CLONE_NEWNET).expect("root may");
                let (name, kind) = (IfName::parse("br0").expect("a name"), LinkKind::Bridge { vlan_filtering: false });
                let bridge = NewLink { name, mac: None, mtu: None, if_present: IfPresent::Refuse, kind };
                let mut socket = Socket::open().expect("a socket");
                socket.set_link_up(1).expect("lo is up");
                socket.create_link(&bridge, None).expect("a bridge");
                ready.send(nix::unistd::gettid()).expect("sent");
                has_ended.recv().expect_err("the test ends");
            });
            let number = is_ready.recv().expect("a thread");
            let path = format!("/proc/{}/task/{number}/ns/net", std::process::id());
            let views = |kind| {
                let mut views = NetnsSurvey::take(SurveyScope::Links(Some(kind))).views;
                views.retain(|view| view.paths.contains(&path));
                views
            };
            let [view] = &views("bridge")[..] else { panic!("one namespace") };
            assert_eq!(view.links.iter().map(|link| &*link.name).collect::<Vec<_>>(), ["br0"]);
            assert_eq!((view.addresses.len(), view.identity.is_some()), (0, true));
            assert_eq!(views("dummy"), []);
            drop(end);
            thread.join().expect("no panic");
        }

        /// A process of a user, in namespaces of its own.
        struct User(std::process::Child);

        impl User {
            /// Starts a program of the shell, and waits for its first line, which it returns.
            fn start(program: &str) -> (Self, String) {
                let mut unshare = Command::new("unshare");
                unshare.args(["--user", "--map-root-user", "--net", "--mount", "sh", "-c", program]);
                let mut user = unshare.uid(USER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
                let mut line = String::new();
                let read = BufReader::new(user.stdout.take().expect("piped")).read_line(&mut line);
                assert!(read.expect("a line") > 0, "it has ended");
                (Self(user), line.trim().to_owned())
            }
        }

        impl Drop for User {
            fn drop(&mut self) {
                drop(self.0.stdin.take());
                self.0.wait().expect("ended");
            }
        }

        /// Any user can make one with the address of a container.
        #[test]
        fn a_namespace_of_another_user_is_neither_seen_nor_a_gap() {
            let (user, _) = User::start("echo made; read -r _");
            let path = format!("/proc/{}/ns/net", user.0.id());
            assert!(Netns::open(&path).expect("opened").is_of_other_user(0));
            assert!(!Netns::own().expect("opened").is_of_other_user(0));
            let has_path = |found: &NetnsSurvey| found.views.iter().any(|view| view.paths.contains(&path));
            let found = NetnsSurvey::take(EVERYTHING);
            assert!(!has_path(&found) && found.gaps.text().is_none_or(|gaps| !gaps.contains(&path)));
            assert!(has_path(&NetnsSurvey::take(SurveyScope::Everything { user: USER })));
        }

        /// It is mounted below another mount, so that nobody can open it.
        #[test]
        fn what_a_user_has_mounted_and_covered_is_no_gap() {
            let (_user, name) = User::start(
                "name=$(readlink /proc/self/ns/net) && mount -t tmpfs t /mnt && touch /mnt/x && \
                 mount --bind /proc/self/ns/net /mnt/x && mount -t tmpfs t /mnt && \
                 exec unshare --net sh -c 'echo $0; read -r _' \"$name\"",
            );
            let is_found = |user| {
                let mut paths = Paths::new(Limits { user, ..Limits::NONE }, BTreeSet::new());
                paths.observe_threads();
                paths.observe_hidden();
                paths.take().contains_key(&name)
            };
            assert_eq!((is_found(None), is_found(Some(0))), (true, false), "{name}");
        }
    }
}
