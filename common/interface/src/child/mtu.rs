//! The MTU of the link, which must not exceed that of its master.

use cni_core::error::Error;
use cni_core::fail;
use cni_model::link::Link;

/// The MTU in bytes that `mtu` asks for; 0 means that of the master.
///
/// ```
/// use cni_interface::child::within_master;
/// use cni_model::link::Link;
///
/// let master = Link { mtu: 1500, ..Link::default() };
/// assert_eq!(within_master(1500, &master).ok(), Some(Some(1500)));
/// assert_eq!(within_master(0, &master).ok(), Some(None));
/// assert_eq!(
///     within_master(1501, &master).expect_err("too much").to_string(),
///     "invalid MTU 1501, must be [0, master MTU(1500)]"
/// );
/// ```
///
/// # Errors
/// For an MTU below 0, or above the master's.
pub fn within_master(mtu: i64, master: &Link) -> Result<Option<u32>, Error> {
    match u32::try_from(mtu) {
        Ok(0) => Ok(None),
        Ok(mtu) if mtu <= master.mtu => Ok(Some(mtu)),
        Ok(_) | Err(_) => {
            let limit = master.mtu;
            Err(fail!(InvalidConfig, "invalid MTU {mtu}, must be [0, master MTU({limit})]"))
        }
    }
}
