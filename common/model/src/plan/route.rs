//! Routes to be added, and gateways: the address by which the containers of a network reach the host, on a link that other networks may
//! use too.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::error::Error;
use cni_core::fail;
use cni_core::family::Family;
use cni_core::names::IfName;
use cni_core::result::Route;

use crate::link::Address;

/// A unicast route of one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRoute {
    /// Destination, without host bits.
    pub dst: Cidr,
    /// Next hop, of the family of the destination; none for a destination on the link.
    pub gw: Option<IpAddr>,
    /// The address that packets have as their source, unless their sender has chosen one (`RTA_PREFSRC`).
    pub source: Option<IpAddr>,
    /// Routing table; the main one if none.
    pub table: Option<u32>,
    /// The metric; the lowest is preferred. `None` is the kernel's default.
    pub priority: Option<u32>,
    /// Scope as in `linux/rtnetlink.h`; global (0) if none.
    pub scope: Option<u8>,
    /// Largest packet in bytes (`RTAX_MTU`); that of the link if none.
    pub mtu: Option<u32>,
    /// Largest segment in bytes that is announced to TCP peers (`RTAX_ADVMSS`); from the MTU if none.
    pub advmss: Option<u32>,
    /// Whether the next hop is on the link even if no address of the link contains it (`RTNH_F_ONLINK`).
    pub onlink: bool,
}

impl NewRoute {
    /// A route that has nothing but its destination.
    pub const fn to(dst: Cidr) -> Self {
        Self {
            dst,
            gw: None,
            source: None,
            table: None,
            priority: None,
            scope: None,
            mtu: None,
            advmss: None,
            onlink: false,
        }
    }
}

/// The route of a result. SPEC: a number that is 0 is not given.
impl TryFrom<&Route> for NewRoute {
    type Error = Error;

    fn try_from(route: &Route) -> Result<Self, Error> {
        let Route { dst, gw, mtu, advmss, priority, table, scope } = *route;
        let network = dst.network();
        if dst.family() == Family::V4 && dst != network {
            // The kernel refuses such a destination, and clears the host bits of one of IPv6.
            return Err(fail!(InvalidConfig, "the destination has host bits; write {network}"));
        }
        let scope = scope.map(|scope| u8::try_from(scope).map_err(|_| out_of_range("scope", scope)));
        Ok(Self {
            gw,
            mtu: given("mtu", mtu)?,
            advmss: given("advmss", advmss)?,
            priority: given("priority", priority)?,
            table: given("table", table.unwrap_or_default())?,
            scope: scope.transpose()?,
            ..Self::to(network)
        })
    }
}

fn given(key: &str, value: i64) -> Result<Option<u32>, Error> {
    let number = u32::try_from(value).map_err(|_| out_of_range(key, value))?;
    Ok(Some(number).filter(|number| *number != 0))
}

fn out_of_range(key: &str, value: i64) -> Error {
    fail!(InvalidConfig, "{key} {value} is out of range")
}

/// What to do with the address of another network on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherAddress {
    /// Refuse the ADD.
    Refuse,
    /// Take it away: `forceAddress`.
    Replace,
}

/// A gateway that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGateway {
    /// The link, which is the bridge or its link to a VLAN.
    pub link: IfName,
    /// Its address, which the kernel is to use without looking for another user of it.
    pub cidr: Cidr,
    /// All gateways of the network: they are not in each other's way.
    pub network: Vec<Cidr>,
    /// What to do with any other address.
    pub other: OtherAddress,
}

impl NewGateway {
    /// Which addresses of the link have to go: none where it has the gateway's already.
    ///
    /// # Errors
    /// When the link has an address of another network, which is not to be taken away.
    pub fn unwanted(&self, present: &[Address]) -> Result<Vec<Cidr>, Error> {
        let others = if self.is_among(present) { Vec::new() } else { self.conflicts(present) };
        match (self.other, others.first()) {
            (OtherAddress::Refuse, Some(found)) => {
                let (link, gateway) = (self.link.as_str(), self.cidr);
                Err(fail!(
                    Conflict,
                    "failed to set bridge addr: {link:?} already has an IP address different from {gateway}",
                    details: "it has {found}; forceAddress: true replaces it, for every container on the bridge"
                ))
            }
            (OtherAddress::Refuse | OtherAddress::Replace, _) => Ok(others),
        }
    }

    /// Whether the gateway's address is among those of the link.
    pub fn is_among(&self, present: &[Address]) -> bool {
        present.iter().any(|address| address.cidr == self.cidr)
    }

    /// Any other IPv4 address of the link conflicts with the gateway, an IPv6 address only when the networks overlap.
    fn conflicts(&self, present: &[Address]) -> Vec<Cidr> {
        let others = present.iter().map(|address| address.cidr).filter(|cidr| !self.network.contains(cidr));
        others
            .filter(|other| match (other.family(), self.cidr.family()) {
                (Family::V4, Family::V4) => true,
                (Family::V6, Family::V6) => other.overlaps(self.cidr),
                (Family::V4, Family::V6) | (Family::V6, Family::V4) => false,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported() -> Route {
        Route::via("10.9.0.0/16".parse().expect("CIDR"), IpAddr::from([10, 1, 2, 1]))
    }

    fn to(dst: &str) -> Route {
        Route { dst: dst.parse().expect("CIDR"), gw: None, ..reported() }
    }

    #[test]
    fn an_ipv6_destination_loses_its_host_bits_as_in_the_kernel() {
        let network = "1100:200::/24".parse().expect("CIDR");
        assert_eq!(NewRoute::try_from(&to("1100:200::1/24")), Ok(NewRoute::to(network)));
    }

    #[test]
    fn a_number_that_is_zero_is_not_given() {
        let gw = Some(IpAddr::from([10, 1, 2, 1]));
        let plain = NewRoute { gw, ..NewRoute::to(reported().dst) };
        assert_eq!(NewRoute::try_from(&Route { table: Some(0), ..reported() }), Ok(plain.clone()));
        let all =
            Route { mtu: 1400, advmss: 1360, priority: 5, table: Some(4_294_967_295), scope: Some(0), ..reported() };
        let want = NewRoute {
            mtu: Some(1400),
            advmss: Some(1360),
            priority: Some(5),
            table: Some(u32::MAX),
            scope: Some(0),
            ..plain
        };
        assert_eq!(NewRoute::try_from(&all), Ok(want));
    }
}
