//! The keys of the bandwidth plugin, checked before anything is done, and the token bucket of a configured limit: the reference's
//! numbers, except those that do not fit the kernel's fields.

use cni_core::error::Error;
use cni_core::fail;
use cni_core::request::Request;
use cni_model::traffic::Shaper;
use serde::Deserialize;

/// The limits of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The limit of what the container receives.
    pub ingress: Option<RateLimit>,
    /// The limit of what it sends.
    pub egress: Option<RateLimit>,
}

/// A rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Bytes per second, at least one.
    pub rate: u64,
    /// The bytes that may go at once after a pause.
    pub burst: u32,
}

/// The keys in the element itself. Any of them, even with null, keeps the runtime's from being looked at.
const KEYS: [&str; 4] = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"];

/// The keys, in bits; 0 means no limit.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Keys {
    ingress_rate: u64,
    ingress_burst: u64,
    egress_rate: u64,
    egress_burst: u64,
    runtime_config: RuntimeKeys,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RuntimeKeys {
    bandwidth: RuntimeLimits,
}

/// The keys that containerd, cri-o and multus send for the capability `bandwidth`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RuntimeLimits {
    ingress_rate: u64,
    ingress_burst: u64,
    egress_rate: u64,
    egress_burst: u64,
}

impl Config {
    /// Reads and checks every key.
    pub fn load(request: &Request) -> Result<Self, Error> {
        let Keys { ingress_rate, ingress_burst, egress_rate, egress_burst, runtime_config } = request.decode()?;
        let own = RuntimeLimits { ingress_rate, ingress_burst, egress_rate, egress_burst };
        let has_own = KEYS.into_iter().any(|key| request.config().has_key(key));
        let limits = if has_own { own } else { runtime_config.bandwidth };
        Ok(Self {
            ingress: limit("ingress", limits.ingress_rate, limits.ingress_burst)?,
            egress: limit("egress", limits.egress_rate, limits.egress_burst)?,
        })
    }

    /// Whether there is no limit.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The limit of a rate and a burst in bits; what is less than a byte is dropped.
fn limit(direction: &str, rate: u64, burst: u64) -> Result<Option<RateLimit>, Error> {
    match (rate, burst) {
        (0, 0) => Ok(None),
        (rate, 0) => Err(fail!(
            InvalidConfig,
            "if rate is set, burst must also be set",
            details: "{direction}Rate is {rate}, and there is no {direction}Burst"
        )),
        (0, burst) => Err(fail!(
            InvalidConfig,
            "if burst is set, rate must also be set",
            details: "{direction}Burst is {burst}, and there is no {direction}Rate"
        )),
        (rate @ ..8, _) => Err(fail!(
            InvalidConfig,
            "rate cannot be less than 8 bits per second",
            details: "{direction}Rate is {rate} bits per second; 0 is no limit"
        )),
        (rate, burst) => match u32::try_from(burst / 8) {
            Ok(bytes) if bytes < u32::MAX => Ok(Some(RateLimit { rate: rate / 8, burst: bytes })),
            Ok(_) | Err(_) => Err(fail!(
                InvalidConfig,
                "burst cannot be more than 4GB",
                details: "{direction}Burst is {burst} bits, where 34359738359 is the most"
            )),
        },
    }
}

/// The longest wait of a packet, 25 milliseconds, as a fraction of a second.
const LATENCIES_OF_A_SECOND: u64 = 40;
/// Microseconds of a second: the reference counts the time that it takes to fill the bucket in these.
const MICROSECONDS: u64 = 1_000_000;
/// The size of an Ethernet header, which precedes each packet.
const HEADER: u64 = 14;

/// The largest frame of a link, in bytes; its MTU is in bytes too.
pub fn frame(mtu: u32) -> u64 {
    u64::from(mtu) + HEADER
}

impl RateLimit {
    /// The token bucket for a link. Numbers that are too large become the largest ones, and one that the reference's rounding
    /// has made too small for a frame, though the burst is not, becomes large enough.
    pub fn shaper(&self, mtu: u32) -> Shaper {
        let limit = saturated(self.waiting().saturating_add(self.burst.into()));
        let shaper = Shaper { rate: self.rate, limit, buffer: saturated(ticks(self.fill_time())) };
        if shaper.bucket() < frame(mtu) && frame(mtu) <= self.burst.into() {
            // The least time in which the tokens of a frame come.
            let ticks = (frame(mtu) * 1_000_000_000).div_ceil(self.rate.max(1)).div_ceil(Shaper::TICK);
            return Shaper { buffer: saturated(ticks), ..shaper };
        }
        shaper
    }

    /// The bucket that the reference makes: of numbers that are too large, the bits that the kernel's fields hold.
    pub fn wrapped_shaper(&self) -> Shaper {
        let limit = low_bits(self.waiting()).wrapping_add(self.burst);
        Shaper { rate: self.rate, limit, buffer: low_bits(ticks(low_bits(self.fill_time()).into())) }
    }

    /// The number of bytes that arrive in the longest wait of a packet.
    const fn waiting(&self) -> u64 {
        self.rate / LATENCIES_OF_A_SECOND
    }

    /// The time to fill the bucket, in microseconds.
    fn fill_time(&self) -> u64 {
        u64::from(self.burst) * MICROSECONDS / self.rate.max(1)
    }
}

const fn ticks(microseconds: u64) -> u64 {
    microseconds * 1000 / Shaper::TICK
}

fn saturated(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

const fn low_bits(number: u64) -> u32 {
    (number & u32::MAX as u64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONTAINERD: u64 = u32::MAX as u64;

    fn limit(rate: u64, burst: u64) -> RateLimit {
        RateLimit { rate: rate / 8, burst: u32::try_from(burst / 8).expect("at most 4 GB") }
    }

    fn numbers(shaper: Shaper) -> (u64, u32, u32) {
        (shaper.rate, shaper.limit, shaper.buffer)
    }

    /// Seen of the reference.
    #[test]
    fn the_numbers_are_the_references() {
        for (rate, burst, want) in [
            (8_000, 80, (1000, 35, 156_250)),
            (8_000_001, 80_007, (1_000_000, 35_000, 156_250)),
            (8_000_000, 80_000, (1_000_000, 35_000, 156_250)),
            (16_000_000, 160_000, (2_000_000, 70_000, 156_250)),
            (100_000_000, CONTAINERD, (12_500_000, 537_183_411, 671_088_625)),
            (40_000_000_000, 100_000_000, (5_000_000_000, 137_500_000, 39_062)),
        ] {
            let limit = limit(rate, burst);
            assert_eq!(numbers(limit.wrapped_shaper()), want, "{rate} {burst}");
            assert_eq!(limit.shaper(0), limit.wrapped_shaper(), "{rate} {burst}");
        }
    }

    #[test]
    fn where_the_references_numbers_wrap_ours_are_the_largest() {
        for (rate, burst, wrapped, own) in [
            (15_000_000, CONTAINERD, (536_917_786, 178_956_954), (536_917_786, u32::MAX)),
            (8_000_000, CONTAINERD, (536_895_911, 4_093_640_688), (536_895_911, u32::MAX)),
            (1_000_000, CONTAINERD, (536_874_036, 2_684_354_435), (536_874_036, u32::MAX)),
            (8_000_000, 34_359_738_353, (24_998, 2_684_354_528), (u32::MAX, u32::MAX)),
        ] {
            let (limit, rate) = (limit(rate, burst), rate / 8);
            assert_eq!(numbers(limit.wrapped_shaper()), (rate, wrapped.0, wrapped.1), "{rate} {burst}");
            assert_eq!(numbers(limit.shaper(1500)), (rate, own.0, own.1), "{rate} {burst}");
        }
    }

    #[test]
    fn a_bucket_that_rounding_made_too_small_for_a_frame_becomes_large_enough() {
        let limit = limit(10_000_000_000, 1514 * 8);
        assert!(limit.wrapped_shaper().bucket() < 1514);
        let shaper = limit.shaper(1500);
        assert!((1514..1600).contains(&shaper.bucket()), "{shaper:?}");
    }

    proptest! {
        /// A limit that no field of the kernel is too small for.
        #[test]
        fn a_burst_that_holds_a_frame_passes_it(
            rate in prop_oneof![6..10_000_u64, 6..u64::MAX / 8],
            burst in 1514..=u32::MAX - 1,
        ) {
            let shaper = RateLimit { rate, burst }.shaper(1500);
            prop_assert!(shaper.bucket() >= 1514, "{shaper:?}");
        }
    }
}
