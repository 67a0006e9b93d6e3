//! The demo scene, watched by the real command through both daemons: every count equals the ground
//! truth of the scene.

use serde_json::Value;
use watchkeeper_demo::{DemoOptions, Kind, Truth, truth};
use watchkeeper_tests::daemons::run_json;
use watchkeeper_vision::geometry::{Anchor, Point};

/// Largest error of a dwell time in seconds: an object is seen a little after it appears, while its
/// box still grows.
const DWELL_OFF_S: f64 = 1.5;

/// Returns the values of a flag in `./quickstart`, so that this test watches what a new user
/// watches.
fn quickstart(flag: &str) -> Vec<String> {
    let script = include_str!("../../../quickstart");
    let words: Vec<&str> = script.split_whitespace().collect();
    words
        .windows(2)
        .filter(|pair| pair[0] == flag)
        .map(|pair| pair[1].to_owned())
        .collect()
}

fn points(shape: &str) -> (String, Vec<Point>) {
    let (name, numbers) = shape.split_once(':').expect("a name");
    let numbers: Vec<f64> = numbers
        .split(',')
        .map(|n| n.parse().expect("a number"))
        .collect();
    let points = numbers.chunks_exact(2).map(|p| Point::new(p[0], p[1]));
    (name.to_owned(), points.collect())
}

/// Counts crossings in and out of every class: the motion detector has no classes.
fn crossings(truth: &Truth, line: &[Point]) -> (u64, u64) {
    let [people, cars] =
        [Kind::Person, Kind::Car].map(|kind| truth.crossings(kind, line[0], line[1]));
    let both = |a: usize, b: usize| u64::try_from(a + b).expect("a small count");
    (both(people.r#in, cars.r#in), both(people.out, cars.out))
}

/// Returns arrival and length of every visit of any class, in the order of entering.
fn visits(truth: &Truth, zone: &[Point]) -> Vec<(f64, f64)> {
    let mut visits: Vec<(f64, f64)> = [Kind::Person, Kind::Car]
        .into_iter()
        .flat_map(|kind| truth.visits(kind, zone, Anchor::Center))
        .map(|v| (v.enter_s, v.dwell_s))
        .collect();
    visits.sort_by(|a, b| a.0.total_cmp(&b.0));
    visits
}

#[test]
fn quickstart_counts_the_demo_scene_exactly() -> anyhow::Result<()> {
    let (lines, zones) = (quickstart("--line"), quickstart("--zone"));
    assert!(lines.len() >= 2 && zones.len() == 1, "{lines:?} {zones:?}");
    let mut arguments = vec!["demo:", "--model", "motion"];
    for line in &lines {
        arguments.extend(["--line", line]);
    }
    for zone in &zones {
        arguments.extend(["--zone", zone]);
    }
    let (code, output, errors) = run_json(&arguments)?;
    assert_eq!(code, 0, "{errors}");
    let summary = output.last().expect("a summary");
    let truth = truth(&DemoOptions::default());
    assert_eq!(summary["frames"], truth.frames.len());
    for line in &lines {
        let (name, points) = points(line);
        let (counted_in, counted_out) = crossings(&truth, &points);
        let counted = &summary["lines"][&name];
        assert_eq!(
            (counted["in"].as_u64(), counted["out"].as_u64()),
            (Some(counted_in), Some(counted_out)),
            "line {line}"
        );
        assert!(
            counted_in + counted_out >= 3,
            "{line} is too quiet to show anything"
        );
        let told = output
            .iter()
            .filter(|o| o["type"] == "event" && o["phase"] == "new" && o["body"]["line"] == name)
            .count();
        assert_eq!(
            told as u64,
            counted_in + counted_out,
            "events of line {line}"
        );
    }
    for zone in &zones {
        let (name, points) = points(zone);
        let real = visits(&truth, &points);
        let empty = Vec::new();
        let seen = summary["zones"][&name]["visits"]
            .as_array()
            .unwrap_or(&empty);
        let mut seen: Vec<(f64, f64)> = seen
            .iter()
            .map(|v| {
                let number = |key: &str| v[key].as_f64().unwrap_or(f64::NAN);
                (number("enter_s"), number("dwell_s"))
            })
            .collect();
        seen.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(seen.len(), real.len(), "{zone}: {seen:?}, really {real:?}");
        for (seen, real) in seen.iter().zip(&real) {
            let off = (seen.1 - real.1).abs();
            assert!(off <= DWELL_OFF_S, "{zone}: {seen:?}, really {real:?}");
        }
    }
    let sequence: Vec<u64> = output
        .iter()
        .filter_map(|o: &Value| o["seq"].as_u64())
        .collect();
    let expected: Vec<u64> = (1..).take(sequence.len()).collect();
    assert_eq!(
        sequence, expected,
        "events come in order and without a hole"
    );
    Ok(())
}
