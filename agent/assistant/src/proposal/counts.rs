//! Counts of a pipeline as a sentence: the answer to `how many are there`.
//!
//! Invariant: only numbers of the runtime, each with its name in the workflow.

use serde_json::Value;
use watchkeeper_contract::pipeline::PipelineStatus;

use crate::wording::counted;

/// Formats the outputs, lines and zones of a pipeline; `None` if it counts nothing.
#[must_use]
pub fn format_counts(status: &PipelineStatus) -> Option<String> {
    let results = &status.results;
    let mut parts: Vec<String> = Vec::new();
    // The counts of a line are outputs too; they are shown once, with the line.
    let of_line = |name: &str| {
        let sides = ["_count_in", "_count_out"];
        let line = sides.iter().find_map(|side| name.strip_suffix(side));
        line.is_some_and(|line| results.lines.contains_key(line))
    };
    let outputs = results.outputs.as_object().into_iter().flatten();
    let numbers = outputs.filter_map(|(name, value)| match value {
        Value::Number(number) if !of_line(name) => Some(format!("{name}: {number} now")),
        _ => None,
    });
    parts.extend(numbers);
    let lines = results.lines.iter();
    parts.extend(
        lines.map(|(name, count)| format!("line {name}: {} in, {} out", count.r#in, count.out)),
    );
    let zones = results.zones.iter();
    parts.extend(zones.map(|(name, zone)| {
        let visits = counted(zone.count, "visit");
        format!("zone {name}: {} there now, {visits}", zone.present)
    }));
    (!parts.is_empty()).then(|| format!("{}: {}", status.spec.id, parts.join("; ")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use serde_json::json;

    use super::super::snapshot::testing::status;
    use super::*;

    #[test]
    fn every_count_appears_once_with_its_name() {
        let spec = json!({"id": "gate", "source": "cam", "workflow": {}});
        let mut counted = status(&serde_json::from_value(spec).unwrap());
        assert_eq!(format_counts(&counted), None);
        counted.results.lines =
            serde_json::from_value(json!({"door": {"in": 2, "out": 1}})).unwrap();
        counted.results.zones =
            serde_json::from_value(json!({"bay": {"count": 1, "present": 0, "visits": []}}))
                .unwrap();
        counted.results.outputs = json!({
            "people": 3, "door_count_in": 2, "door_count_out": 1, "tracked": {"predictions": []}, "annotated": null,
        });
        assert_eq!(
            format_counts(&counted).unwrap(),
            "gate: people: 3 now; line door: 2 in, 1 out; zone bay: 0 there now, 1 visit"
        );
    }
}
