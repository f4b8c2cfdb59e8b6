//! CHECK: verifies that the link is as ADD made it.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_interface::child;
use cni_model::link::Link;
use cni_model::plan::ChildKind;
use cni_plugin::host::Host;

use crate::KIND;
use crate::config::Config;

pub fn check(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    let config = Config::load(request)?;
    child::check(KIND, Some(&config.ipam), request, host, |link| compare(link, &config))
}

fn compare(link: &Link, config: &Config) -> Result<(), Error> {
    let (name, wanted) = (&link.name, config.id);
    match link.child {
        Some(ChildKind::Vlan { id }) if id != wanted => {
            return Err(fail!(CheckFailed, "Interface {name} is in VLAN {id}, not {wanted}"));
        }
        Some(_) | None => {}
    }
    let found = link.mtu;
    match config.mtu {
        0 => Ok(()),
        mtu if mtu == i64::from(found) => Ok(()),
        wanted => Err(fail!(CheckFailed, "Interface {name} has MTU {found}, not {wanted}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cni_core::result::Dns;
    use cni_interface::child::MasterChoice;

    #[test]
    fn any_other_mtu_than_the_configured_one_is_named() {
        let master = MasterChoice::of_keys("up0".to_owned(), false);
        let config = Config { master, id: 5, mtu: 1400, ipam: "static".to_owned(), dns: Dns::default() };
        let compared = |mtu| compare(&Link { mtu, ..Link::default() }, &config).map_err(|error| error.to_string());
        assert_eq!(compared(1400), Ok(()));
        for mtu in [1399, 1401] {
            assert_eq!(compared(mtu), Err(format!("Interface  has MTU {mtu}, not 1400")));
        }
    }
}
