//! Routes to be added.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
use cni_core::family::Family;
use cni_core::result::Route;

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

/// A result's route that the kernel cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum UnfitRouteError {
    /// The kernel's field does not hold a number.
    #[error("{key} {value} is out of range")]
    Number { key: &'static str, value: i64 },
    /// The kernel clears the host bits of an IPv6 destination, and refuses an IPv4 destination that has some.
    #[error("the destination has host bits; write {network}")]
    HostBits { network: Cidr },
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
    type Error = UnfitRouteError;

    fn try_from(route: &Route) -> Result<Self, UnfitRouteError> {
        let Route { dst, gw, mtu, advmss, priority, table, scope } = *route;
        let network = dst.network();
        if dst.family() == Family::V4 && dst != network {
            return Err(UnfitRouteError::HostBits { network });
        }
        let out_of_range = |value| UnfitRouteError::Number { key: "scope", value };
        let scope = scope.map(|scope| u8::try_from(scope).map_err(|_| out_of_range(scope)));
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

fn given(key: &'static str, value: i64) -> Result<Option<u32>, UnfitRouteError> {
    let number = u32::try_from(value).map_err(|_| UnfitRouteError::Number { key, value })?;
    Ok(Some(number).filter(|number| *number != 0))
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
