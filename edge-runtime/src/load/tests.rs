mod simulated;

use std::time::Duration;

use proptest::prelude::*;
use watchkeeper_board::reading::{Reading, Sensed, Temperature, Throttling};
use watchkeeper_board::units::Celsius;
use watchkeeper_contract::pipeline::Priority;

use self::simulated::{SimulatedBox, SimulatedPipeline};
use super::policy::{
    COOL_TIME, GIVE_BACK_K, REMOVED_AFTER, RESERVE_K, SAMPLE_INTERVAL, SHED_INTERVAL, SHED_K,
};
use super::*;

const LIMIT: Celsius = Celsius(99.0);

fn zone(name: &str, sensed: Sensed<Celsius>) -> Temperature {
    Temperature {
        name: name.into(),
        sensed,
        throttles_at: Some(LIMIT),
        critical_at: None,
    }
}

/// A reading of one sensor, so many kelvin below its limit.
fn reading(at: Duration, below_limit: f64) -> Reading {
    let value = Celsius(LIMIT.0 - below_limit);
    Reading {
        at,
        temperatures: vec![zone("CPU-therm", Sensed::Value(value))],
        ..Reading::default()
    }
}

/// Feeds one sensor for a time; returns the steps.
fn feed(
    policy: &mut HeatPolicy,
    now: &mut Duration,
    below_limit: f64,
    time: Duration,
) -> Vec<Level> {
    let until = *now + time;
    let mut levels = Vec::new();
    while *now < until {
        *now += SAMPLE_INTERVAL;
        let step = policy.handle(*now, &reading(*now, below_limit));
        levels.extend(step.map(|step| step.to));
    }
    levels
}

#[test]
fn warm_box_sheds_one_level_at_a_time() {
    let (mut policy, mut now) = (HeatPolicy::default(), Duration::ZERO);
    let levels = feed(&mut policy, &mut now, SHED_K - 1.0, SHED_INTERVAL * 3);
    let numbers: Vec<u8> = levels.iter().map(|level| level.number()).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn cooling_box_sheds_no_further_level() {
    let (mut policy, mut now) = (HeatPolicy::default(), Duration::ZERO);
    feed(&mut policy, &mut now, SHED_K - 3.0, SAMPLE_INTERVAL);
    let levels = feed(&mut policy, &mut now, SHED_K - 2.0, SHED_INTERVAL);
    assert_eq!(levels, []);
}

#[test]
fn box_near_its_limit_sheds_everything_at_once() {
    let mut policy = HeatPolicy::default();
    let step = policy.handle(Duration::ZERO, &reading(Duration::ZERO, 8.0));
    let step = step.expect("a step");
    assert_eq!((step.from, step.to), (Level::NONE, Level::MAX));
    let message = step.message();
    assert!(
        message.contains("CPU-therm has 91 °C of at most 99 °C"),
        "{message}"
    );
}

#[test]
fn description_has_the_latest_temperature() {
    let mut policy = HeatPolicy::default();
    let described = |policy: &HeatPolicy, part: &str| {
        let text = policy.describe().expect("load is shed");
        assert!(text.contains(part), "{text}");
    };
    assert_eq!(policy.describe(), None);
    let mut feed = |n: u32, headroom| {
        policy.handle(SAMPLE_INTERVAL * n, &reading(SAMPLE_INTERVAL * n, headroom));
        policy.clone()
    };
    described(&feed(0, 8.0), "CPU-therm has 91 °C of at most 99 °C");
    described(&feed(1, -2.0), "CPU-therm has 101 °C of at most 99 °C");
    described(&feed(2, 30.0), "was too hot; CPU-therm has 69 °C now");
}

#[test]
fn load_is_given_back_one_level_at_a_time_when_cool() {
    let (mut policy, mut now) = (HeatPolicy::default(), Duration::ZERO);
    feed(&mut policy, &mut now, 5.0, SAMPLE_INTERVAL);
    let between = (SHED_K + GIVE_BACK_K) / 2.0;
    let held = feed(&mut policy, &mut now, between, COOL_TIME * 10);
    assert_eq!(held, [], "nothing changes within the hysteresis");
    let levels = feed(
        &mut policy,
        &mut now,
        GIVE_BACK_K,
        COOL_TIME * 6 + SAMPLE_INTERVAL,
    );
    let numbers: Vec<u8> = levels.iter().map(|level| level.number()).collect();
    assert_eq!(numbers, [5, 4, 3, 2, 1, 0]);
}

#[test]
fn silent_sensor_counts_as_heating() {
    let mut policy = HeatPolicy::default();
    assert_eq!(
        policy.handle(Duration::ZERO, &reading(Duration::ZERO, 40.0)),
        None
    );
    let silent = |n| {
        let mut reading = reading(SAMPLE_INTERVAL * n, 40.0);
        reading.temperatures[0].sensed.update(None, SAMPLE_INTERVAL);
        reading
    };
    let steps = (1..20).filter_map(|n| policy.handle(SAMPLE_INTERVAL * n, &silent(n)));
    let steps: Vec<Step> = steps.collect();
    assert_eq!(policy.level(), Level::MAX);
    let first = steps.first().expect("a step");
    assert!(
        first.message().contains("has not answered for 25 s"),
        "{}",
        first.message()
    );
}

#[test]
fn sensor_that_is_switched_off_is_forgotten() {
    let mut policy = HeatPolicy::default();
    let mut both = reading(Duration::ZERO, 40.0);
    both.temperatures
        .push(zone("gpu-thermal", Sensed::Value(Celsius(70.0))));
    policy.handle(Duration::ZERO, &both);
    both.temperatures[1].sensed = Sensed::Absent;
    for n in 1..20 {
        both.at = SAMPLE_INTERVAL * n;
        assert_eq!(policy.handle(both.at, &both), None);
    }
}

#[test]
fn reading_that_never_changes_counts_as_heating() {
    let (mut policy, last) = (HeatPolicy::default(), reading(Duration::ZERO, 40.0));
    for n in 0..20 {
        policy.handle(SAMPLE_INTERVAL * n, &last);
    }
    assert_eq!(policy.level(), Level::MAX);
}

#[test]
fn sensor_that_was_removed_from_a_cool_box_is_forgotten() {
    let mut policy = HeatPolicy::default();
    let mut both = reading(Duration::ZERO, 40.0);
    both.temperatures
        .push(zone("wifi", Sensed::Value(Celsius(49.0))));
    policy.handle(Duration::ZERO, &both);
    let mut now = Duration::ZERO;
    feed(&mut policy, &mut now, 40.0, REMOVED_AFTER - SAMPLE_INTERVAL);
    assert_eq!(policy.level(), Level::MAX);
    feed(&mut policy, &mut now, 40.0, COOL_TIME * 8);
    assert_eq!(policy.level(), Level::NONE);
}

#[test]
fn box_without_sensors_sheds_nothing() {
    let mut policy = HeatPolicy::default();
    for n in 0..1000 {
        let reading = Reading {
            at: SAMPLE_INTERVAL * n,
            ..Reading::default()
        };
        assert_eq!(policy.handle(reading.at, &reading), None);
    }
    assert_eq!(policy.level(), Level::NONE);
}

#[test]
fn throttling_board_sheds_whatever_its_sensors_show() {
    let cool = reading(Duration::ZERO, 60.0);
    assert_eq!(HeatPolicy::default().handle(Duration::ZERO, &cool), None);
    let throttled = Reading {
        throttling: Throttling {
            thermal: Some(true),
            ..Throttling::default()
        },
        ..cool
    };
    let step = HeatPolicy::default().handle(Duration::ZERO, &throttled);
    assert_eq!(step.map(|step| step.cause), Some(Cause::Throttled));
}

#[test]
fn levels_shed_rate_then_low_priority_then_clips() {
    let grants = |priority| {
        (0..=6).map(move |n| {
            let level = (0..n).fold(Level::NONE, |level, _| level.higher());
            level.grant(priority, 8.0)
        })
    };
    let rates: Vec<Option<f64>> = grants(Priority::Normal).map(|g| g.max_fps).collect();
    let expected = [
        None,
        Some(6.0),
        Some(4.0),
        Some(2.0),
        Some(1.0),
        Some(1.0),
        Some(1.0),
    ];
    assert_eq!(rates, expected);
    let paused: Vec<bool> = grants(Priority::Low).map(|g| g.is_paused).collect();
    assert_eq!(paused, [false, false, false, false, false, true, true]);
    assert!(grants(Priority::Normal).all(|g| !g.is_paused));
    let clips: Vec<bool> = grants(Priority::High).map(|g| g.may_clip).collect();
    assert_eq!(clips, [true, true, true, true, true, true, false]);
}

/// The constants of one afternoon.
#[derive(Debug, Clone)]
struct Afternoon {
    seed: u64,
    simulated: SimulatedBox,
    morning: f64,
    noon: f64,
}

fn pipeline() -> impl Strategy<Value = SimulatedPipeline> {
    let priority = prop_oneof![
        Just(Priority::Low),
        Just(Priority::Normal),
        Just(Priority::High)
    ];
    (priority, 1.0..30.0_f64, 0.02..0.3_f64, 0.05..0.4_f64).prop_map(
        |(priority, usual_fps, look_j, decode_w)| SimulatedPipeline {
            priority,
            usual_fps,
            look_j,
            decode_w,
        },
    )
}

prop_compose! {
    /// Afternoons of boxes that heat by at most [`policy::SLEW_K_PER_S`].
    fn afternoon()(
        seed: u64,
        pipelines in prop::collection::vec(pipeline(), 1..6),
        idle_w in 2.0..6.0_f64,
        clips_w in 0.0..2.0_f64,
        share in 0.2..1.0_f64,
        morning in 10.0..30.0_f64,
        rise in 0.0..35.0_f64,
    ) -> Afternoon {
        let mut simulated = SimulatedBox {
            pipelines,
            idle_w,
            clips_w,
            sink_k_per_w: 1.0,
            chip_k_per_w: 1.0,
            time_constant: Duration::from_secs(120),
            sink: Celsius(morning),
        };
        let watts = simulated.power(Level::NONE, 1.0);
        // Full load heats the sink by 16 to 80 K in two minutes, and the chip by 1 K at once.
        simulated.sink_k_per_w = 80.0 * share / watts;
        simulated.chip_k_per_w = 1.0 / watts;
        Afternoon { seed, simulated, morning, noon: morning + rise }
    }
}

/// Samples of an afternoon of an hour and a half.
const SAMPLES: u32 = 1080;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// The chip stays [`RESERVE_K`] below its limit, or below what it reaches with everything shed.
    /// Everything that is not of low priority is looked at once a second.
    #[test]
    fn hot_afternoon_stays_below_the_limit(afternoon in afternoon()) {
        let Afternoon { seed, mut simulated, morning, noon } = afternoon;
        let (mut policy, mut random) = (HeatPolicy::default(), fastrand::Rng::with_seed(seed));
        let (mut activity, mut silent_until) = (random.f64(), 0);
        let mut reachable = LIMIT.0 - RESERVE_K;
        let mut reading = reading(Duration::ZERO, 0.0);
        for n in 0..SAMPLES {
            let sun = f64::from(n) / f64::from(SAMPLES) * std::f64::consts::PI;
            let ambient = Celsius(morning + (noon - morning) * sun.sin());
            if random.u32(..40) == 0 {
                activity = random.f64();
            }
            if random.u32(..300) == 0 {
                silent_until = n + random.u32(1..12);
            }
            let watts = simulated.power(policy.level(), activity);
            simulated.advance(SAMPLE_INTERVAL, watts, ambient);
            let least = simulated.power(Level::MAX, 1.0);
            reachable = reachable.max(simulated.equilibrium(least, ambient).0);
            let chip = simulated.chip(watts);
            prop_assert!(chip.0 <= reachable + 1e-9, "{chip:?} at sample {n}, {reachable}");
            reading.at = SAMPLE_INTERVAL * n;
            reading.temperatures[0].sensed.update((n >= silent_until).then_some(chip), reading.at);
            policy.handle(reading.at, &reading);
            for pipeline in &simulated.pipelines {
                let grant = policy.level().grant(pipeline.priority, pipeline.usual_fps);
                let may_pause = pipeline.priority == Priority::Low;
                let looks = pipeline.looks(grant);
                prop_assert!(looks >= MIN_FPS || (may_pause && grant.is_paused), "{grant:?}");
            }
        }
    }
}

/// Points of the curves of [`afternoon_curves`]: of the air, and the chip without and with the
/// policy, in degrees Celsius, and the load level. Each has a point every two minutes.
type Curves = [Vec<f64>; 4];

/// Minutes from one point of a curve to the next.
const POINT_MIN: u32 = 2;

/// Simulates five hours of four cameras in a cabinet, with the detector on each frame.
fn afternoon_curves() -> Curves {
    let camera = |priority| SimulatedPipeline {
        priority,
        usual_fps: 10.0,
        look_j: 0.3,
        decode_w: 0.4,
    };
    let priorities = [
        Priority::High,
        Priority::Normal,
        Priority::Normal,
        Priority::Low,
    ];
    let mut cooled = SimulatedBox {
        pipelines: priorities.map(camera).into(),
        idle_w: 5.0,
        clips_w: 1.4,
        sink_k_per_w: 2.2,
        chip_k_per_w: 0.3,
        time_constant: Duration::from_secs(240),
        sink: Celsius(60.0),
    };
    let (mut alone, mut policy) = (cooled.clone(), HeatPolicy::default());
    let (mut reading, mut curves) = (reading(Duration::ZERO, 0.0), Curves::default());
    let length = Duration::from_secs(5 * 3600);
    while reading.at <= length {
        let sun = reading.at.div_duration_f64(length) * std::f64::consts::PI;
        let ambient = Celsius(28.0 + 26.0 * sun.sin());
        let [full, shed] = [Level::NONE, policy.level()].map(|level| cooled.power(level, 1.0));
        alone.advance(SAMPLE_INTERVAL, full, ambient);
        cooled.advance(SAMPLE_INTERVAL, shed, ambient);
        let chip = cooled.chip(shed);
        if reading
            .at
            .as_secs()
            .is_multiple_of(u64::from(POINT_MIN) * 60)
        {
            let level = f64::from(policy.level().number());
            let point = [ambient.0, alone.chip(full).0, chip.0, level];
            for (curve, value) in curves.iter_mut().zip(point) {
                curve.push(value);
            }
        }
        reading.temperatures[0]
            .sensed
            .update(Some(chip), reading.at);
        policy.handle(reading.at, &reading);
        reading.at += SAMPLE_INTERVAL;
    }
    curves
}

/// Draws the curves of an afternoon as an SVG: temperatures above, the load level below.
fn draw_afternoon(curves: &Curves) -> String {
    let of_celsius = |celsius: f64| 270.0 - (celsius - 20.0) * 2.6;
    let of_level = |level: f64| 390.0 - level * 14.0;
    let lines = ["#2b83ba", "#d7191c", "#1a9641", "#555"]
        .into_iter()
        .enumerate();
    let lines = lines.zip(curves).map(|((nth, colour), curve)| {
        let points = (0_u32..).zip(curve).map(|(n, value)| {
            let y = if nth == 3 {
                of_level(*value)
            } else {
                of_celsius(*value)
            };
            format!("{:.0},{y:.0}", 50.0 + f64::from(n * POINT_MIN) * 1.9)
        });
        let points = points.collect::<Vec<_>>().join(" ");
        format!("<polyline fill=\"none\" stroke=\"{colour}\" points=\"{points}\"/>\n")
    });
    let celsius = [20.0, 40.0, 60.0, 80.0, LIMIT.0].map(|n| (of_celsius(n), format!("{n} °C")));
    let levels = [0.0, 3.0, 6.0].map(|n| (of_level(n), format!("level {n}")));
    let scale = celsius.iter().chain(&levels).map(|(y, name)| {
        format!(
            "<path d=\"M50 {y:.0}H620\" stroke=\"#ddd\"/><text x=\"2\" y=\"{y:.0}\">{name}</text>\n"
        )
    });
    let hours = (0_u32..=5).map(|hour| {
        let x = 30 + hour * 114;
        format!("<text x=\"{x}\" y=\"412\">{} min</text>\n", hour * 60)
    });
    let lines: String = scale.chain(hours).chain(lines).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 660 430\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"660\" height=\"430\" \
         fill=\"#fff\"/>\n{lines}</svg>\n"
    )
}

/// `UPDATE_DOCS=1` writes the plot of docs/design/0048-load-shedding.md. Its bytes are not
/// compared, because the sine of two machines may differ.
#[test]
fn hot_afternoon_needs_the_policy_and_is_drawn() {
    let curves = afternoon_curves();
    let [_, alone, cooled, levels] = curves
        .each_ref()
        .map(|curve| curve.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    assert!(
        alone > LIMIT.0 && cooled <= LIMIT.0 - RESERVE_K,
        "{alone}, {cooled}"
    );
    assert!(levels > 0.0);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../docs/design/hot-afternoon.svg"
        );
        std::fs::write(file, draw_afternoon(&curves)).expect("written");
    }
}
