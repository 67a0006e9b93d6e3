//! Target `shapes`: lines, zones and classes as typed after `--line`, `--zone` and `--watch`, one a
//! row that starts with `l`, `z` or `w`.
//!
//! - An accepted shape is finite, encloses an area and prints to the text that it was read from.
//! - An accepted set of shapes makes a workflow that compiles, with a step of its own name for each
//!   line and zone.

use serde_json::Value;
use watchkeeper_engine::templates::shape::{NamedLine, NamedZone};
use watchkeeper_engine::templates::watch::{self, Watch};
use watchkeeper_engine::workflow::{Overlay, compile};

pub(super) fn shapes(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let (mut lines, mut zones, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    for row in text.split('\n').take(12) {
        let mut rest = row.chars();
        match (rest.next(), rest.as_str()) {
            (Some('l'), text) => lines.extend(read(text, line)),
            (Some('z'), text) => zones.extend(read(text, zone)),
            (Some('w'), text) => classes.extend(text.split(',').map(str::to_owned)),
            _ => {}
        }
    }
    let watch = Watch {
        classes,
        lines,
        zones,
        ..Watch::default()
    };
    let (lines, zones) = (&watch.lines, &watch.zones);
    match workflow_of(&watch) {
        Err(refused) => assert!(
            refused.contains("used twice") || refused.contains("begins with"),
            "{refused}"
        ),
        Ok(definition) => {
            let compiled = compile(&definition, &Default::default());
            let compiled =
                compiled.unwrap_or_else(|e| panic!("{definition} does not compile: {e:?}"));
            let names: Vec<&str> = lines.iter().map(|l| l.name.as_str()).collect();
            assert_eq!(compiled.line_steps(), names);
            let names: Vec<&str> = zones.iter().map(|z| z.name.as_str()).collect();
            assert_eq!(compiled.zone_steps(), names);
            for overlay in compiled.overlays() {
                let points = match overlay {
                    Overlay::Line { start, end, .. } => vec![start, end],
                    Overlay::Zone { polygon, .. } => polygon,
                };
                assert!(points.iter().all(|p| p.x.is_finite() && p.y.is_finite()));
            }
        }
    }
}

fn workflow_of(watch: &Watch) -> Result<Value, String> {
    watch::unique_names(watch).map_err(|e| e.to_string())?;
    watch::plain_classes(watch).map_err(|e| e.to_string())?;
    Ok(watch::workflow(watch, "yolox-nano"))
}

/// Parses a shape and checks it.
fn read<T: std::str::FromStr>(text: &str, check: fn(&T)) -> Option<T>
where
    T::Err: std::fmt::Display,
{
    match text.parse() {
        Ok(shape) => {
            check(&shape);
            Some(shape)
        }
        Err(refused) => {
            assert!(!refused.to_string().trim().is_empty());
            None
        }
    }
}

fn line(line: &NamedLine) {
    assert_ne!(line.from, line.to);
    let length = (line.to[0] - line.from[0]).hypot(line.to[1] - line.from[1]);
    assert!(length.is_finite(), "{line:?}");
    let text = written(&line.name, &[line.from, line.to]);
    assert_eq!(text.parse().as_ref(), Ok(line));
}

fn zone(zone: &NamedZone) {
    assert!(zone.points.len() >= 3);
    let next = zone.points.iter().cycle().skip(1);
    let pairs = zone.points.iter().zip(next);
    let twice: f64 = pairs.map(|(a, b)| a[0] * b[1] - b[0] * a[1]).sum();
    assert!(twice.is_finite() && twice != 0.0, "{zone:?} has no area");
    let text = written(&zone.name, &zone.points);
    assert_eq!(text.parse().as_ref(), Ok(zone));
}

fn written(name: &str, points: &[[f64; 2]]) -> String {
    let numbers: Vec<String> = points.iter().flatten().map(f64::to_string).collect();
    format!("{name}:{}", numbers.join(","))
}
