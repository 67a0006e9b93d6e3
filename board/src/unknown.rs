//! What can't be known on a board, with the reason.
//!
//! - A silent sensor is not listed: it exists, and its reading says that it is silent.
//! - A reason names the remedy where a user has one.
//! - Pure: only identity and reading are looked at.

use watchkeeper_contract::board::BoardUnknown;

use crate::identity::Identity;
use crate::model::Family;
use crate::reading::{Drive, DriveKind, Reading, Sensed};

/// Lists the readings that this board does not give.
pub fn list(identity: &Identity, reading: &Reading) -> Vec<BoardUnknown> {
    let sensors = match identity.is_virtual {
        true => "a virtual machine has no sensors",
        false => "Linux shows no sensor for it on this board",
    };
    let (power, decoder) = match identity.family {
        Family::Jetson => (
            "no INA3221 power monitor can be read; in a container, mount /sys",
            "Linux shows the decoder's clock only to root, in /sys/kernel/debug",
        ),
        Family::RaspberryPi | Family::Generic => (sensors, "Linux does not state it here"),
    };
    let gpu = "Linux does not state it here";
    let load = &reading.load;
    // A silent sensor exists, and is shown as silent.
    let (zones, rails) = (&reading.temperatures, &reading.power.rails);
    let has_zones = zones.iter().any(|zone| zone.sensed != Sensed::Absent);
    let has_rails = rails.iter().any(|rail| rail.sensed != Sensed::Absent);
    let missing = [
        ("temperature", !has_zones, sensors),
        (
            "throttling",
            reading.throttling.is_active().is_none(),
            sensors,
        ),
        ("power", reading.power.total.is_none() && !has_rails, power),
        ("fan", reading.fans.is_empty(), sensors),
        ("load of the graphics processor", load.gpu.is_none(), gpu),
        ("load of the video decoder", load.decoder.is_none(), decoder),
        (
            "pressure",
            reading.pressure.memory.is_none(),
            "the kernel runs without PSI (psi=1)",
        ),
        (
            "serial number",
            identity.serial.is_none(),
            "there is none that this user may read",
        ),
    ];
    let missing = missing.into_iter().filter(|(_, is_missing, _)| *is_missing);
    let mut unknown: Vec<BoardUnknown> = missing
        .map(|(what, _, why)| entry(what.to_owned(), why))
        .collect();
    let zones = reading.temperatures.iter();
    let disabled = zones.filter(|zone| zone.sensed == Sensed::Absent);
    unknown.extend(disabled.map(|zone| {
        entry(
            format!("temperature of {}", zone.name),
            "the zone is switched off",
        )
    }));
    let drives = reading.drives.iter();
    unknown.extend(drives.filter_map(|drive| life_time(drive, identity.is_virtual)));
    unknown
}

/// The one entry of a board whose sensors were not read yet.
pub(crate) fn unread() -> BoardUnknown {
    entry("sensors".to_owned(), "not read yet")
}

/// Why the life time of a drive is not known, if it is not.
fn life_time(drive: &Drive, is_virtual: bool) -> Option<BoardUnknown> {
    let why = match drive.kind {
        _ if drive.life_used.is_some() => return None,
        _ if is_virtual => "a virtual disk has none",
        DriveKind::SdCard => "SD cards do not state it",
        DriveKind::Emmc => "the eMMC is older than version 5.0, or its driver hides it",
        DriveKind::Nvme => "its health log needs root: sudo nvme smart-log",
        DriveKind::Disk => "its health log needs root: sudo smartctl -a",
    };
    Some(entry(format!("life time of {}", drive.name), why))
}

fn entry(what: String, why: &str) -> BoardUnknown {
    BoardUnknown {
        what,
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::Board as _;
    use crate::sysfs::SysfsBoard;
    use crate::testing::{reading, tree};
    use std::time::Duration;

    fn unknown(name: &str) -> Vec<String> {
        let root = tree(name);
        let mut board = SysfsBoard::open(root.path());
        let reading = board.sample(Duration::ZERO).clone();
        list(board.identity(), &reading)
            .into_iter()
            .map(|u| u.what)
            .collect()
    }

    #[test]
    fn orin_nano_hides_its_decoder_and_disabled_zones() {
        assert_eq!(
            unknown("orin-nano"),
            [
                "load of the video decoder",
                "temperature of cv0-thermal",
                "life time of mmcblk0",
                "life time of nvme0n1",
            ]
        );
    }

    #[test]
    fn silent_sensor_is_not_called_missing() {
        let mut reading = reading(Duration::ZERO, 0.0);
        reading.temperatures[0]
            .sensed
            .update(None, Duration::from_secs(2));
        let unknown = list(&Identity::default(), &reading);
        assert!(!unknown.iter().any(|each| each.what == "temperature"));
    }

    #[test]
    fn virtual_machine_knows_hardly_anything() {
        let unknown = unknown("virtual-machine");
        for what in ["temperature", "throttling", "power", "fan", "pressure"] {
            assert!(unknown.iter().any(|u| u == what), "{what} in {unknown:?}");
        }
    }
}
