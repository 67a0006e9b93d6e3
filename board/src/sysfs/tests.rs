use std::time::Duration;

use allocation_counter::measure;

use super::SysfsBoard;
use crate::reading::{Board as _, DriveKind, Reading, Reserve, Sensed, SwapKind};
use crate::testing::{tree, write};
use crate::units::{Bytes, Celsius, Kilohertz, Milliwatts, Percent, Rpm};

const SECOND: Duration = Duration::from_secs(1);

fn first_reading(root: &tempfile::TempDir) -> Reading {
    SysfsBoard::open(root.path()).sample(SECOND).clone()
}

fn hottest(reading: &Reading) -> Option<(&str, Celsius)> {
    reading.hottest().map(|(zone, value)| (&*zone.name, value))
}

#[test]
fn orin_nano_states_heat_power_and_load() {
    let reading = first_reading(&tree("orin-nano"));
    assert_eq!(hottest(&reading), Some(("tj-thermal", Celsius(51.218))));
    let headroom = reading.headroom();
    assert!(
        headroom.is_some_and(|kelvin| (kelvin - 47.782).abs() < 1e-9),
        "{headroom:?}"
    );
    let disabled = reading
        .temperatures
        .iter()
        .find(|zone| &*zone.name == "cv0-thermal");
    assert_eq!(disabled.map(|zone| zone.sensed), Some(Sensed::Absent));
    let rails: Vec<&str> = reading.power.rails.iter().map(|rail| &*rail.name).collect();
    assert_eq!(rails, ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"]);
    assert_eq!(reading.power.total, Some(Milliwatts(5072.0 * 1.296)));
    let mode = reading.power.mode.as_ref();
    assert_eq!(mode.and_then(|mode| mode.name.as_deref()), Some("25W"));
    let faster = mode
        .and_then(|mode| mode.faster.as_ref())
        .map(|faster| &*faster.name);
    assert_eq!(faster, Some("MAXN_SUPER"));
    assert_eq!(reading.throttling.is_active(), Some(false));
    assert_eq!(reading.throttling.had_under_voltage, Some(false));
    let fan = reading
        .fans
        .first()
        .map(|fan| (fan.speed, fan.is_stopped()));
    assert_eq!(fan, Some((Some(Rpm(1843)), Some(false))));
    assert_eq!(reading.load.gpu, Some(Percent(41.2)));
    assert_eq!(reading.load.gpu_clock, Some(Kilohertz(612_000)));
    assert_eq!(reading.load.cores, Some(6));
    assert_eq!(reading.load.decoder, None);
    let zram = reading
        .swaps
        .iter()
        .map(|swap| swap.kind)
        .collect::<Vec<_>>();
    assert_eq!(zram, [SwapKind::Zram, SwapKind::Zram]);
    let drives: Vec<_> = reading
        .drives
        .iter()
        .map(|drive| (drive.kind, drive.temperature))
        .collect();
    assert_eq!(
        drives,
        [
            (DriveKind::SdCard, None),
            (DriveKind::Nvme, Some(Celsius(41.85)))
        ]
    );
    assert_eq!(
        reading.watchdogs.first().and_then(|w| w.is_active),
        Some(true)
    );
}

#[test]
fn hot_orin_nx_throttles_with_a_stopped_fan() {
    let reading = first_reading(&tree("orin-nx"));
    assert_eq!(reading.throttling.thermal, Some(true));
    assert_eq!(reading.headroom(), Some(-0.5));
    assert_eq!(
        reading.fans.first().and_then(|fan| fan.is_stopped()),
        Some(true)
    );
    assert_eq!(reading.power.mode.and_then(|mode| mode.faster), None);
    assert_eq!(
        reading.watchdogs.first().and_then(|w| w.is_active),
        Some(false)
    );
}

#[test]
fn agx_orin_sums_the_rails_that_feed_it() {
    let reading = first_reading(&tree("agx-orin"));
    let sum = 19_904.0 * 0.240 + 4_952.0 * 0.800;
    let total = reading
        .power
        .total
        .map(|total| (total.0 - sum).abs() < 1e-6);
    assert_eq!(total, Some(true));
    assert_eq!(reading.power.rails.len(), 4);
    let emmc = reading.drives.first();
    assert_eq!(emmc.and_then(|drive| drive.life_used), Some(Percent(100.0)));
    assert_eq!(emmc.and_then(|drive| drive.reserve), Some(Reserve::Warning));
}

#[test]
fn xavier_nx_has_the_older_layout() {
    let reading = first_reading(&tree("xavier-nx"));
    assert_eq!(hottest(&reading), Some(("PMIC-Die", Celsius(50.0))));
    assert_eq!(reading.load.gpu, Some(Percent(5.0)));
    assert_eq!(reading.load.gpu_clock, Some(Kilohertz(114_750)));
    let faster = reading.power.mode.and_then(|mode| mode.faster);
    assert_eq!(faster.map(|mode| mode.id), Some(8));
    let life = reading.drives.first().and_then(|drive| drive.life_used);
    assert_eq!(life, Some(Percent(10.0)));
}

#[test]
fn weak_supply_of_a_raspberry_pi_is_no_heat() {
    let root = tree("raspberry-pi-4");
    let flags = "sys/devices/platform/soc/soc:firmware/get_throttled";
    write(&root, flags, "50005\n");
    let throttling = first_reading(&root).throttling;
    assert_eq!(throttling.thermal, Some(false));
    assert_eq!(throttling.under_voltage, Some(true));
}

#[test]
fn raspberry_pi_4_reports_the_flags_of_its_firmware() {
    let reading = first_reading(&tree("raspberry-pi-4"));
    let throttling = reading.throttling;
    assert_eq!(throttling.thermal, Some(true));
    assert_eq!(throttling.under_voltage, Some(false));
    assert_eq!(throttling.had_under_voltage, Some(true));
    let swap = reading.swaps.first().map(|swap| (swap.kind, swap.used));
    assert_eq!(swap, Some((SwapKind::SdCard, Bytes(20_480 * 1024))));
    assert_eq!(reading.power.total, None);
    assert_eq!(
        reading
            .leds
            .iter()
            .filter(|led| led.is_on == Some(true))
            .count(),
        2
    );
}

#[test]
fn raspberry_pi_5_has_its_fan_and_no_complaint() {
    let reading = first_reading(&tree("raspberry-pi-5"));
    assert_eq!(reading.throttling.is_active(), Some(false));
    let fan = reading.fans.first();
    assert_eq!(fan.and_then(|fan| fan.speed), Some(Rpm(3012)));
    assert_eq!(
        reading.watchdogs.first().and_then(|w| w.timeout),
        Some(SECOND * 15)
    );
}

#[test]
fn other_boards_state_what_they_have() {
    let arm = first_reading(&tree("generic-arm64"));
    assert_eq!(hottest(&arm), Some(("package-thermal", Celsius(47.153))));
    assert_eq!(arm.throttling.thermal, Some(false));
    assert_eq!(arm.load.gpu_clock, Some(Kilohertz(300_000)));
    let nuc = first_reading(&tree("x86-nuc"));
    assert_eq!(hottest(&nuc), Some(("x86_pkg_temp", Celsius(52.0))));
    assert_eq!(nuc.headroom(), None);
    assert_eq!(nuc.throttling.thermal, Some(false));
    assert_eq!(
        nuc.swaps.first().map(|swap| swap.kind),
        Some(SwapKind::Disk)
    );
    let machine = first_reading(&tree("virtual-machine"));
    assert_eq!(machine.hottest(), None);
    assert_eq!(machine.throttling.is_active(), None);
    assert_eq!(
        machine.memory.map(|memory| memory.total),
        Some(Bytes(2_030_000 * 1024))
    );
}

#[test]
fn events_count_only_since_the_previous_sample() {
    let root = tree("orin-nano");
    let mut board = SysfsBoard::open(root.path());
    // The tree has 37 over-current events since its start.
    assert_eq!(board.sample(SECOND).throttling.over_current, Some(false));
    write(&root, "sys/class/hwmon/hwmon3/oc3_event_cnt", "38\n");
    write(&root, "sys/class/hwmon/hwmon3/oc1_event_cnt", "1\n");
    let throttling = board.sample(SECOND * 2).throttling;
    assert_eq!(
        (throttling.over_current, throttling.under_voltage),
        (Some(true), Some(true))
    );
    let throttling = board.sample(SECOND * 3).throttling;
    assert_eq!(
        (throttling.over_current, throttling.under_voltage),
        (Some(false), Some(false))
    );
    assert_eq!(throttling.had_under_voltage, Some(true));
}

#[test]
fn sensor_that_disappears_is_silent_until_it_returns() {
    let root = tree("generic-arm64");
    let temp = "sys/class/thermal/thermal_zone0/temp";
    let mut board = SysfsBoard::open(root.path());
    board.sample(SECOND);
    std::fs::remove_file(root.path().join(temp)).expect("the sensor's file");
    board.sample(SECOND * 2);
    let zone = |reading: &Reading| {
        let mut zones = reading.temperatures.iter();
        zones
            .find(|zone| &*zone.name == "package-thermal")
            .map(|zone| zone.sensed)
    };
    let silent = Sensed::Silent { since: SECOND * 2 };
    assert_eq!(zone(board.sample(SECOND * 3)), Some(silent));
    write(&root, temp, "50000\n");
    assert_eq!(
        zone(board.sample(SECOND * 4)),
        Some(Sensed::Value(Celsius(50.0)))
    );
}

#[test]
fn load_is_known_from_the_second_sample_on() {
    let root = tree("x86-nuc");
    let mut board = SysfsBoard::open(root.path());
    assert_eq!(board.sample(SECOND).load.cpu, None);
    write(&root, "proc/stat", "cpu  1100 0 1000 8300 0 0 0 0 0 0\n");
    assert_eq!(board.sample(SECOND * 2).load.cpu, Some(Percent(25.0)));
}

#[test]
fn swap_area_that_is_added_appears() {
    let root = tree("virtual-machine");
    let mut board = SysfsBoard::open(root.path());
    assert!(board.sample(SECOND).swaps.is_empty());
    drop(board);
    write(
        &root,
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/sda2 partition 1024 0 -2\n",
    );
    let mut board = SysfsBoard::open(root.path());
    assert_eq!(board.sample(SECOND).swaps.len(), 1);
    write(&root, "proc/swaps", "Filename Type Size Used Priority\n");
    assert!(board.sample(SECOND * 2).swaps.is_empty());
}

#[test]
fn sample_allocates_nothing_after_the_first() {
    for root in [tree("orin-nano"), tree("raspberry-pi-4"), tree("x86-nuc")] {
        let mut board = SysfsBoard::open(root.path());
        board.sample(SECOND);
        let info = measure(|| {
            for second in 2..10 {
                board.sample(SECOND * second);
            }
        });
        assert_eq!(info.count_total, 0);
    }
}

#[test]
fn this_machine_is_sampled() {
    let mut board = SysfsBoard::open(std::path::Path::new("/"));
    board.sample(SECOND);
    assert!(board.sample(SECOND * 2).memory.is_some());
}
