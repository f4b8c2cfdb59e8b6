//! Addresses with their gateways, and the routes that connect them. The two ends of the pair share no network: all
//! packets are routed.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::result::IpConfig;
use cni_model::plan::NewRoute;

/// An address of the container, and the one of the host by which it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutedAddress {
    /// The container's, with the prefix length of its network.
    pub address: Cidr,
    /// The host's.
    pub gateway: IpAddr,
}

/// `RT_SCOPE_LINK` of `linux/rtnetlink.h`: the destination is on the link.
const SCOPE_LINK: u8 = 253;
/// `RT_SCOPE_HOST`: the destination is as near as the host itself.
const SCOPE_HOST: u8 = 254;

impl RoutedAddress {
    /// Requires a gateway for each address.
    pub fn all(ips: &[IpConfig]) -> Result<Vec<Self>, Error> {
        let routed = |ip: &IpConfig| {
            let address = ip.address;
            let given = || format!("the IPAM plugin gives {address}");
            let Some(gateway) = ip.gateway else {
                let text = given() + " no gateway, which ptp cannot do without";
                return Err(fail!(InvalidConfig, "{text}"));
            };
            if Family::of(gateway) == address.family() {
                return Ok(Self { address, gateway });
            }
            let given = given();
            Err(fail!(InvalidConfig, "{given} the gateway {gateway}, which is of another family"))
        };
        ips.iter().map(routed).collect()
    }

    /// The container's route to the gateway.
    pub fn gateway_route(&self) -> NewRoute {
        NewRoute { source: Some(self.address.address()), scope: Some(SCOPE_LINK), ..NewRoute::to(self.on_host()) }
    }

    /// The container's route to the rest of its network, which begins behind the gateway.
    pub fn network_route(&self) -> NewRoute {
        let (gw, source) = (Some(self.gateway), Some(self.address.address()));
        NewRoute { gw, source, ..NewRoute::to(self.address.network()) }
    }

    /// The host's route to the container.
    pub fn host_route(&self) -> NewRoute {
        NewRoute { scope: Some(SCOPE_HOST), ..NewRoute::to(Cidr::host(self.address.address())) }
    }

    /// The gateway as an address of the host's end.
    pub fn on_host(&self) -> Cidr {
        Cidr::host(self.gateway)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(address: &str, gateway: Option<&str>) -> IpConfig {
        let gateway = gateway.map(|text| text.parse().expect("an address"));
        IpConfig { interface: None, address: address.parse().expect("CIDR"), gateway }
    }

    #[test]
    fn an_address_without_a_gateway_of_its_family_is_refused() {
        for (gateway, text) in [
            (None, "the IPAM plugin gives 10.1.2.5/24 no gateway, which ptp cannot do without"),
            (Some("fd00::1"), "the IPAM plugin gives 10.1.2.5/24 the gateway fd00::1, which is of another family"),
        ] {
            let ips = [ip("fd00::5/64", Some("fd00::1")), ip("10.1.2.5/24", gateway)];
            let error = RoutedAddress::all(&ips).expect_err("refused");
            assert_eq!((error.code().number(), error.to_string()), (7, text.to_owned()));
        }
    }
}
