//! Look rates below the table of pipelines, and as findings of `doctor`.

use watchkeeper_contract::pipeline::{PipelineStatus, RateLimit};

use super::output::Output;

/// Causes with a sentence of their own, and their remedies. A lost camera has one in its table.
const CAUSES: [(RateLimit, &str, &str); 3] = [
    (
        RateLimit::Disk,
        "events wait for the disk",
        "free some space, or mount the disk for writing",
    ),
    (
        RateLimit::Heat,
        "the box is hot and sheds load",
        "improve the cooling; docs/guide/cameras.md#several-cameras-and-a-hot-box has the order of \
         steps",
    ),
    (
        RateLimit::Capacity,
        "the model or the processor is busy",
        "set target_fps, or take a smaller model or a faster back end (watchkeeper models bench)",
    ),
];

/// Pipelines that one cause keeps from looking at as many frames as they want.
pub(super) struct Limited {
    /// The pipelines, their rates together, and the cause.
    pub(super) sentence: String,
    pub(super) remedy: &'static str,
}

/// Prints a line for each cause that limits pipelines.
pub(super) fn print(pipelines: &[PipelineStatus], out: &Output) {
    for Limited { sentence, remedy } in limited(pipelines) {
        out.line(format!("  {sentence}; {remedy}"));
    }
}

/// Sums the pipelines that look at fewer frames than they want, by cause.
pub(super) fn limited(pipelines: &[PipelineStatus]) -> Vec<Limited> {
    let by_cause = CAUSES.into_iter().filter_map(|(cause, why, remedy)| {
        let looks = pipelines
            .iter()
            .filter_map(|it| Some((&it.spec.id, it.looks?)));
        let limited = looks.filter(|(_, looks)| looks.limited_by == Some(cause));
        let limited: Vec<_> = limited.collect();
        let (verb, together) = match limited.len() {
            0 => return None,
            1 => ("looks", ""),
            _ => ("look", " together"),
        };
        let ids: Vec<&str> = limited.iter().map(|(id, _)| id.as_str()).collect();
        let looked: f64 = limited.iter().map(|(_, looks)| looks.looked_fps).sum();
        let wanted: f64 = limited.iter().map(|(_, looks)| looks.wanted_fps).sum();
        let sentence = format!(
            "{}: {verb} at {looked:.1} of {wanted:.1} frames a second{together}: {why}",
            ids.join(", ")
        );
        Some(Limited { sentence, remedy })
    });
    by_cause.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use watchkeeper_contract::pipeline::PipelineResults;

    use super::*;

    fn pipeline(id: &str, looks: serde_json::Value) -> PipelineStatus {
        let status = json!({
            "spec": {"id": id, "source": "yard", "workflow": {}}, "state": {"state": "running"},
            "since": {"unix_ms": 0, "quality": "synced"}, "looks": looks,
            "results": PipelineResults::default(),
        });
        serde_json::from_value(status).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn pipelines_that_one_cause_limits_have_one_line() {
        let looks =
            |why: Option<&str>| json!({"wanted_fps": 9.8, "looked_fps": 2.9, "limited_by": why});
        let lines = |causes: [Option<&str>; 2]| {
            let pipelines = ["a", "b"].iter().zip(causes);
            let pipelines: Vec<_> = pipelines
                .map(|(id, why)| pipeline(id, looks(why)))
                .collect();
            let lines = limited(&pipelines).into_iter().map(|it| it.sentence);
            lines.collect::<Vec<_>>()
        };
        let together = "a, b: look at 5.8 of 19.6 frames a second together: the model or the \
                        processor is busy";
        assert_eq!(lines([Some("capacity"), Some("capacity")]), [together]);
        assert_eq!(
            lines([Some("disk"), None]),
            ["a: looks at 2.9 of 9.8 frames a second: events wait for the disk"]
        );
        assert!(lines([None, Some("camera")]).is_empty());
    }
}
