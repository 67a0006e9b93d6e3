//! A board read from the files of Linux: `/sys`, `/proc`, and the files of its vendor.
//!
//! - Sensors are found once, at [`SysfsBoard::open`]; each sample opens, reads and closes their
//!   files, so a driver that is loaded again answers again.
//! - A sample allocates nothing, unless the swap areas have changed.
//! - The root folder is a parameter: `/` on a box, a tree of files in tests.

mod drives;
mod extras;
mod fans;
mod heat;
mod hwmon;
mod load;
mod memory;
mod power;
mod probe;
mod throttling;

use std::path::Path;
use std::time::Duration;

use self::drives::Drives;
use self::extras::Extras;
use self::fans::Fans;
use self::heat::Zones;
use self::load::LoadProbes;
use self::memory::MemoryProbes;
use self::power::PowerProbes;
use self::probe::Buffer;
use self::throttling::ThrottleProbes;
use crate::identity::{self, Identity};
use crate::reading::{Board, Reading};

/// A board below a root folder.
#[derive(Debug)]
pub struct SysfsBoard {
    identity: Identity,
    zones: Zones,
    throttling: ThrottleProbes,
    power: PowerProbes,
    fans: Fans,
    load: LoadProbes,
    memory: MemoryProbes,
    drives: Drives,
    extras: Extras,
    buffer: Buffer,
    reading: Reading,
}

impl SysfsBoard {
    /// Identifies the board with root folder `root` and finds its sensors.
    #[must_use]
    pub fn open(root: &Path) -> Self {
        let mut reading = Reading::default();
        let drives = Drives::find(root, &mut reading);
        Self {
            identity: identity::read(root),
            zones: Zones::find(root, &mut reading),
            throttling: ThrottleProbes::find(root),
            power: PowerProbes::find(root, &mut reading),
            fans: Fans::find(root, &mut reading),
            load: LoadProbes::find(root),
            memory: MemoryProbes::find(root),
            drives,
            extras: Extras::find(root, &mut reading),
            buffer: Buffer::new(),
            reading,
        }
    }
}

impl Board for SysfsBoard {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn sample(&mut self, now: Duration) -> &Reading {
        let (reading, buffer) = (&mut self.reading, &mut self.buffer);
        reading.at = now;
        self.zones.sample(reading, buffer);
        self.throttling.sample(reading, buffer);
        self.power.sample(reading, buffer);
        self.fans.sample(reading, buffer);
        self.load.sample(reading, buffer);
        self.memory.sample(reading, buffer);
        self.drives.sample(reading, buffer);
        self.extras.sample(reading, buffer);
        &self.reading
    }
}

#[cfg(test)]
mod tests;
