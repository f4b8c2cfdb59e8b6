//! Why a verb refuses to work: it was called in another network namespace than that of the host.

use cni_core::error::Error;
use cni_linux::host::LinuxHost;
use cni_linux::inhabitants::hidden_processes;
use cni_model::plan::Ns;
use cni_plugin::host::Host;

use crate::cache::Cached;
use crate::error_line::error_line;
use crate::life::{Signs, neutral_request};

const ELSEWHERE: &str = "the containers of this machine belong to another network namespace; run this command in it, \
                         for example with `nsenter --net=/proc/1/ns/net`";

/// Returns why this process cannot say anything about the containers: their records are those of another network namespace, or cannot be
/// listed. `None` if it can.
pub fn refusal() -> Option<String> {
    sentence(has_records_elsewhere())
}

/// Returns why this process may not change anything: it is in the namespace of one of these containers. Where plugins of others have made all of them, there are
/// no records.
pub fn refusal_inside<'a>(all: impl IntoIterator<Item = &'a Cached>) -> Option<String> {
    sentence(is_inside(all))
}

fn sentence(is_elsewhere: Result<bool, Error>) -> Option<String> {
    match is_elsewhere {
        Ok(is_elsewhere) => is_elsewhere.then(|| ELSEWHERE.to_owned()),
        Err(error) => Some(error_line(&error)),
    }
}

/// On the host itself, plugins may have been used in another namespace that shares its `/run`.
fn has_records_elsewhere() -> Result<bool, Error> {
    let mut host = LinuxHost::new(&neutral_request()?);
    Ok(host.has_records_elsewhere()? && !is_on_host(&mut host))
}

/// Whether this process is certainly in the machine's first network namespace: that of its first process, and of the kernel's threads.
fn is_on_host(host: &mut dyn Host) -> bool {
    let mut is_own = |process: u8| host.is_own_netns(&format!("/proc/{process}/ns/net")).is_ok_and(|is_own| is_own);
    (is_own(1) || is_own(2)) && hidden_processes().is_none()
}

fn is_inside<'a>(all: impl IntoIterator<Item = &'a Cached>) -> Result<bool, Error> {
    let host: &mut dyn Host = &mut LinuxHost::new(&neutral_request()?).only_looking();
    // On the host itself a path below /proc may lead to a process of the host by now.
    if is_on_host(host) {
        return Ok(false);
    }
    for cached in all {
        let Some(path) = &cached.netns else { continue };
        if !host.is_own_netns(path)? {
            continue;
        }
        let Some(link) = host.link(Ns::Host, &cached.at.ifname)? else { continue };
        let (signs, mac) = (Signs::of(cached), link.mac.as_ref().map(|mac| mac.to_string().to_ascii_lowercase()));
        let addresses = host.addresses(Ns::Host, Some(link.index), None)?;
        if mac.is_some_and(|mac| signs.macs.contains(&mac))
            || addresses.iter().any(|one| signs.addresses.contains(&one.cidr.address()))
        {
            return Ok(true);
        }
    }
    Ok(false)
}
