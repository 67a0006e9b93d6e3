//! Fans: duty and speed.
//!
//! A Jetson has its tachometer in its own chip, `pwm_tach`, with the file `rpm`.

use std::path::Path;

use super::hwmon::{self, Chip};
use super::probe::{Buffer, Probe, number};
use crate::reading::{Fan, Reading};
use crate::units::{Percent, Rpm};

/// Chips with a fan that is set by pulses.
const PULSE_CHIP: &str = "pwmfan";

const TACHOMETER: &str = "pwm_tach";

/// Tachometers of one chip that are read.
const MAX_FANS: u32 = 4;

/// Largest duty (`pwmN` of hardware monitoring).
const FULL_DUTY: f64 = 255.0;

/// Duty and speed in the order of [`Reading::fans`].
#[derive(Debug)]
pub(super) struct Fans(Vec<[Option<Probe>; 2]>);

impl Fans {
    pub(super) fn find(root: &Path, reading: &mut Reading) -> Self {
        let chips = hwmon::chips(root);
        let tachometer = chips.iter().find(|chip| chip.name == TACHOMETER);
        let tachometer = tachometer.and_then(|chip| Probe::find(chip.folder.join("rpm")));
        let mut probes = Vec::new();
        for chip in &chips {
            for number in 1..=MAX_FANS {
                let [duty, speed] = of_chip(chip, number);
                let is_pulsed = chip.name == PULSE_CHIP && number == 1;
                let duty = duty.filter(|_| is_pulsed);
                let speed = speed.or_else(|| tachometer.clone().filter(|_| is_pulsed));
                if duty.is_none() && speed.is_none() {
                    continue;
                }
                probes.push([duty, speed]);
                reading.fans.push(Fan {
                    name: match number {
                        1 => chip.name.as_str().into(),
                        _ => format!("{} {number}", chip.name).into(),
                    },
                    duty: None,
                    speed: None,
                });
            }
        }
        Self(probes)
    }

    pub(super) fn sample(&self, reading: &mut Reading, buffer: &mut Buffer) {
        for ([duty, speed], fan) in self.0.iter().zip(&mut reading.fans) {
            let duty = number(duty.as_ref(), buffer);
            fan.duty = duty.map(|duty| Percent::share(duty, FULL_DUTY));
            fan.speed = number(speed.as_ref(), buffer).map(Rpm);
        }
    }
}

fn of_chip(chip: &Chip, number: u32) -> [Option<Probe>; 2] {
    let file = |name: String| Probe::find(chip.folder.join(name));
    [
        file(format!("pwm{number}")),
        file(format!("fan{number}_input")),
    ]
}
