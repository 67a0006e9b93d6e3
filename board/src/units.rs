//! Units of readings, one type each, so that a voltage can't be used as a current.
//!
//! - Each serialises as its bare number; names of members say the unit.

use std::fmt;

use serde::Serialize;

/// Defines a unit: its type, its number and its symbol.
macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($number:ty), $format:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
        #[serde(transparent)]
        pub struct $name(pub $number);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    };
}

unit!(
    /// A temperature in degrees Celsius.
    Celsius(f64),
    "{:.0} °C"
);
unit!(
    /// A voltage in thousandths of a volt.
    Millivolts(f64),
    "{:.0} mV"
);
unit!(
    /// A current in thousandths of an ampere; negative where it flows back.
    Milliamps(f64),
    "{:.0} mA"
);
unit!(
    /// A power in thousandths of a watt; negative where it flows back.
    Milliwatts(f64),
    "{:.0} mW"
);
unit!(
    /// A share of a whole, `0.0..=100.0`.
    Percent(f64),
    "{:.0} %"
);
unit!(
    /// Revolutions of a fan in a minute.
    Rpm(u32),
    "{} rpm"
);
unit!(
    /// A clock rate in thousands of cycles a second.
    Kilohertz(u32),
    "{} kHz"
);
unit!(
    /// An amount of memory or storage in bytes.
    Bytes(u64),
    "{} bytes"
);

/// Temperatures outside this range come from a broken or disabled sensor: disabled zones of a
/// Jetson report −256 °C.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = -55.0..=150.0;

impl Celsius {
    /// Converts the kernel's thousandths of a degree (Linux,
    /// `Documentation/driver-api/thermal/sysfs-api.rst`); `None` if that is not plausible.
    pub fn from_millidegrees(value: f64) -> Option<Self> {
        let temperature = value / 1000.0;
        PLAUSIBLE
            .contains(&temperature)
            .then_some(Self(temperature))
    }
}

impl Milliwatts {
    /// Computes the power of a voltage and a current.
    pub fn of(voltage: Millivolts, current: Milliamps) -> Self {
        Self(voltage.0 * current.0 / 1000.0)
    }

    #[must_use]
    pub fn watts(self) -> f64 {
        self.0 / 1000.0
    }
}

impl Percent {
    /// Computes the share of `part` in `whole`, within 0 and 100; 0 of nothing.
    pub fn share(part: f64, whole: f64) -> Self {
        if whole > 0.0 {
            Self((part * 100.0 / whole).clamp(0.0, 100.0))
        } else {
            Self(0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_voltage_times_current() {
        let power = Milliwatts::of(Millivolts(5_000.0), Milliamps(1_500.0));
        assert_eq!(power, Milliwatts(7_500.0));
        assert_eq!(power.to_string(), "7500 mW");
    }

    #[test]
    fn share_stays_within_its_bounds() {
        assert_eq!(Percent::share(1.0, 4.0), Percent(25.0));
        assert_eq!(Percent::share(9.0, 4.0), Percent(100.0));
        assert_eq!(Percent::share(1.0, 0.0), Percent(0.0));
    }
}
