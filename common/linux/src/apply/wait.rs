//! Waiting for a link, with a time limit.

use std::net::Ipv6Addr;
use std::thread;
use std::time::{Duration, Instant};

use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_kernel::netlink::{NetlinkError, Socket};
use cni_model::link::OperState;
use cni_model::plan::Ns;

use super::answer::present;
use crate::machine::LinuxHost;

/// The time limit for duplicate address detection, and the interval of looking. It takes one to two seconds, and longer
/// while the kernel changes many links: more than ten have been seen. The reference gives up after five. A DEL that comes meanwhile
/// waits for ADD's lock for a shorter time, and then removes the link: ADD fails, and is undone.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);
const SETTLE_PAUSE: Duration = Duration::from_millis(50);
/// The time limit for a link of unknown state, which may have a carrier.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(10);
/// The time limit for the carrier of a link. Without a carrier, duplicate address detection does not run.
const CARRIER_LIMIT: Duration = Duration::from_secs(1);

/// Waits until no address is tentative, or could become settled for want of a carrier.
pub(super) fn until_settled(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<(), Error> {
    let started = Instant::now();
    loop {
        let link = present(host, ns, name)?;
        let addresses = host.socket(ns)?.addresses(Some(link.index), Some(Family::V6))?;
        if let Some(failed) = addresses.iter().find(|address| address.dad_failed) {
            let address = failed.cidr.address();
            let name = name.as_str();
            let text = format!("link {name} has address {address} in DADFAILED state");
            return Err(fail!(Conflict, "failed to settle addresses for {name:?}: {text}"));
        }
        let waiting = addresses.iter().any(|address| address.tentative);
        match (waiting, started.elapsed() < settle_limit(link.oper_state)) {
            (true, true) => thread::sleep(SETTLE_PAUSE),
            (true, false) if link.oper_state == OperState::Up => {
                let seconds = SETTLE_LIMIT.as_secs();
                let name = name.as_str();
                let text = format!("link {name} still has tentative addresses after {seconds} seconds");
                return Err(fail!(Kernel, "failed to settle addresses for {name:?}: {text}"));
            }
            (false, _) | (true, false) => return Ok(()),
        }
    }
}

/// How long addresses may be tentative.
const fn settle_limit(state: OperState) -> Duration {
    match state {
        OperState::Up => SETTLE_LIMIT,
        OperState::Unknown => UNKNOWN_LIMIT,
        OperState::NotPresent
        | OperState::Down
        | OperState::LowerLayerDown
        | OperState::Testing
        | OperState::Dormant => CARRIER_LIMIT,
    }
}

/// The time limit for new local routes, and the interval of looking.
const LOCAL_LIMIT: Duration = Duration::from_secs(5);
const LOCAL_PAUSE: Duration = Duration::from_millis(2);

/// Waits until the kernel accepts packets to these addresses of a link. Those are passed over that the link no longer has, or that are
/// tentative. The end of the time limit is no error, since the kernel finishes without help.
pub(super) fn until_local(host: &mut LinuxHost, ns: Ns, name: &IfName, addresses: &[Ipv6Addr]) -> Result<(), Error> {
    let started = Instant::now();
    let index = present(host, ns, name)?.index;
    let socket = host.socket(ns)?;
    for address in addresses {
        while !socket.is_local((*address).into(), Some(index))? && is_settled(socket, index, *address)? {
            if started.elapsed() >= LOCAL_LIMIT {
                let seconds = LOCAL_LIMIT.as_secs();
                log::warn!("the kernel does not accept packets to {address} of {name} after {seconds} seconds");
                return Ok(());
            }
            thread::sleep(LOCAL_PAUSE);
        }
    }
    Ok(())
}

/// Whether a link has an address that is not tentative.
fn is_settled(socket: &mut Socket, link: u32, address: Ipv6Addr) -> Result<bool, NetlinkError> {
    let found = socket.addresses(Some(link), Some(Family::V6))?;
    Ok(found.iter().any(|one| one.cidr.address() == address && !one.tentative))
}

/// The pauses between looks at the port, as long together as the reference's.
const UP_PAUSES: [u64; 8] = [0, 5, 10, 35, 100, 400, 1000, 1000];

/// Waits until a link passes packets.
pub(super) fn until_up(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<(), Error> {
    let mut state = OperState::Unknown;
    for pause in UP_PAUSES {
        thread::sleep(Duration::from_millis(pause));
        state = present(host, ns, name)?.oper_state;
        if state == OperState::Up {
            return Ok(());
        }
    }
    Err(fail!(Kernel, "bridge port in error state: {state}", details: "the port is {name}"))
}

/// The time limit for the kernel to delete a namespace without processes, and the interval of looking.
const RELEASE_LIMIT: Duration = Duration::from_secs(1);
const RELEASE_PAUSE: Duration = Duration::from_millis(10);

/// [`cni_model::plan::Until::Moment`]
pub(super) const MOMENT: Duration = Duration::from_millis(20);

/// Waits until a veth leads to no namespace that lives.
pub(super) fn until_peer_gone(host: &mut LinuxHost, ns: Ns, name: &IfName) -> Result<(), Error> {
    let started = Instant::now();
    let socket = host.socket(ns)?;
    loop {
        let Some(link) = socket.link(name.as_str())? else { return Ok(()) };
        if socket.peer_addresses(&link)?.is_none() {
            return Ok(());
        }
        if started.elapsed() >= RELEASE_LIMIT {
            return Err(fail!(Conflict, "the other end of {name} is still in a namespace that lives"));
        }
        thread::sleep(RELEASE_PAUSE);
    }
}
