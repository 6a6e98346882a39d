//! Time and IDs, which a run gets only through [`RunEnv`].

use std::{
    collections::hash_map::RandomState,
    fmt,
    hash::{BuildHasher as _, Hasher as _},
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize, de};

/// A moment in UTC, in whole milliseconds; written as RFC 3339.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_core::Timestamp;
///
/// let start: Timestamp = "2026-01-01T00:00:00Z".parse()?;
/// let end = start.plus(Duration::from_secs(90));
/// assert_eq!(end.to_string(), "2026-01-01T00:01:30.000Z");
/// assert_eq!(end.since(start), Duration::from_secs(90));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    pub(crate) const UNSTAMPED: Self = Self(0);

    /// Creates a timestamp from the milliseconds since 1970-01-01T00:00:00Z.
    pub fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    pub fn millis(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this moment, or zero if `earlier` is not earlier.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns the timestamp plus the duration.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The last millisecond of the year 9999, the end of RFC 3339.
        const LAST: u64 = 253_402_300_799_999;
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(self.0.min(LAST));
        write!(f, "{}", humantime::format_rfc3339_millis(time))
    }
}

impl FromStr for Timestamp {
    type Err = humantime::TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_rfc3339(text).map(Self::from)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Reads the text without copying it: a session has a stamp for each of its changes.
        struct Rfc3339;

        impl de::Visitor<'_> for Rfc3339 {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 timestamp")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Rfc3339)
    }
}

/// Reads an optional stamp: malformed text reads as none.
pub(crate) fn stamp_or_none<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    let stored = serde_json::Value::deserialize(deserializer)?;
    Ok(stored.as_str().and_then(|text| text.parse().ok()))
}

/// A source of time and of delays.
pub trait Clock: Send + Sync {
    /// Returns the time of day, for stamps.
    fn now(&self) -> Timestamp;

    /// Returns the time since some fixed moment; never goes back. Used for durations and limits.
    fn monotonic(&self) -> Duration;

    /// Returns a future that is ready after the duration. Dropping it cancels the wait.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The system clock. `sleep` needs a tokio runtime with its timer enabled.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// The environment of a run: with the same environment, and the same responses from models and
/// tools, a run does the same.
#[derive(Clone)]
pub struct RunEnv {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The seed of IDs and jitter.
    pub seed: u64,
}

impl RunEnv {
    /// Creates an environment with the system clock and a seed that no other run has.
    pub fn system() -> Self {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u128(
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |it| it.as_nanos()),
        );
        Self { clock: Arc::new(SystemClock::default()), seed: hasher.finish() }
    }

    /// Creates an environment with the same clock and its own IDs. The same name always gives the
    /// same IDs.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        let seed = name.bytes().fold(self.seed, |seed, byte| mix(seed ^ u64::from(byte)));
        Self { clock: Arc::clone(&self.clock), seed }
    }

    /// Creates an ID in the form of a UUID (version 4) from the seed, its purpose, and a number.
    pub(crate) fn id(&self, kind: &str, number: u64) -> String {
        let kind = kind.bytes().fold(0, |sum: u64, byte| sum.rotate_left(8) ^ u64::from(byte));
        let high = mix(self.seed ^ mix(kind)) ^ mix(number);
        let (a, b) = (mix(high), mix(high ^ self.seed.rotate_left(32)));
        let version = (a & 0xFFFF_FFFF_FFFF_0FFF) | 0x4000;
        let variant = (b & 0x3FFF_FFFF_FFFF_FFFF) | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            version >> 32,
            (version >> 16) & 0xFFFF,
            version & 0xFFFF,
            variant >> 48,
            variant & 0xFFFF_FFFF_FFFF
        )
    }
}

impl Default for RunEnv {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for RunEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunEnv").field("seed", &self.seed).finish_non_exhaustive()
    }
}

/// Spreads a number over all bits (the finaliser of `SplitMix64`).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn env(seed: u64) -> RunEnv {
        RunEnv { clock: Arc::new(SystemClock::default()), seed }
    }

    #[test]
    fn ids_differ_by_seed_by_kind_and_by_number() {
        let mut ids = BTreeSet::new();
        for (seed, number) in (0..32).flat_map(|seed| (0..32).map(move |number| (seed, number))) {
            ids.extend(["agent", "execution", "turn"].map(|kind| env(seed).id(kind, number)));
        }
        assert_eq!(ids.len(), 32 * 32 * 3);
        let ids: BTreeSet<_> = (0..200_000).map(|number| env(7).id("turn", number)).collect();
        assert_eq!(ids.len(), 200_000);
    }

    #[test]
    fn the_random_bits_of_ids_are_set_in_half_of_them() {
        let mut set = [0; 128];
        for number in 0..4_000 {
            let id = u128::from_str_radix(&env(7).id("agent", number).replace('-', ""), 16);
            let id = id.unwrap();
            set.iter_mut().enumerate().for_each(|(bit, count)| *count += (id >> bit) & 1);
        }
        let is_fixed = |bit: &usize| matches!(bit, 62 | 63 | 76..=79);
        let biased = (0..128).filter(|bit| !is_fixed(bit) && !(1_800..2_200).contains(&set[*bit]));
        assert_eq!(biased.collect::<Vec<_>>(), Vec::<usize>::new());
    }

    #[test]
    fn children_differ_by_their_parent_and_by_their_name() {
        let names = (0..64).map(|name| format!("child {name}"));
        let seeds: BTreeSet<u64> =
            names.flat_map(|name| (0..64).map(move |seed| env(seed).child(&name).seed)).collect();
        assert_eq!(seeds.len(), 64 * 64);
    }
}
