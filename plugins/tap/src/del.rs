//! DEL: removes the device before its addresses are released. It needs neither `CNI_ARGS` nor any key but `ipam`.

use cni_core::error::Error;
use cni_core::request::Request;
use cni_interface::child;
use cni_plugin::host::Host;

use crate::KIND;

pub fn del(request: &Request, host: &mut dyn Host) -> Result<(), Error> {
    child::del(KIND, request, host)
}
