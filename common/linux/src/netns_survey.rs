//! A survey of the network namespaces of the machine: which links and addresses are in them.
//!
//! It looks into each namespace that a process is in or holds open, that is mounted in any mount namespace, and that has a
//! number for this one. What it could not see it says: only a survey without gaps shows that something is nowhere.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd as _;

use cni_core::error::Error;
use cni_kernel::netlink::Socket;
use cni_kernel::netns::Netns;
use cni_model::netns::{NetnsError, NetnsView};

use crate::hidden_processes::hidden_processes;
use crate::identity::{IdentityError, identity_of};

mod gaps;
mod paths;

pub use gaps::Gaps;
use paths::Paths;

/// How often the machine is looked at, if a namespace cannot be opened by the paths that were seen.
const ROUNDS: usize = 3;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct NetnsSurvey {
    /// Every network namespace.
    pub views: Vec<NetnsView>,
    /// What could not be seen.
    pub gaps: Gaps,
}

impl NetnsSurvey {
    /// Looks at the whole machine.
    pub fn take() -> Self {
        let mut found = Self::default();
        if let Some(reason) = hidden_processes() {
            found.gaps.add(reason);
        }
        if let Err(error) = found.look() {
            found.gaps.add(error.in_full());
        }
        found
    }

    fn look(&mut self) -> Result<(), Error> {
        let mut own = Socket::open()?;
        let mut numbers: BTreeSet<i32> = BTreeSet::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for round in 1..=ROUNDS {
            let paths = Paths::observe(&seen);
            let vanished: Vec<_> =
                paths.by_name.iter().filter(|one| !self.visit(*one, &mut own, &mut numbers)).collect();
            let is_vanished = |name: &String| vanished.iter().any(|(one, _)| *one == name);
            seen.extend(paths.by_name.keys().filter(|name| !is_vanished(name)).cloned());
            if vanished.is_empty() || round == ROUNDS {
                vanished.iter().for_each(|(name, _)| self.gaps.add(format!("{name} cannot be opened")));
                self.gaps.merge(paths.gaps);
                break;
            }
        }
        for number in own.numbered_netns()?.into_iter().filter(|number| !numbers.contains(number)) {
            self.visit_number(number, &mut own);
        }
        Ok(())
    }

    /// Looks into a namespace by one of its paths. Returns whether it could be opened.
    fn visit(&mut self, (name, paths): (&String, &Vec<String>), own: &mut Socket, numbers: &mut BTreeSet<i32>) -> bool {
        for path in paths {
            let netns = match Netns::open(path) {
                Ok(netns) => netns,
                Err(NetnsError::Gone { .. }) => continue,
                Err(error @ NetnsError::Failed { .. }) => {
                    self.gaps.add(Error::from(error).in_full());
                    return true;
                }
            };
            if netns.name().ok().as_ref() != Some(name) {
                continue;
            }
            match own.netns_id(netns.as_fd()) {
                Ok(number) => numbers.extend(number),
                Err(error) => self.gaps.add(format!("{path}: {}", Error::from(error).in_full())),
            }
            if let Err(error) = self.look_inside(&netns, paths) {
                self.gaps.add(format!("{path}: {}", error.in_full()));
            }
            return true;
        }
        false
    }

    /// The links of a namespace count, even if its addresses change all the time and cannot be listed.
    fn look_inside(&mut self, netns: &Netns, paths: &[String]) -> Result<(), Error> {
        let mut socket = netns.inside(Socket::open).map_err(SurveyError::Enter)??;
        let identity = socket.netns_cookie().map_err(IdentityError::Cookie)?.map(identity_of).transpose()?;
        let (links, addresses) = (socket.links()?, socket.addresses(None, None));
        let (addresses, failure) = addresses.map_or_else(|error| (Vec::new(), Err(error)), |found| (found, Ok(())));
        self.views.push(NetnsView { paths: paths.to_vec(), identity, links, addresses });
        Ok(failure?)
    }

    fn visit_number(&mut self, number: i32, own: &mut Socket) {
        let asked = own.numbered_links(number).and_then(|links| Ok((links, own.numbered_addresses(number)?)));
        match asked {
            Ok((Some(links), Some(addresses))) => {
                self.views.push(NetnsView { links, addresses, ..NetnsView::default() });
            }
            // It has ended.
            Ok((None, _) | (_, None)) => {}
            Err(error) => self.gaps.add(Error::from(error).in_full()),
        }
    }
}

/// Why a namespace was not looked into.
#[derive(Debug, thiserror::Error)]
enum SurveyError {
    #[error("failed to enter the network namespace")]
    Enter(#[source] io::Error),
}

impl cni_core::error::Failure for SurveyError {
    fn code(&self) -> cni_core::error::Code {
        cni_core::error::Code::Kernel
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What only root can set up.
    mod as_root {
        use std::fs;
        use std::net::IpAddr;

        use nix::sched::{CloneFlags, unshare};

        use super::*;
        use cni_kernel::netns::OWN_NETNS;

        /// A namespace whose only user is a descriptor of this process.
        #[test]
        fn a_namespace_that_is_only_held_open_is_found_with_its_addresses() {
            let held = std::thread::spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET).expect("root may");
                let mut socket = Socket::open().expect("a socket");
                socket.set_link_up(1).expect("lo is up");
                fs::File::open(OWN_NETNS).expect("open")
            });
            let held = held.join().expect("no panic");
            let name = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held)));
            let name = name.expect("a name").to_str().expect("text").to_owned();
            assert!(Paths::observe(&BTreeSet::new()).by_name.contains_key(&name), "{name}");
            let loopback = IpAddr::from([127, 0, 0, 1]);
            let is_found = |view: &NetnsView| {
                let leads_there =
                    view.paths.iter().any(|path| fs::read_link(path).is_ok_and(|it| it.to_str() == Some(&*name)));
                leads_there && view.addresses.iter().any(|address| address.cidr.address() == loopback)
            };
            assert!(NetnsSurvey::take().views.iter().any(is_found));
        }
    }
}
