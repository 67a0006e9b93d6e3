//! One simulated afternoon of a box in a hot cabinet, with the heat policy and without it, as rows
//! and as a plot.
//!
//! - Only the four operations of numbers are used, so every machine draws the same bytes.
//! - Compiled for the test of the plot in `docs/design`, and by the example `hot-afternoon` from
//!   this file.

use std::fmt::Write as _;
use std::time::Duration;

use watchkeeper_board::reading::{Reading, Sensed, Temperature};
use watchkeeper_board::units::Celsius;
use watchkeeper_contract::pipeline::Priority;

use super::policy::SAMPLE_INTERVAL;
use super::simulated::{SimulatedBox, SimulatedPipeline};
use super::{HeatPolicy, Level};

/// Temperature at which the simulated board throttles.
const LIMIT: Celsius = Celsius(99.0);

/// Length of the afternoon.
const AFTERNOON: Duration = Duration::from_secs(5 * 3600);

/// What is known of one sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) at: Duration,
    pub(super) air: Celsius,
    /// Temperature of the chip without the policy.
    pub(super) alone: Celsius,
    /// Temperature of the chip with it.
    pub(super) chip: Celsius,
    pub(super) level: Level,
    /// Looks a second of a camera of normal priority, and of the one of low priority.
    pub(super) looks: [f64; 2],
    /// Changes of the level so far.
    pub(super) steps: u32,
}

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

/// Strength of the sun from 0 to 1: half a period of a sine, by Bhaskara's formula, because the
/// standard library promises no equal bits of a sine on two machines.
fn sun(at: Duration) -> f64 {
    let share = at.as_secs_f64() / AFTERNOON.as_secs_f64();
    let product = share * (1.0 - share);
    16.0 * product / (5.0 - 4.0 * product)
}

/// Simulates the afternoon, with a row for each sample.
pub(super) fn rows() -> Vec<Row> {
    let (mut cooled, mut alone) = (simulated_box(), simulated_box());
    let mut policy = HeatPolicy::default();
    let (mut now, mut steps, mut rows) = (Duration::ZERO, 0, Vec::new());
    while now <= AFTERNOON {
        let air = Celsius(28.0 + 26.0 * sun(now));
        let level = policy.level();
        let watts = cooled.power(level, 1.0);
        let full = alone.power(Level::NONE, 1.0);
        cooled.advance(SAMPLE_INTERVAL, watts, air);
        alone.advance(SAMPLE_INTERVAL, full, air);
        let chip = cooled.chip(watts);
        let looks = |priority| {
            let mut of = cooled.pipelines.iter().filter(|p| p.priority == priority);
            let grant = |p: &SimulatedPipeline| p.looks(level.grant(priority, p.usual_fps));
            of.next().map_or(0.0, grant)
        };
        rows.push(Row {
            at: now,
            air,
            alone: alone.chip(full),
            chip,
            level,
            looks: [Priority::Normal, Priority::Low].map(looks),
            steps,
        });
        let reading = Reading {
            at: now,
            temperatures: vec![Temperature {
                name: "chip".into(),
                sensed: Sensed::Value(chip),
                throttles_at: Some(LIMIT),
                critical_at: None,
            }],
            ..Reading::default()
        };
        steps += u32::from(policy.handle(now, &reading).is_some());
        now += SAMPLE_INTERVAL;
    }
    rows
}

/// The left edge of the plot, and its right edge, at the end of the afternoon.
const EDGES: [f64; 2] = [50.0, 620.0];

fn x_of(at: Duration) -> f64 {
    EDGES[0] + (EDGES[1] - EDGES[0]) * at.as_secs_f64() / AFTERNOON.as_secs_f64()
}

fn y_of_celsius(celsius: f64) -> f64 {
    270.0 - (celsius - 20.0) * 2.6
}

fn y_of_level(level: f64) -> f64 {
    390.0 - level * 14.0
}

/// Draws the afternoon as an SVG: temperatures above, the level below, by minute.
pub(super) fn plot(rows: &[Row]) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 430\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"640\" height=\"430\" \
         fill=\"#fff\"/>\n",
    );
    // Writing to a string never fails.
    let drawn = draw_scales(&mut svg).and_then(|()| draw_curves(&mut svg, rows));
    drawn.map_or_else(|_| String::new(), |()| svg + "</svg>\n")
}

fn draw_scales(svg: &mut String) -> std::fmt::Result {
    let [left, right] = EDGES;
    let celsius = [20.0, 40.0, 60.0, 80.0, 100.0].map(|n| (y_of_celsius(n), format!("{n} °C")));
    let levels = [0.0, 3.0, 6.0].map(|n| (y_of_level(n), format!("level {n}")));
    for (y, name) in celsius.iter().chain(&levels) {
        writeln!(svg, "<path d=\"M{left} {y}H{right}\" stroke=\"#ddd\"/>")?;
        let y = y + 4.0;
        writeln!(
            svg,
            "<text x=\"44\" y=\"{y}\" text-anchor=\"end\">{name}</text>"
        )?;
    }
    for hour in 0..=5 {
        let (x, minute) = (x_of(Duration::from_secs(hour * 3600)), hour * 60);
        let anchor = "text-anchor=\"middle\"";
        writeln!(
            svg,
            "<text x=\"{x}\" y=\"412\" {anchor}>{minute} min</text>"
        )?;
    }
    for (x, y, colour, text) in [
        (180.0, 46.0, "#d7191c", "without the policy"),
        (290.0, 128.0, "#1a9641", "with the policy"),
        (320.0, 198.0, "#2b83ba", "air"),
        (540.0, y_of_celsius(LIMIT.0) - 6.0, "#c00", "limit 99 °C"),
    ] {
        writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y:.0}\" fill=\"{colour}\">{text}</text>"
        )?;
    }
    let limit = y_of_celsius(LIMIT.0);
    let dashed = "stroke=\"#c00\" stroke-dasharray=\"5 4\"";
    writeln!(svg, "<path d=\"M{left} {limit:.0}H{right}\" {dashed}/>")
}

/// Colour of a curve, and its value in degrees Celsius.
type Curve = (&'static str, fn(&Row) -> f64);

fn draw_curves(svg: &mut String, rows: &[Row]) -> std::fmt::Result {
    let curves: [Curve; 3] = [
        ("#2b83ba", |row| row.air.0),
        ("#d7191c", |row| row.alone.0),
        ("#1a9641", |row| row.chip.0),
    ];
    for (colour, value) in curves {
        write!(svg, "<polyline fill=\"none\" stroke=\"{colour}\" points=\"")?;
        for row in rows
            .iter()
            .filter(|row| row.at.as_secs().is_multiple_of(120))
        {
            write!(svg, "{:.0},{:.0} ", x_of(row.at), y_of_celsius(value(row)))?;
        }
        writeln!(svg, "\"/>")?;
    }
    let [left, right] = EDGES;
    write!(
        svg,
        "<path fill=\"none\" stroke=\"#555\" d=\"M{left} {}",
        y_of_level(0.0)
    )?;
    for pair in rows.windows(2) {
        if let [before, after] = pair
            && before.level != after.level
        {
            let y = y_of_level(f64::from(after.level.number()));
            write!(svg, "H{:.0}V{y}", x_of(after.at))?;
        }
    }
    writeln!(svg, "H{right}\"/>")
}
