//! Look rates below the table of pipelines.

use watchkeeper_contract::pipeline::{LookRate, PipelineStatus, RateLimit};

use super::output::Output;

/// Prints a line for each pipeline that looks at fewer frames than it wants.
pub(super) fn print(pipelines: &[PipelineStatus], out: &Output) {
    for pipeline in pipelines {
        if let Some(line) = pipeline.looks.as_ref().and_then(describe) {
            out.line(format!("  {}: {line}", pipeline.spec.id));
        }
    }
}

pub(super) fn describe(looks: &LookRate) -> Option<String> {
    let why = match looks.limited_by? {
        RateLimit::Heat => "the box is hot and sheds load",
        RateLimit::Capacity => "the model or the processor is busy",
    };
    let (looked, wanted) = (looks.looked_fps, looks.wanted_fps);
    Some(format!(
        "looks at {looked:.1} of {wanted:.1} frames a second: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limited_rate_has_a_line() {
        let mut looks = LookRate {
            wanted_fps: 9.8,
            looked_fps: 5.83,
            limited_by: Some(RateLimit::Capacity),
        };
        assert_eq!(
            describe(&looks).as_deref(),
            Some("looks at 5.8 of 9.8 frames a second: the model or the processor is busy")
        );
        looks.limited_by = None;
        assert_eq!(describe(&looks), None);
    }
}
