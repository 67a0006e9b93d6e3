//! The text of the metrics.

use watchkeeper_contract::event::Verdict;
use watchkeeper_contract::source::SourceState;

use super::*;
use crate::journal::Limits;
use crate::journal::media::MediaLimits;

fn text(metrics: &Metrics) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(dir.path(), Limits::default()).unwrap();
    let media = MediaStore::open(dir.path(), MediaLimits::default()).unwrap();
    metrics.encode(&journal, &media)
}

#[test]
fn updated_metrics_are_in_the_text() {
    let metrics = Metrics::new();
    let gate = SourceId::new("gate").unwrap();
    metrics.count_frames(&gate, 1);
    metrics.count_dropped(&gate, "slot", 3);
    metrics.set_source_state(&gate, &SourceState::Ended);
    metrics.set_source_decoder(&gate, true);
    metrics.observe_inference("yolox-nano", Duration::from_millis(20));
    metrics.count_event(&Decision {
        verdict: Verdict::Review,
        confidence: 0.72,
        raw_confidence: None,
        reason: String::new(),
        asks: None,
    });
    metrics.count_clip(&ClipState::Filming);
    metrics.count_clip_pictures_left_out(7);
    let text = text(&metrics);
    for line in [
        "watchkeeper_frames_total{source=\"gate\"} 1",
        "watchkeeper_frames_dropped_total{source=\"gate\",at=\"slot\"} 3",
        "watchkeeper_source_state{source=\"gate\",state=\"ended\"} 1",
        "watchkeeper_source_state{source=\"gate\",state=\"live\"} 0",
        "watchkeeper_source_hardware_decoder{source=\"gate\"} 1",
        "watchkeeper_inference_seconds_count{model=\"yolox-nano\"} 1",
        "watchkeeper_events_total{verdict=\"review\"} 1",
        "watchkeeper_event_confidence_bucket{le=\"0.7\"} 0",
        "watchkeeper_event_confidence_bucket{le=\"0.75\"} 1",
        "watchkeeper_journal_reviews_waiting 0",
        "watchkeeper_clips_total{state=\"kept\"} 0",
        "watchkeeper_clips_total{state=\"lost\"} 0",
        "watchkeeper_clip_pictures_left_out_total 7",
        "watchkeeper_journal_last_seq 0",
        "watchkeeper_hanging_teardowns 0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn look_rates_are_those_of_the_present_pipelines() {
    let metrics = Metrics::new();
    let [gate, yard] = ["gate", "yard"].map(|name| PipelineId::new(name).unwrap());
    let rate = |looked_fps| LookRate {
        wanted_fps: 10.0,
        looked_fps,
        limited_by: None,
    };
    metrics.set_looks([(&gate, rate(9.5)), (&yard, rate(5.0))].into_iter());
    metrics.set_looks(std::iter::once((&gate, rate(7.5))));
    let text = text(&metrics);
    for line in [
        "watchkeeper_pipeline_looked_fps{pipeline=\"gate\"} 7.5",
        "watchkeeper_pipeline_wanted_fps{pipeline=\"gate\"} 10.0",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("yard"), "{text}");
}

#[test]
fn series_beyond_the_bound_are_counted_as_other() {
    let metrics = Metrics::new();
    let pipeline = PipelineId::new("p").unwrap();
    for n in 0..MAX_SERIES + 50 {
        metrics.count_step_error(&pipeline, &format!("step-{n}"));
    }
    let text = text(&metrics);
    let series = text
        .lines()
        .filter(|l| l.starts_with("watchkeeper_step_errors_total{"))
        .count();
    assert_eq!(series, MAX_SERIES + 1);
    assert!(text.contains("watchkeeper_step_errors_total{pipeline=\"other\",step=\"other\"} 50"));
}
