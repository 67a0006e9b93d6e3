//! A board of one thermal mass, for tests of what reacts to heat and power.
//!
//! - Heat flows as `C · dT/dt = P − (T − ambient) / R`, solved exactly for each step.
//! - Power is `idle + load · (full − idle)`; it works at most half of full load
//!   from `throttle_at` on, until it is [`RESUME_BELOW`] kelvin cooler.
//! - The same calls give the same readings: there is no clock and no randomness.
//! - Use: `SimulatedBoard::new(model, ambient)`, then in turn `set_load`, and `sample(now)`, which
//!   advances the model to `now`. `done` says how much of the load was really worked.

use std::time::Duration;

use crate::identity::Identity;
use crate::reading::{Board, Power, Rail, RailValue, Reading, Sensed, Temperature, Throttling};
use crate::units::{Celsius, Milliamps, Millivolts, Milliwatts, Percent};

/// Kelvin below `throttle_at` at which the board works at full speed again.
pub const RESUME_BELOW: f64 = 3.0;

/// Largest share of full load that is worked while the board throttles.
const THROTTLED_SHARE: f64 = 0.5;

/// Longest step between two decisions of the board to throttle.
const MAX_STEP: Duration = Duration::from_secs(1);

/// Supply voltage of the simulated rail.
const SUPPLY: Millivolts = Millivolts(19_000.0);

/// Thermal properties of a board in its housing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThermalModel {
    /// Power without load.
    pub idle: Milliwatts,
    /// Power at full load.
    pub full: Milliwatts,
    /// Heat that warms the board by one kelvin, in joules.
    pub capacity_j_per_k: f64,
    /// Kelvin above the ambient temperature for each watt, in the steady state.
    pub resistance_k_per_w: f64,
    /// Temperature at which the board slows itself down.
    pub throttle_at: Celsius,
}

impl ThermalModel {
    /// A board of the size of an Orin Nano in a closed housing: 5 W idle, 15 W at full load. At
    /// full load it is 60 K above the ambient temperature, with a time constant of 10 minutes. The
    /// numbers are assumptions, not measurements.
    pub const SMALL: Self = Self {
        idle: Milliwatts(5_000.0),
        full: Milliwatts(15_000.0),
        capacity_j_per_k: 150.0,
        resistance_k_per_w: 4.0,
        throttle_at: Celsius(95.0),
    };

    /// Temperature that the board approaches under a constant load.
    pub fn steady(&self, ambient: Celsius, load: Percent) -> Celsius {
        Celsius(ambient.0 + self.power(load).watts() * self.resistance_k_per_w)
    }

    fn power(&self, load: Percent) -> Milliwatts {
        Milliwatts(self.idle.0 + (self.full.0 - self.idle.0) * load.0 / 100.0)
    }
}

/// A board whose temperature follows its load.
#[derive(Debug, Clone)]
pub struct SimulatedBoard {
    identity: Identity,
    model: ThermalModel,
    ambient: Celsius,
    load: Percent,
    temperature: Celsius,
    is_throttled: bool,
    is_silent: bool,
    has_under_voltage: bool,
    /// Load times seconds that was worked, in percent seconds.
    done: f64,
    reading: Reading,
}

impl SimulatedBoard {
    /// Creates a board that has stood idle at this ambient temperature for long.
    pub fn new(model: ThermalModel, ambient: Celsius) -> Self {
        let mut board = Self {
            identity: Identity::default(),
            model,
            ambient,
            load: Percent(0.0),
            temperature: model.steady(ambient, Percent(0.0)),
            is_throttled: false,
            is_silent: false,
            has_under_voltage: false,
            done: 0.0,
            reading: Reading::default(),
        };
        board.reading.temperatures = vec![Temperature {
            name: "cpu-thermal".into(),
            sensed: Sensed::Value(board.temperature),
            throttles_at: Some(model.throttle_at),
            critical_at: Some(Celsius(model.throttle_at.0 + 10.0)),
        }];
        board.reading.power = Power {
            rails: vec![Rail {
                name: "VDD_IN".into(),
                sensed: Sensed::Value(board.rail()),
            }],
            ..Power::default()
        };
        board
    }

    /// Sets the load that is asked for from now on.
    pub fn set_load(&mut self, load: Percent) {
        self.load = Percent(load.0.clamp(0.0, 100.0));
    }

    /// Sets the temperature of the air from now on.
    pub fn set_ambient(&mut self, ambient: Celsius) {
        self.ambient = ambient;
    }

    /// Silences the temperature sensor, or lets it answer again.
    pub fn set_silent(&mut self, is_silent: bool) {
        self.is_silent = is_silent;
    }

    /// Lowers the supply voltage below its limit, or ends that.
    pub fn set_under_voltage(&mut self, is_low: bool) {
        self.has_under_voltage = is_low;
    }

    /// True temperature of the board, also while its sensor is silent.
    pub fn temperature(&self) -> Celsius {
        self.temperature
    }

    /// Work done since the start, in percent of full load times seconds.
    pub fn done(&self) -> f64 {
        self.done
    }

    /// Load that is really worked: less than asked for while the board throttles.
    fn worked(&self) -> Percent {
        match self.is_throttled {
            true => Percent(self.load.0.min(100.0 * THROTTLED_SHARE)),
            false => self.load,
        }
    }

    fn rail(&self) -> RailValue {
        let power = self.model.power(self.worked());
        RailValue {
            voltage: SUPPLY,
            current: Milliamps(power.0 / SUPPLY.0 * 1000.0),
        }
    }

    fn step(&mut self, seconds: f64) {
        let worked = self.worked();
        self.done += worked.0 * seconds;
        let steady = self.model.steady(self.ambient, worked).0;
        let constant = self.model.capacity_j_per_k * self.model.resistance_k_per_w;
        let rest = (self.temperature.0 - steady) * (-seconds / constant).exp();
        self.temperature = Celsius(steady + rest);
        let limit = self.model.throttle_at.0;
        self.is_throttled = match self.is_throttled {
            true => self.temperature.0 > limit - RESUME_BELOW,
            false => self.temperature.0 >= limit,
        };
    }
}

impl Board for SimulatedBoard {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn sample(&mut self, now: Duration) -> &Reading {
        let mut left = now.saturating_sub(self.reading.at);
        while !left.is_zero() {
            let step = left.min(MAX_STEP);
            self.step(step.as_secs_f64());
            left = left.saturating_sub(step);
        }
        let (rail, load) = (self.rail(), self.worked());
        let answer = (!self.is_silent).then_some(self.temperature);
        let reading = &mut self.reading;
        reading.at = now;
        for zone in &mut reading.temperatures {
            zone.sensed.update(answer, now);
        }
        for each in &mut reading.power.rails {
            each.sensed.update(Some(rail), now);
        }
        reading.power.total = Some(rail.power());
        reading.load.cpu = Some(load);
        reading.throttling = Throttling {
            thermal: Some(self.is_throttled),
            over_current: Some(false),
            under_voltage: Some(self.has_under_voltage),
            had_under_voltage: Some(
                self.has_under_voltage || reading.throttling.had_under_voltage == Some(true),
            ),
        };
        &self.reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn board_approaches_its_steady_temperature() {
        let mut board = SimulatedBoard::new(ThermalModel::SMALL, Celsius(20.0));
        assert_eq!(board.temperature(), Celsius(40.0));
        board.set_load(Percent(100.0));
        board.sample(HOUR * 3);
        assert!((board.temperature().0 - 80.0).abs() < 0.01);
    }

    #[test]
    fn hot_board_throttles_and_recovers_in_cool_air() {
        let mut board = SimulatedBoard::new(ThermalModel::SMALL, Celsius(45.0));
        board.set_load(Percent(100.0));
        let throttling = board.sample(HOUR).throttling;
        assert_eq!(throttling.is_active(), Some(true));
        assert!(board.temperature().0 < 95.5);
        assert!(board.done() < 100.0 * HOUR.as_secs_f64());
        board.set_ambient(Celsius(10.0));
        let throttling = board.sample(HOUR * 2).throttling;
        assert_eq!(throttling.is_active(), Some(false));
    }

    #[test]
    fn silent_sensor_hides_the_true_temperature() {
        let mut board = SimulatedBoard::new(ThermalModel::SMALL, Celsius(20.0));
        board.set_silent(true);
        assert_eq!(board.sample(HOUR).hottest(), None);
        let since = Duration::from_secs(3600);
        let sensed = board
            .sample(HOUR * 2)
            .temperatures
            .first()
            .map(|z| z.sensed);
        assert_eq!(sensed, Some(Sensed::Silent { since }));
    }

    proptest! {
        #[test]
        fn temperature_stays_between_air_and_full_load(
            ambient in -20.0..50.0_f64,
            loads in prop::collection::vec((0.0..150.0_f64, 0_u64..2000), 1..20),
        ) {
            let model = ThermalModel::SMALL;
            let mut board = SimulatedBoard::new(model, Celsius(ambient));
            let (low, high) = (
                model.steady(Celsius(ambient), Percent(0.0)).0,
                model.steady(Celsius(ambient), Percent(100.0)).0,
            );
            let mut now = Duration::ZERO;
            for (load, seconds) in loads {
                board.set_load(Percent(load));
                now += Duration::from_secs(seconds);
                let value = board.sample(now).hottest().map(|(_, value)| value.0);
                let value = value.unwrap_or(f64::NAN);
                prop_assert!(value >= low - 1e-6 && value <= high + 1e-6, "{value}");
            }
        }

        #[test]
        fn more_load_is_never_cooler(less in 0.0..50.0_f64, more in 50.0..100.0_f64) {
            let after_an_hour = |load| {
                let mut board = SimulatedBoard::new(ThermalModel::SMALL, Celsius(25.0));
                board.set_load(Percent(load));
                board.sample(HOUR);
                board.temperature().0
            };
            prop_assert!(after_an_hour(less) <= after_an_hour(more));
        }
    }
}
