//! The text of the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use watchkeeper_contract::event::Verdict;
use watchkeeper_contract::pipeline::LookRate;
use watchkeeper_contract::source::{Blindness, SourceState};

use super::*;
use crate::journal::media::{MediaLimits, MediaStore};
use crate::journal::{Journal, Limits};

fn text(metrics: &Metrics) -> String {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path(), Limits::default()).unwrap();
    let media = MediaStore::open(dir.path(), MediaLimits::default()).unwrap();
    let mut scrape = Scrape::default();
    scrape.add_journal(&journal, &media);
    metrics.encode(&scrape)
}

#[test]
fn updated_metrics_are_in_the_text() {
    let metrics = Metrics::new();
    let mut gate = source(1);
    gate.counters.dropped = 3;
    metrics.count_sources(|| vec![gate]);
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

fn source(frames: u64) -> SourceStatus {
    serde_json::from_value(json!({
        "spec": {"id": "gate", "uri": "rtsp://gate/live"},
        "state": {"state": "ended"},
        "since": {"unix_ms": 0, "quality": "synced"},
        "decoder": {"element": "nvv4l2decoder", "hardware": true},
        "counters": {"frames": frames, "dropped": 0, "connects": 1, "losses": 0, "fps": 0.0},
    }))
    .unwrap()
}

#[test]
fn losses_of_a_source_are_counted_by_place() {
    let metrics = Metrics::new();
    let mut gate = source(10);
    gate.counters.undecoded = 4;
    gate.counters.lost_packets = 9;
    metrics.count_sources(|| vec![gate.clone()]);
    gate.counters.undecoded = 5;
    metrics.count_sources(|| vec![gate]);
    let text = text(&metrics);
    for line in [
        "watchkeeper_frames_dropped_total{source=\"gate\",at=\"decoder\"} 5",
        "watchkeeper_frames_dropped_total{source=\"gate\",at=\"slot\"} 0",
        "watchkeeper_packets_lost_total{source=\"gate\"} 9",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn overlapping_scrapes_count_each_frame_once() {
    let (metrics, frames) = (Metrics::new(), AtomicU64::new(0));
    let read = || {
        let frames = frames.fetch_add(1, Ordering::Relaxed) + 1;
        // The other scrape may read and count before this one counts.
        std::thread::yield_now();
        vec![source(frames)]
    };
    let scrape = || (0..1_000).for_each(|_| drop(metrics.count_sources(read)));
    std::thread::scope(|scope| {
        scope.spawn(scrape);
        scope.spawn(scrape);
    });
    let line = "watchkeeper_frames_total{source=\"gate\"}";
    assert!(text(&metrics).contains(&format!("{line} 2000\n")));
    // 500 frames later it is replaced by a source that has more at the next scrape.
    let gate = SourceId::new("gate").unwrap();
    metrics.count_replaced(&gate, || Some(((), source(2_500).counters)));
    metrics.count_sources(|| vec![source(2_600)]);
    assert!(text(&metrics).contains(&format!("{line} 5100\n")));
}

#[test]
fn states_of_sources_and_look_rates_are_read_at_the_scrape() {
    let gate = source(1);
    let mut yard = source(1);
    yard.spec.id = SourceId::new("yard").unwrap();
    yard.state = SourceState::Live {
        blind: Some(Blindness::Covered),
    };
    let rate = LookRate {
        wanted_fps: 10.0,
        looked_fps: 7.5,
        limited_by: None,
    };
    let mut scrape = Scrape::default();
    scrape.add_sources(&[gate, yard]);
    let watch = PipelineId::new("watch").unwrap();
    scrape.add_looks(std::iter::once((&watch, rate)));
    scrape.add_frames(std::iter::once((&watch, 212)));
    let text = Metrics::new().encode(&scrape);
    for line in [
        "watchkeeper_source_state{source=\"gate\",state=\"ended\"} 1",
        "watchkeeper_source_state{source=\"gate\",state=\"live\"} 0",
        "watchkeeper_source_blind{source=\"gate\",cause=\"covered\"} 0",
        "watchkeeper_source_state{source=\"yard\",state=\"live\"} 1",
        "watchkeeper_source_blind{source=\"yard\",cause=\"covered\"} 1",
        "watchkeeper_source_blind{source=\"yard\",cause=\"moved\"} 0",
        "watchkeeper_source_hardware_decoder{source=\"gate\"} 1",
        "watchkeeper_pipeline_looked_fps{pipeline=\"watch\"} 7.5",
        "watchkeeper_pipeline_wanted_fps{pipeline=\"watch\"} 10.0",
        "watchkeeper_pipeline_frames_total{pipeline=\"watch\"} 212",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn frames_dropped_beyond_the_bound_keep_their_place() {
    let metrics = Metrics::new();
    let sources = (0..MAX_SERIES).map(|n| {
        let mut source = source(10);
        source.spec.id = SourceId::new(format!("source-{n}")).unwrap();
        source.counters.dropped = 2;
        source.counters.undecoded = 1;
        source
    });
    metrics.count_sources(|| sources.collect());
    let text = text(&metrics);
    // Each source has two series, so half of the sources are counted by name.
    let half = MAX_SERIES / 2;
    for (place, count) in [("slot", 2 * half), ("decoder", half)] {
        let line =
            format!("watchkeeper_frames_dropped_total{{source=\"other\",at=\"{place}\"}} {count}");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
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
