//! Prints one simulated afternoon of a box in a hot cabinet: with the heat policy and without it.
//!
//! `hot-afternoon` takes no arguments. The table is in docs/design/0048-load-shedding.md.

use std::time::Duration;

use watchkeeper_board::reading::{Reading, Sensed, Temperature};
use watchkeeper_board::units::Celsius;
use watchkeeper_contract::pipeline::Priority;
use watchkeeper_runtime::load::policy::SAMPLE_INTERVAL;
use watchkeeper_runtime::load::{Grant, HeatPolicy, Level};

use self::simulated::{SimulatedBox, SimulatedPipeline};

#[path = "../src/load/simulated.rs"]
#[expect(dead_code, reason = "the tests of the policy use more of it")]
mod simulated;

/// Temperature at which the simulated board throttles.
const LIMIT: Celsius = Celsius(99.0);

/// Length of the afternoon.
const AFTERNOON: Duration = Duration::from_secs(5 * 3600);

/// Interval of the rows.
const ROW: Duration = Duration::from_secs(1200);

/// Four cameras, one of low priority: 20 W at full work.
fn simulated_box() -> SimulatedBox {
    let camera = |priority| SimulatedPipeline {
        priority,
        usual_fps: 10.0,
        look_j: 0.3,
        decode_w: 0.4,
    };
    SimulatedBox {
        pipelines: vec![
            camera(Priority::High),
            camera(Priority::Normal),
            camera(Priority::Normal),
            camera(Priority::Low),
        ],
        idle_w: 5.0,
        clips_w: 1.4,
        sink_k_per_w: 2.2,
        chip_k_per_w: 0.3,
        time_constant: Duration::from_secs(240),
        sink: Celsius(60.0),
    }
}

fn main() {
    let (mut cooled, mut alone) = (simulated_box(), simulated_box());
    let mut policy = HeatPolicy::default();
    let (mut now, mut steps) = (Duration::ZERO, 0);
    let head = [
        "minute",
        "air",
        "without",
        "with",
        "level",
        "looks of normal and low",
        "steps",
        "60 to 110 °C: `o` without, `x` with, `|` the limit",
    ];
    print(&head.map(str::to_owned));
    while now <= AFTERNOON {
        let hours = now.as_secs_f64() / 3600.0;
        let sun = (hours / 5.0 * std::f64::consts::PI).sin();
        let air = Celsius(28.0 + 26.0 * sun);
        let watts = cooled.power(policy.level(), 1.0);
        let full = alone.power(Level::NONE, 1.0);
        cooled.advance(SAMPLE_INTERVAL, watts, air);
        alone.advance(SAMPLE_INTERVAL, full, air);
        let chip = cooled.chip(watts);
        let zone = Temperature {
            name: "chip".into(),
            sensed: Sensed::Value(chip),
            throttles_at: Some(LIMIT),
            critical_at: None,
        };
        let reading = Reading {
            at: now,
            temperatures: vec![zone],
            ..Reading::default()
        };
        if now.as_secs().is_multiple_of(ROW.as_secs()) {
            let level = policy.level();
            let looks = |priority| {
                let pipelines = cooled.pipelines.iter();
                let mut of = pipelines.filter(|pipeline| pipeline.priority == priority);
                of.next()
                    .map_or(0.0, |of| of.looks(level.grant(priority, of.usual_fps)))
            };
            print(&[
                (now.as_secs() / 60).to_string(),
                format!("{:.0} °C", air.0),
                format!("{:.0} °C", alone.chip(full).0),
                format!("{:.0} °C", chip.0),
                level.number().to_string(),
                format!(
                    "{:.1} and {:.1} a second",
                    looks(Priority::Normal),
                    looks(Priority::Low)
                ),
                steps.to_string(),
                plot(chip, alone.chip(full)),
            ]);
        }
        steps += u32::from(policy.handle(reading.at, &reading).is_some());
        now += SAMPLE_INTERVAL;
    }
}

/// Draws a row of the plot, a character for two degrees.
fn plot(with: Celsius, without: Celsius) -> String {
    let column = |celsius: Celsius| ((celsius.0 - 60.0) / 2.0).round() as usize;
    let mark = |at: usize| match at {
        _ if at == column(with) => 'x',
        _ if at == column(without) => 'o',
        _ if at == column(LIMIT) => '|',
        _ => '.',
    };
    format!("`{}`", (0..=25).map(mark).collect::<String>())
}

#[expect(clippy::print_stdout, reason = "a command-line tool")]
fn print(columns: &[String; 8]) {
    println!("| {} |", columns.join(" | "));
}
