//! The MTU of the link, which must not exceed that of its master.

use cni_core::error::{Code, Failure};
use cni_model::link::Link;

/// `mtu` is not between 0 and that of the master.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid MTU {mtu}, must be [0, master MTU({limit})]")]
pub struct MtuError {
    /// The value.
    pub mtu: i64,
    /// The MTU of the master.
    pub limit: u32,
}

impl Failure for MtuError {
    fn code(&self) -> Code {
        Code::InvalidConfig
    }
}

/// The MTU in bytes that `mtu` asks for; 0 means that of the master.
///
/// ```
/// use cni_interface::child::within_master;
/// use cni_model::link::Link;
///
/// let master = Link { mtu: 1500, ..Link::default() };
/// assert_eq!(within_master(1500, &master), Ok(Some(1500)));
/// assert_eq!(within_master(0, &master), Ok(None));
/// assert_eq!(
///     within_master(1501, &master).expect_err("too much").to_string(),
///     "invalid MTU 1501, must be [0, master MTU(1500)]"
/// );
/// ```
///
/// # Errors
/// [`MtuError`]
pub fn within_master(mtu: i64, master: &Link) -> Result<Option<u32>, MtuError> {
    match u32::try_from(mtu) {
        Ok(0) => Ok(None),
        Ok(mtu) if mtu <= master.mtu => Ok(Some(mtu)),
        Ok(_) | Err(_) => Err(MtuError { mtu, limit: master.mtu }),
    }
}
