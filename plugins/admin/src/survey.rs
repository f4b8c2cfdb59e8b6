//! A survey of the network namespaces of the machine: which links and addresses are in them.
//!
//! It looks into each namespace that a process is in or holds open, that is mounted in any mount namespace, and that has a
//! number for this one. What it could not see it says: only a survey without gaps shows that something is nowhere.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;

use cni_core::error::Error;
use cni_model::link::{Address, Link};
use cni_model::netns::NetnsError;

use cni_kernel::netlink::Socket;
use cni_kernel::netns::Netns;
use cni_linux::hidden_processes::hidden_processes;

mod gaps;
mod paths;

pub use gaps::Gaps;
use paths::Paths;

/// How often the machine is looked at, if a namespace cannot be opened by the paths that were seen.
const ROUNDS: usize = 3;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Every network namespace.
    pub spaces: Vec<Space>,
    /// What could not be seen.
    pub gaps: Gaps,
}

/// What is in a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// The link-layer addresses of its links, in lower case.
    pub macs: BTreeSet<String>,
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
}

impl Space {
    /// What is behind a list of links and one of addresses.
    pub fn of(links: &[Link], addresses: &[Address]) -> Self {
        let macs = links.iter().filter_map(|link| link.mac.as_ref());
        Self {
            macs: macs.map(|mac| mac.to_string().to_ascii_lowercase()).collect(),
            addresses: addresses.iter().map(|address| address.cidr.address()).collect(),
        }
    }
}

impl Survey {
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
            match inside(&netns) {
                Ok(space) => self.spaces.push(space),
                Err(error) => self.gaps.add(format!("{path}: {}", error.in_full())),
            }
            return true;
        }
        false
    }

    fn visit_number(&mut self, number: i32, own: &mut Socket) {
        let asked = own.numbered_links(number).and_then(|links| Ok((links, own.numbered_addresses(number)?)));
        match asked {
            Ok((Some(links), Some(addresses))) => self.spaces.push(Space::of(&links, &addresses)),
            // It has ended.
            Ok((None, _) | (_, None)) => {}
            Err(error) => self.gaps.add(Error::from(error).in_full()),
        }
    }
}

fn inside(netns: &Netns) -> Result<Space, Error> {
    let mut socket = netns.inside(Socket::open).map_err(SurveyError::Enter)??;
    Ok(Space::of(&socket.links()?, &socket.addresses(None, None)?))
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
            assert!(Survey::take().spaces.iter().any(|space| space.addresses.contains(&IpAddr::from([127, 0, 0, 1]))));
        }
    }
}
