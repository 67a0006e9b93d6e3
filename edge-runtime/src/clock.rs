//! The wall clock; the only module of this crate that reads it, except `kept_files`, which stamps
//! files.
//!
//! - A stamp always has its quality.
//! - Only schedules and users see it; logic uses monotonic time.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use watchkeeper_contract::rule::Weekday;
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_engine::rules::LocalTime;

/// The current time and its quality.
pub fn wall() -> Wall {
    let unix_ms = Timestamp::now().as_millisecond();
    Wall {
        unix_ms,
        quality: quality(unix_ms),
    }
}

/// Whole milliseconds of a duration.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Processor time of the calling thread so far.
pub fn thread_time() -> Duration {
    processor_time(ClockId::ThreadCPUTime)
}

/// Processor time of all threads of this process so far.
pub fn process_time() -> Duration {
    processor_time(ClockId::ProcessCPUTime)
}

/// A sum of processor times, of any threads.
#[derive(Debug, Default)]
pub struct ProcessorSum(AtomicU64);

impl ProcessorSum {
    /// Adds a time.
    pub fn add(&self, spent: Duration) {
        let nanos = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The sum so far.
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

fn processor_time(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

/// The current instant, for workflows that need the time of day.
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// An instant for users: RFC 3339 in UTC, to the second.
pub fn utc(unix_ms: i64) -> String {
    let at = Timestamp::from_second(unix_ms.div_euclid(1000)).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_string()
}

/// The box's local time at `wall`.
pub fn local(wall: Wall) -> LocalTime {
    let at = Timestamp::from_millisecond(wall.unix_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    local_time(&at.to_zoned(TimeZone::system()))
}

/// The box's local time at `wall`, for the schedules of rules; `None` if the clock was wrong.
pub fn schedule_time(wall: Wall) -> Option<LocalTime> {
    (wall.quality != TimeQuality::Unsynced).then(|| local(wall))
}

/// Weekday and minute of a zoned time.
pub fn local_time(zoned: &Zoned) -> LocalTime {
    LocalTime {
        weekday: match zoned.weekday() {
            jiff::civil::Weekday::Monday => Weekday::Mon,
            jiff::civil::Weekday::Tuesday => Weekday::Tue,
            jiff::civil::Weekday::Wednesday => Weekday::Wed,
            jiff::civil::Weekday::Thursday => Weekday::Thu,
            jiff::civil::Weekday::Friday => Weekday::Fri,
            jiff::civil::Weekday::Saturday => Weekday::Sat,
            jiff::civil::Weekday::Sunday => Weekday::Sun,
        },
        minute_of_day: u16::from(zoned.hour().unsigned_abs()) * 60
            + u16::from(zoned.minute().unsigned_abs()),
    }
}

/// Largest difference of the wall clock and the monotonic one that is not a setting of the clock.
pub const MAX_DRIFT: Duration = Duration::from_secs(2);

/// How long a judgement of the clock holds, unless the clock is set.
const QUALITY_INTERVAL: Duration = Duration::from_secs(60);

/// A judgement of the clock.
#[derive(Debug, Clone, Copy)]
struct Judged {
    unix_ms: i64,
    at: Instant,
    quality: TimeQuality,
}

impl Judged {
    /// Whether it still holds at `now`, when the clock shows `unix_ms`.
    fn holds(&self, unix_ms: i64, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.at);
        elapsed < QUALITY_INTERVAL && drift(unix_ms - self.unix_ms, elapsed) <= MAX_DRIFT
    }
}

/// Difference of a time by the wall clock and by the monotonic one.
pub fn drift(by_wall_ms: i64, elapsed: Duration) -> Duration {
    let elapsed = i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX);
    Duration::from_millis(by_wall_ms.abs_diff(elapsed))
}

/// The quality of the clock, judged once a minute and whenever the clock is set.
fn quality(unix_ms: i64) -> TimeQuality {
    static LAST: Mutex<Option<Judged>> = Mutex::new(None);
    let (mut last, at) = (LAST.lock(), Instant::now());
    if let Some(judged) = last.filter(|judged| judged.holds(unix_ms, at)) {
        return judged.quality;
    }
    let quality = watchkeeper_board::clock::quality(Path::new("/"), unix_ms.div_euclid(1000));
    *last = Some(Judged {
        unix_ms,
        at,
        quality,
    });
    quality
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgement_holds_a_minute_unless_the_clock_is_set() {
        let judged = Judged {
            unix_ms: 600_000_000_000,
            at: Instant::now(),
            quality: TimeQuality::Unsynced,
        };
        let later = |s: u64| judged.at + Duration::from_secs(s);
        assert!(judged.holds(judged.unix_ms + 30_000, later(30)));
        assert!(!judged.holds(judged.unix_ms + 60_000, later(60)));
        assert!(!judged.holds(judged.unix_ms + 1_000_000_000, later(30)));
    }
}
