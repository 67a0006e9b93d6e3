//! Hardware watchdogs and lights.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::probe::{Buffer, Probe, entries, number, numbered};
use crate::read_text;
use crate::reading::{Led, Reading, Watchdog};

const MAX_WATCHDOGS: usize = 4;

const MAX_LEDS: usize = 8;

/// Probes in the order of the lists of a reading.
#[derive(Debug)]
pub(super) struct Extras {
    /// State and timeout of each watchdog.
    watchdogs: Vec<[Option<Probe>; 2]>,
    leds: Vec<Option<Probe>>,
}

impl Extras {
    pub(super) fn find(root: &Path, reading: &mut Reading) -> Self {
        let mut watchdogs = Vec::new();
        for folder in numbered(&root.join("sys/class/watchdog"), "watchdog", MAX_WATCHDOGS) {
            let name = read_text(&folder, "identity").unwrap_or_else(|| "unnamed".to_owned());
            watchdogs.push(["state", "timeout"].map(|name| Probe::find(folder.join(name))));
            reading.watchdogs.push(Watchdog {
                name: name.into(),
                is_active: None,
                timeout: None,
            });
        }
        let mut leds = Vec::new();
        let mut folders: Vec<PathBuf> = entries(&root.join("sys/class/leds")).collect();
        folders.sort();
        for folder in folders {
            let name = folder.file_name().and_then(|name| name.to_str());
            // Lights of keyboards are inputs of a computer, not lights of a box.
            let Some(name) = name.filter(|name| !name.starts_with("input")) else {
                continue;
            };
            if leds.len() == MAX_LEDS {
                break;
            }
            leds.push(Probe::find(folder.join("brightness")));
            reading.leds.push(Led {
                name: name.into(),
                is_on: None,
            });
        }
        Self { watchdogs, leds }
    }

    pub(super) fn sample(&self, reading: &mut Reading, buffer: &mut Buffer) {
        for ([state, timeout], watchdog) in self.watchdogs.iter().zip(&mut reading.watchdogs) {
            let state = state.as_ref().and_then(|probe| probe.text(buffer));
            watchdog.is_active = state.map(|state| state == "active");
            watchdog.timeout = number(timeout.as_ref(), buffer).map(Duration::from_secs);
        }
        for (probe, led) in self.leds.iter().zip(&mut reading.leds) {
            let brightness: Option<u32> = number(probe.as_ref(), buffer);
            led.is_on = brightness.map(|brightness| brightness > 0);
        }
    }
}
