//! Load and clocks of processor and graphics processor.
//!
//! Not here: the video decoder. A Jetson shows its clock in `/sys/kernel/debug` only, which is for
//! root; other kernels do not show it.

use std::path::{Path, PathBuf};

use super::probe::{Buffer, Probe, entries, number, numbered};
use crate::reading::Reading;
use crate::units::{Kilohertz, Percent};

/// Clock domains of processors that are read; more would make a sample slow on large machines.
const MAX_POLICIES: usize = 8;

/// Graphics cards that are looked at.
const MAX_CARDS: usize = 4;

/// Load of a Jetson's graphics processor, in thousandths.
const JETSON_GPU: [&str; 2] = ["sys/devices/platform/gpu.0/load", "sys/devices/gpu.0/load"];

/// Parts of the names of graphics processors in `devfreq`.
const GPU_NAMES: [&str; 4] = ["gpu", "ga10b", "gv11b", "gp10b"];

/// Ticks of all cores since the start (`/proc/stat`).
#[derive(Debug, Clone, Copy)]
struct Ticks {
    busy: u64,
    all: u64,
}

#[derive(Debug)]
pub(super) struct LoadProbes {
    stat: Option<Probe>,
    last: Option<Ticks>,
    online: Option<Probe>,
    clocks: Vec<Probe>,
    max_clocks: Vec<Probe>,
    /// Load of the graphics processor, and the number that means fully loaded.
    gpu: Option<(Probe, f64)>,
    gpu_clock: Option<Probe>,
}

impl LoadProbes {
    pub(super) fn find(root: &Path) -> Self {
        let cpu = root.join("sys/devices/system/cpu");
        let policies = numbered(&cpu.join("cpufreq"), "policy", MAX_POLICIES);
        let in_each = |name: &str| {
            let files = policies.iter().map(|policy| policy.join(name));
            files.filter_map(Probe::find).collect()
        };
        let jetson = Probe::first(root, &JETSON_GPU).map(|probe| (probe, 1000.0));
        Self {
            stat: Probe::find(root.join("proc/stat")),
            last: None,
            online: Probe::find(cpu.join("online")),
            clocks: in_each("scaling_cur_freq"),
            max_clocks: in_each("cpuinfo_max_freq"),
            gpu: jetson.or_else(|| amd_load(root).map(|probe| (probe, 100.0))),
            gpu_clock: gpu_clock(root),
        }
    }

    pub(super) fn sample(&mut self, reading: &mut Reading, buffer: &mut Buffer) {
        let load = &mut reading.load;
        let ticks = self.stat.as_ref();
        let ticks = ticks.and_then(|probe| parse_ticks(probe.text(buffer)?));
        load.cpu = ticks.zip(self.last).and_then(|(now, last)| busy(last, now));
        self.last = ticks;
        let online = self.online.as_ref();
        load.cores = online.and_then(|probe| count_list(probe.text(buffer)?));
        let fastest = |probes: &[Probe], buffer: &mut Buffer| {
            let clocks = probes.iter().filter_map(|probe| probe.number(buffer));
            clocks.max().map(Kilohertz)
        };
        load.cpu_clock = fastest(&self.clocks, buffer);
        load.cpu_max_clock = fastest(&self.max_clocks, buffer);
        let gpu = self.gpu.as_ref();
        load.gpu = gpu.and_then(|(probe, full)| Some(Percent::share(probe.number(buffer)?, *full)));
        let hertz: Option<u64> = number(self.gpu_clock.as_ref(), buffer);
        load.gpu_clock = hertz
            .and_then(|hertz| u32::try_from(hertz / 1000).ok())
            .map(Kilohertz);
    }
}

fn amd_load(root: &Path) -> Option<Probe> {
    let cards = numbered(&root.join("sys/class/drm"), "card", MAX_CARDS);
    let files = cards
        .iter()
        .map(|card| card.join("device/gpu_busy_percent"));
    files.into_iter().find_map(Probe::find)
}

fn gpu_clock(root: &Path) -> Option<Probe> {
    let is_gpu = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| GPU_NAMES.iter().any(|gpu| name.contains(gpu)))
    };
    let mut found: Vec<PathBuf> = entries(&root.join("sys/class/devfreq"))
        .filter(is_gpu)
        .collect();
    found.sort();
    found
        .iter()
        .find_map(|folder| Probe::find(folder.join("cur_freq")))
}

/// Parses the first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal.
/// The time of guests is part of user.
fn parse_ticks(text: &str) -> Option<Ticks> {
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let mut ticks = Ticks { busy: 0, all: 0 };
    for (place, word) in line.split_ascii_whitespace().take(8).enumerate() {
        let count: u64 = word.parse().ok()?;
        let is_idle = place == 3 || place == 4;
        ticks.all = ticks.all.saturating_add(count);
        ticks.busy = ticks.busy.saturating_add(if is_idle { 0 } else { count });
    }
    Some(ticks)
}

/// Share of busy ticks; `None` within one tick, and where the counts went back.
fn busy(last: Ticks, now: Ticks) -> Option<Percent> {
    let all = now.all.checked_sub(last.all).filter(|all| *all > 0)?;
    let busy = now.busy.saturating_sub(last.busy);
    Some(Percent::share(busy as f64, all as f64))
}

/// Counts the members of a list such as `0-3,6`.
fn count_list(text: &str) -> Option<u32> {
    let mut count: u32 = 0;
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn list_of_cores_is_counted() {
        assert_eq!(count_list("0-5"), Some(6));
        assert_eq!(count_list("0,2-3"), Some(3));
        assert_eq!(count_list("3-0"), None);
        assert_eq!(count_list("0-4294967295"), None);
    }

    #[test]
    fn waiting_for_storage_is_not_busy() {
        let last = parse_ticks("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 1");
        let now = parse_ticks("cpu  20 0 5 50 25 0 0 0 0 0");
        let load = last.zip(now).and_then(|(last, now)| busy(last, now));
        assert_eq!(load, Some(Percent(25.0)));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in ".{0,80}") {
            parse_ticks(&text);
            parse_ticks(&format!("cpu {text}"));
            count_list(&text);
        }
    }
}
