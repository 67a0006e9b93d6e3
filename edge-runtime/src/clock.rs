//! The wall clock; the only module of this crate that reads it.
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

/// The box's local time at `wall`, for schedules.
pub fn local(wall: Wall) -> LocalTime {
    let at = Timestamp::from_millisecond(wall.unix_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    local_time(&at.to_zoned(TimeZone::system()))
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

/// The quality of the clock, read at most once a minute.
fn quality(unix_ms: i64) -> TimeQuality {
    static KNOWN: Mutex<Option<(Instant, TimeQuality)>> = Mutex::new(None);
    let mut known = KNOWN.lock();
    if let Some((at, quality)) = *known
        && at.elapsed() < Duration::from_secs(60)
    {
        return quality;
    }
    let quality = watchkeeper_board::clock::quality(Path::new("/"), unix_ms.div_euclid(1000));
    *known = Some((Instant::now(), quality));
    quality
}
