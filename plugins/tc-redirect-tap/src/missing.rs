//! What others have removed of the exchange of frames between the interface and its device, for `cni-plugins repair`.

use cni_core::error::Error;
use cni_core::names::IfName;
use cni_core::request::Request;
use cni_interface::verify;
use cni_model::link::Link;
use cni_model::plan::{Ns, Plan};
use cni_plugin::host::Host;
use cni_plugin::missing::MissingPart;

use crate::add::redirect;
use crate::pair::{self, TapEntries};

/// The directions in which no frames are redirected any more. A missing interface or device takes an ADD.
pub fn find_missing(request: &Request, host: &mut dyn Host) -> Result<Vec<MissingPart>, Error> {
    let result = verify::prev_result(request)?;
    let at = request.attachment()?;
    let tap = IfName::parse(&TapEntries::of(&result, &at.container)?.tap.name)?;
    let ends = (host.link(Ns::Container, &tap)?.filter(pair::is_tap), host.link(Ns::Container, &at.ifname)?);
    let (Some(tap), Some(link)) = ends else { return Ok(Vec::new()) };
    let mut parts = Vec::new();
    for (from, to) in [(&tap, &link), (&link, &tap)] {
        parts.extend(missing_redirect(from, to, host)?);
    }
    Ok(parts)
}

fn missing_redirect(from: &Link, to: &Link, host: &mut dyn Host) -> Result<Option<MissingPart>, Error> {
    if pair::targets(Some(from), host)?.contains(&to.index) {
        return Ok(None);
    }
    let mut plan = Plan::default();
    plan.owned(redirect(&pair::name(from)?, &pair::name(to)?));
    let missing = format!("tc filter dev {} ingress redirect dev {}", from.name, to.name);
    Ok(Some(MissingPart { missing, plan }))
}
