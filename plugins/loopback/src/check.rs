//! CHECK: verifies that `lo` is up.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_plugin::host::Host;

use crate::lo;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let netns = request.netns().unwrap_or_default();
    let lo = lo::observe(host, netns)?;
    if lo.up {
        Ok(())
    } else {
        Err(fail!(CheckFailed, "loopback interface is down", details: "lo in {netns:?} does not have the flag IFF_UP"))
    }
}
