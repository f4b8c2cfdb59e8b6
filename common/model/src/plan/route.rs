//! Routes to be added.

use std::net::IpAddr;

use cni_core::cidr::Cidr;
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

/// A number in a result's route that the kernel's field does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} {value} is out of range")]
pub struct RouteNumberError {
    /// The key of the route.
    pub key: &'static str,
    /// Its value.
    pub value: i64,
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
    type Error = RouteNumberError;

    fn try_from(route: &Route) -> Result<Self, RouteNumberError> {
        let Route { dst, gw, mtu, advmss, priority, table, scope } = *route;
        let scope = scope.map(|scope| u8::try_from(scope).map_err(|_| RouteNumberError { key: "scope", value: scope }));
        Ok(Self {
            gw,
            mtu: given("mtu", mtu)?,
            advmss: given("advmss", advmss)?,
            priority: given("priority", priority)?,
            table: given("table", table.unwrap_or_default())?,
            scope: scope.transpose()?,
            ..Self::to(dst)
        })
    }
}

fn given(key: &'static str, value: i64) -> Result<Option<u32>, RouteNumberError> {
    let number = u32::try_from(value).map_err(|_| RouteNumberError { key, value })?;
    Ok(Some(number).filter(|number| *number != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported() -> Route {
        Route::via("10.9.0.0/16".parse().expect("CIDR"), IpAddr::from([10, 1, 2, 1]))
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

    #[test]
    fn a_number_that_the_kernel_cannot_hold_is_named() {
        for (route, message) in [
            (Route { priority: -1, ..reported() }, "priority -1 is out of range"),
            (Route { mtu: 1 << 32, ..reported() }, "mtu 4294967296 is out of range"),
            (Route { advmss: -5, ..reported() }, "advmss -5 is out of range"),
            (Route { table: Some(-1), ..reported() }, "table -1 is out of range"),
            (Route { scope: Some(256), ..reported() }, "scope 256 is out of range"),
        ] {
            assert_eq!(NewRoute::try_from(&route).expect_err("refused").to_string(), message);
        }
    }
}
