//! Readings of the last minute and the last hour, in rings of fixed size.
//!
//! - Nothing is allocated after the start.
//! - A minute keeps its highest temperature, and means of power and load.

use std::time::Duration;

use heapless::HistoryBuf;

use crate::reading::Reading;
use crate::units::{Celsius, Milliwatts, Percent};

/// Interval in which the sampler reads the board.
pub const INTERVAL: Duration = Duration::from_secs(2);

/// Samples of one minute at [`INTERVAL`].
pub const SAMPLES: usize = 30;

/// Whole minutes that are kept.
pub const MINUTES: usize = 60;

const MINUTE: Duration = Duration::from_secs(60);

/// Readings at one moment, or of one minute.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// Time of the sample, or of the last sample of the minute.
    pub at: Duration,
    /// Temperature of the hottest zone.
    pub hottest: Option<Celsius>,
    pub power: Option<Milliwatts>,
    pub cpu: Option<Percent>,
    pub gpu: Option<Percent>,
    /// Whether the board was slowed down.
    pub throttled: Option<bool>,
}

impl Point {
    fn of(reading: &Reading) -> Self {
        Self {
            at: reading.at,
            hottest: reading.hottest().map(|(_, value)| value),
            power: reading.power.total,
            cpu: reading.load.cpu,
            gpu: reading.load.gpu,
            throttled: reading.throttling.is_active(),
        }
    }
}

/// Mean of the values so far.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    count: u32,
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.count += 1;
        }
    }

    fn value(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

/// The minute that is not over yet.
#[derive(Debug, Clone, Copy, Default)]
struct OpenMinute {
    began: Option<Duration>,
    last: Duration,
    hottest: Option<Celsius>,
    power: Mean,
    cpu: Mean,
    gpu: Mean,
    throttled: Option<bool>,
}

impl OpenMinute {
    fn add(&mut self, point: &Point) {
        self.began.get_or_insert(point.at);
        self.last = point.at;
        let pair = (self.hottest, point.hottest);
        self.hottest = match pair {
            (Some(a), Some(b)) => Some(Celsius(a.0.max(b.0))),
            (a, b) => a.or(b),
        };
        self.power.add(point.power.map(|power| power.0));
        self.cpu.add(point.cpu.map(|cpu| cpu.0));
        self.gpu.add(point.gpu.map(|gpu| gpu.0));
        let answers = [self.throttled, point.throttled].into_iter().flatten();
        self.throttled = answers.reduce(|a, b| a || b);
    }

    /// Returns the minute once it is over at `now`.
    fn close(&self, now: Duration) -> Option<Point> {
        let is_over = now.saturating_sub(self.began?) >= MINUTE;
        is_over.then(|| Point {
            at: self.last,
            hottest: self.hottest,
            power: self.power.value().map(Milliwatts),
            cpu: self.cpu.value().map(Percent),
            gpu: self.gpu.value().map(Percent),
            throttled: self.throttled,
        })
    }
}

/// Readings of the last minute and hour.
#[derive(Debug, Default)]
pub struct History {
    samples: HistoryBuf<Point, SAMPLES>,
    minutes: HistoryBuf<Point, MINUTES>,
    open: OpenMinute,
}

impl History {
    /// Adds a reading; the times of later readings do not go back.
    pub fn add(&mut self, reading: &Reading) {
        let point = Point::of(reading);
        if let Some(minute) = self.open.close(point.at) {
            self.minutes.write(minute);
            self.open = OpenMinute::default();
        }
        self.open.add(&point);
        self.samples.write(point);
    }

    /// The latest samples, the oldest first.
    pub fn samples(&self) -> impl Iterator<Item = &Point> {
        self.samples.oldest_ordered()
    }

    /// The latest whole minutes, the oldest first.
    pub fn minutes(&self) -> impl Iterator<Item = &Point> {
        self.minutes.oldest_ordered()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::reading;
    use allocation_counter::measure;
    use proptest::prelude::*;

    #[test]
    fn minute_keeps_its_highest_temperature_and_mean_power() {
        let mut history = History::default();
        for sample in 0..=30 {
            let load = if sample % 2 == 0 { 100.0 } else { 0.0 };
            history.add(&reading(INTERVAL * sample, load));
        }
        let minutes: Vec<Point> = history.minutes().copied().collect();
        let [minute] = minutes[..] else {
            panic!("one whole minute, not {}", minutes.len());
        };
        assert_eq!(minute.at, INTERVAL * 29);
        assert_eq!(minute.hottest, Some(Celsius(50.0)));
        assert_eq!(minute.throttled, Some(false));
        assert_eq!(minute.cpu, Some(Percent(50.0)));
        assert_eq!(minute.gpu, None);
        let watts = minute.power.map(|power| power.watts());
        assert!(
            watts.is_some_and(|watts| (watts - 10.0).abs() < 0.01),
            "{watts:?}"
        );
    }

    #[test]
    fn history_allocates_nothing() {
        let (mut reading, mut history) = (reading(Duration::ZERO, 50.0), History::default());
        let info = measure(|| {
            for sample in 0..2_000 {
                reading.at = INTERVAL * sample;
                history.add(&reading);
            }
        });
        assert_eq!(info.count_total, 0);
        assert_eq!(history.samples().count(), SAMPLES);
        assert_eq!(history.minutes().count(), MINUTES);
    }

    proptest! {
        #[test]
        fn rings_stay_in_order_whatever_the_intervals(
            steps in prop::collection::vec(0_u64..200, 0..150),
        ) {
            let mut history = History::default();
            let mut now = Duration::ZERO;
            for step in &steps {
                now += Duration::from_secs(*step);
                history.add(&reading(now, 0.0));
            }
            let times: Vec<Duration> = history.samples().map(|point| point.at).collect();
            prop_assert!(times.is_sorted());
            prop_assert_eq!(times.len(), steps.len().min(SAMPLES));
            let minutes: Vec<Duration> = history.minutes().map(|point| point.at).collect();
            prop_assert!(minutes.is_sorted());
        }
    }
}
