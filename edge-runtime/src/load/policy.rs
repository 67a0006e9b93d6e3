//! Decides from temperatures how much load is shed. It follows the thermal task of Hubris
//! (oxidecomputer/hubris, `task/thermal`). It controls in the normal range, sheds everything at
//! once near the limit, and returns to normal only when every sensor is.
//!
//! - Sans-IO: readings and the time go in, at most one [`Step`] comes out.
//! - A sensor that is switched off is forgotten: its part of the chip has no power.
//! - A silent sensor counts as heating by [`SLEW_K_PER_S`] since its last reading.
//! - Between [`SHED_K`] and [`GIVE_BACK_K`] below the limit nothing changes (hysteresis).
//! - A box without any sensor sheds nothing: its temperature is unknown, and so it stays.
//!
//! | hottest sensor, below its limit | load |
//! |---|---|
//! | up to [`CRITICAL_K`] | everything is shed at once |
//! | up to [`SHED_K`], not falling | one level more each [`SHED_INTERVAL`] |
//! | [`GIVE_BACK_K`] or more for [`COOL_TIME`] | one level less |

use std::sync::Arc;
use std::time::Duration;

use watchkeeper_board::reading::{Reading, Sensed, Temperature};
use watchkeeper_board::units::Celsius;

use super::level::Level;

/// Fastest rise that is expected of a box, and assumed of a sensor that does not answer.
pub const SLEW_K_PER_S: f64 = 1.0;

/// Interval in which the policy is asked; the board is read more often.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);

/// Distance to the limit that is kept wherever shedding can keep it.
pub const RESERVE_K: f64 = 5.0;

/// Distance below which everything is shed: the reserve, and what a box may heat until the next
/// reading.
pub const CRITICAL_K: f64 = RESERVE_K + SLEW_K_PER_S * SAMPLE_INTERVAL.as_secs() as f64;

/// Distance below which load is shed step by step.
pub const SHED_K: f64 = CRITICAL_K + 5.0;

/// Distance from which on load is given back.
pub const GIVE_BACK_K: f64 = SHED_K + 5.0;

/// Time that a step has to take effect before the next one.
pub const SHED_INTERVAL: Duration = Duration::from_secs(20);

/// Time for which a box is cool before each level that is given back.
pub const COOL_TIME: Duration = Duration::from_secs(60);

/// Silence after which a sensor counts as removed, where all others are cool.
pub const REMOVED_AFTER: Duration = Duration::from_secs(600);

/// Why the level changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Cause {
    /// The temperature of a sensor and its limit.
    Hot {
        sensor: Arc<str>,
        temperature: Celsius,
        limit: Celsius,
    },
    /// A sensor does not answer.
    Silent {
        sensor: Arc<str>,
        /// How long it has been silent.
        lasts: Duration,
    },
    /// The board reports that it throttles.
    Throttled,
    /// Every sensor is cool, the hottest at this temperature, and load is still shed.
    Cooling {
        sensor: Arc<str>,
        temperature: Celsius,
    },
    /// Every sensor has been cool for [`COOL_TIME`].
    Cool,
}

impl Cause {
    /// Describes it as a clause after "because".
    fn describe(&self) -> String {
        match self {
            Self::Hot {
                sensor,
                temperature,
                limit,
            } => format!("{sensor} has {temperature} of at most {limit}"),
            Self::Silent { sensor, lasts } => format!(
                "sensor {sensor} has not answered for {} s and counts as heating",
                lasts.as_secs()
            ),
            Self::Throttled => "the board throttles".to_owned(),
            Self::Cooling {
                sensor,
                temperature,
            } => format!(
                "the box was too hot; {sensor} has {temperature} now, and one level is given back \
                 each {} s",
                COOL_TIME.as_secs()
            ),
            Self::Cool => "the box is cooler".to_owned(),
        }
    }
}

/// One change of the level.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub from: Level,
    pub to: Level,
    pub cause: Cause,
}

impl Step {
    /// One sentence: what is shed now, and why.
    #[must_use]
    pub fn message(&self) -> String {
        sentence(self.to, &self.cause)
    }
}

fn sentence(level: Level, cause: &Cause) -> String {
    let (shed, why) = (level.describe(), cause.describe());
    format!("load level {level}: {shed}, because {why}")
}

#[derive(Debug, Clone)]
struct Sensor {
    name: Arc<str>,
    temperature: Celsius,
    limit: Celsius,
    /// Time of the last reading.
    at: Duration,
}

impl Sensor {
    fn silence(&self, now: Duration) -> Duration {
        now.saturating_sub(self.at)
    }

    fn is_silent(&self, now: Duration) -> bool {
        self.silence(now) > SAMPLE_INTERVAL
    }

    /// Kelvin below the limit, assuming the worst since the last reading.
    fn headroom(&self, now: Duration) -> f64 {
        let heated = self.silence(now).as_secs_f64() * SLEW_K_PER_S;
        self.limit.0 - self.temperature.0 - heated
    }
}

/// The state machine of the level.
#[derive(Debug, Clone, Default)]
pub struct HeatPolicy {
    sensors: Vec<Sensor>,
    level: Level,
    /// When the last reading was handled, and whether the board throttled.
    now: Duration,
    is_throttled: bool,
    /// When the level changed last, and the headroom then.
    last_step: Option<(Duration, f64)>,
    cool_since: Option<Duration>,
}

impl HeatPolicy {
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// One sentence: what is shed, and the temperature by the last reading; `None` if nothing is.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        if self.level == Level::NONE {
            return None;
        }
        let cause = match self.hottest() {
            Some((place, headroom)) if headroom < GIVE_BACK_K => self.hot_cause(place, headroom),
            Some((place, _)) if !self.is_throttled => {
                let sensor = self.sensors.get(place)?;
                Cause::Cooling {
                    sensor: Arc::clone(&sensor.name),
                    temperature: sensor.temperature,
                }
            }
            _ => Cause::Throttled,
        };
        Some(sentence(self.level, &cause))
    }

    /// The sensor with the least headroom.
    fn hottest(&self) -> Option<(usize, f64)> {
        let sensors = self.sensors.iter().enumerate();
        let headrooms = sensors.map(|(place, sensor)| (place, sensor.headroom(self.now)));
        headrooms.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// The board may throttle for a reason that no sensor shows.
    fn hot_cause(&self, place: usize, headroom: f64) -> Cause {
        match headroom > SHED_K && self.is_throttled {
            true => Cause::Throttled,
            false => self.cause(self.now, place),
        }
    }

    /// Takes the latest reading of the board, which may be older than `now`. Neither time falls.
    pub fn handle(&mut self, now: Duration, reading: &Reading) -> Option<Step> {
        let is_throttled = reading.throttling.thermal == Some(true);
        self.forget_switched_off(&reading.temperatures);
        for zone in &reading.temperatures {
            self.note(reading.at, zone);
        }
        self.forget_removed(now);
        (self.now, self.is_throttled) = (now, is_throttled);
        let (place, headroom) = match self.hottest() {
            Some((place, headroom)) => (Some(place), headroom),
            None if is_throttled => (None, SHED_K),
            None => return None,
        };
        let to = self.next_level(now, headroom, is_throttled);
        if to == self.level {
            return None;
        }
        let from = std::mem::replace(&mut self.level, to);
        self.last_step = Some((now, headroom));
        let cause = if to < from {
            Cause::Cool
        } else {
            place.map_or(Cause::Throttled, |place| self.hot_cause(place, headroom))
        };
        Some(Step { from, to, cause })
    }

    fn note(&mut self, at: Duration, zone: &Temperature) {
        let Some(temperature) = zone.value() else {
            return;
        };
        let limit = zone.limit();
        let known = self.sensors.iter_mut().find(|s| s.name == zone.name);
        if let Some(sensor) = known {
            // Of sensors with one name the hottest counts.
            if sensor.at == at && sensor.headroom(at) <= limit.0 - temperature.0 {
                return;
            }
            (sensor.temperature, sensor.limit, sensor.at) = (temperature, limit, at);
        } else {
            self.sensors.push(Sensor {
                name: Arc::clone(&zone.name),
                temperature,
                limit,
                at,
            });
        }
    }

    /// Forgets sensors of which all zones of the name are switched off.
    fn forget_switched_off(&mut self, zones: &[Temperature]) {
        self.sensors.retain(|sensor| {
            let mut named = zones
                .iter()
                .filter(|zone| zone.name == sensor.name)
                .peekable();
            named.peek().is_none() || named.any(|zone| zone.sensed != Sensed::Absent)
        });
    }

    /// Forgets sensors that were silent for long while another one answers and none is warm.
    fn forget_removed(&mut self, now: Duration) {
        let is_removed = |sensor: &Sensor| sensor.silence(now) >= REMOVED_AFTER;
        let mut others = self.sensors.iter().filter(|sensor| !is_removed(sensor));
        let answers = others.clone().any(|sensor| !sensor.is_silent(now));
        if answers && others.all(|sensor| sensor.headroom(now) >= GIVE_BACK_K) {
            self.sensors.retain(|sensor| !is_removed(sensor));
        }
    }

    fn next_level(&mut self, now: Duration, headroom: f64, is_throttled: bool) -> Level {
        let since_step = self.last_step.map(|(at, _)| now.saturating_sub(at));
        let is_due = |interval| since_step.is_none_or(|since| since >= interval);
        let is_cool = headroom >= GIVE_BACK_K && !is_throttled;
        if !is_cool {
            self.cool_since = None;
        }
        if headroom <= CRITICAL_K {
            return Level::MAX;
        }
        if headroom <= SHED_K || is_throttled {
            if self.level == Level::NONE {
                return self.level.higher();
            }
            if !is_due(SHED_INTERVAL) {
                return self.level;
            }
            let before = self.last_step.map_or(f64::INFINITY, |(_, before)| before);
            self.last_step = Some((now, headroom));
            // A box that cools down needs no further step.
            return if headroom <= before || is_throttled {
                self.level.higher()
            } else {
                self.level
            };
        }
        if is_cool {
            let since = *self.cool_since.get_or_insert(now);
            if now.saturating_sub(since) >= COOL_TIME && is_due(COOL_TIME) {
                return self.level.lower();
            }
        }
        self.level
    }

    fn cause(&self, now: Duration, place: usize) -> Cause {
        let Some(sensor) = self.sensors.get(place) else {
            return Cause::Throttled;
        };
        let name = Arc::clone(&sensor.name);
        if sensor.is_silent(now) {
            return Cause::Silent {
                sensor: name,
                lasts: sensor.silence(now),
            };
        }
        Cause::Hot {
            sensor: name,
            temperature: sensor.temperature,
            limit: sensor.limit,
        }
    }
}
