//! Prices of watches from measured numbers.

use proptest::prelude::*;
use serde_json::json;
use watchkeeper_contract::pipeline::PipelineResults;

use super::*;

fn shares(pipeline: f64, others: Option<f64>) -> ProcessorShares {
    ProcessorShares {
        pipeline,
        others,
        looked_fps: 10.0,
        wanted_fps: 10.0,
        is_changing: false,
    }
}

fn measured() -> Measured {
    Measured {
        processor: Ok(shares(0.06, Some(0.02))),
        event_times: EventTimes {
            events: 10,
            recorder_s: 1.0,
            clips: 5,
            clips_s: 2.0,
        },
        events_a_day: Ok(Estimate::exact(20.0)),
        opinions_a_day: Ok(Estimate::exact(2.0)),
        event: Ok(EventBytes {
            records: 3_000.0,
            clean: 75_000.0,
            annotated: Some(75_000.0),
            clip_second: Some(100_000.0),
        }),
        clip_s: 15.0,
        opinion_usd: Ok(0.004),
        draws: true,
        is_recorded: false,
    }
}

fn sentence(measured: Measured) -> String {
    PriceTag::new(&measured).sentence()
}

#[test]
fn price_is_one_line() {
    let tag = PriceTag::new(&measured());
    assert_eq!(
        tag.sentence(),
        "processor 8.0 % of a core, storage 33.1 MB a day, uplink 60 kB a day, model \
             $0.24 a month"
    );
    assert!(tag.unknown.is_empty());
}

#[test]
fn decoding_is_named_where_it_is_shared_or_not_known() {
    let with = |others| {
        sentence(Measured {
            processor: Ok(shares(0.06, others)),
            ..measured()
        })
    };
    let shared = with(Some(0.0));
    let text = "processor 6.0 % of a core (another watch decodes the camera already),";
    assert!(shared.starts_with(text), "{shared}");
    let unknown = with(None);
    let text = "processor at least 6.0 % of a core without decoding (";
    assert!(unknown.starts_with(text), "{unknown}");
}

#[test]
fn share_of_a_network_that_misses_frames_is_that_of_the_trial() {
    let text = sentence(Measured {
        processor: Ok(ProcessorShares {
            wanted_fps: 25.0,
            ..shares(0.4, Some(0.02))
        }),
        ..measured()
    });
    let begin = "processor 42.0 % of a core (this load leaves it 10.0 of 25.0 frames a second; all \
                 of them would take up to 102.0 %),";
    assert!(text.starts_with(begin), "{text}");
}

#[test]
fn share_is_a_bound_while_the_back_end_changes() {
    let report = |state: Value| -> DryRunReport {
        let mut report = json!(DryRunReport::default());
        report["results"]["frames"] = json!(11);
        report["results"]["source_s"] = json!(1.0);
        report["results"]["processor_s"] = json!(0.11);
        let change = json!({"model": "m", "from": "rten", "to": "ort", "state": state});
        report["backend_changes"] = json!([change]);
        serde_json::from_value(report).unwrap()
    };
    let with = |state| {
        let shares = ProcessorShares::from_report(&report(state));
        sentence(Measured {
            processor: Ok(shares.unwrap()),
            ..measured()
        })
    };
    let building = with(json!({"state": "building", "share": 0.0}));
    let text = "processor up to 10.0 % of a core without decoding (other work ran meanwhile) \
        (less once a faster back end runs the model),";
    assert!(building.starts_with(text), "{building}");
    let swapped = with(json!({"state": "swapped"}));
    assert!(
        swapped.starts_with("processor at least 10.0 %"),
        "{swapped}"
    );
}

#[test]
fn numbers_of_few_events_are_ranges() {
    let two = Estimate {
        likely: 20.0,
        low: 10.0,
        high: 40.0,
    };
    let few = sentence(Measured {
        events_a_day: Ok(two),
        opinions_a_day: Ok(two.scaled(0.1)),
        ..measured()
    });
    assert_eq!(
        few,
        "processor 8.0 % of a core, storage 16.5 MB to 66.1 MB a day, uplink 30 kB to 0.1 MB a \
             day, model $0.12 to $0.48 a month"
    );
    let busy = sentence(Measured {
        events_a_day: Ok(two.scaled(4_320.0)),
        clip_s: 0.0,
        ..measured()
    });
    let text = "processor 13.0 to 28.0 % of a core";
    assert!(busy.starts_with(text), "{busy}");
}

#[test]
fn interval_of_a_count_holds_its_mean_and_narrows() {
    let ends = |n| {
        let Estimate { low, high, .. } = Estimate::of_events(n);
        [low, high].map(|end| end.round())
    };
    assert_eq!(
        [0, 3, 30, 300].map(ends),
        [[0.0, 4.0], [1.0, 9.0], [20.0, 43.0], [267.0, 336.0]]
    );
    let text = |n| Estimate::of_events(n).text(|number| format!("{number:.0}"));
    assert_eq!([3, 30, 300].map(text), ["1 to 9", "20 to 43", "300"]);
}

#[test]
fn processor_share_has_pictures_and_clips_of_events() {
    let of = |clip_s, event_times| {
        PriceTag::new(&Measured {
            // Every ten seconds.
            events_a_day: Ok(Estimate::exact(8_640.0)),
            clip_s,
            event_times,
            ..measured()
        })
    };
    let times = measured().event_times;
    for (clip_s, text) in [(0.0, "processor 9.0 % of"), (15.0, "processor 13.0 % of")] {
        let sentence = of(clip_s, times).sentence();
        assert!(sentence.starts_with(text), "{sentence}");
    }
    let no_clip = EventTimes { clips: 0, ..times };
    for (clip_s, times, what) in [
        (0.0, EventTimes::default(), "no event"),
        (15.0, no_clip, "no clip"),
    ] {
        let tag = of(clip_s, times);
        let sentence = tag.sentence();
        let text = "processor 8.0 % of a core without the pictures of events (";
        assert!(sentence.starts_with(&format!("{text}{what}")), "{sentence}");
        assert!(tag.unknown["events"].starts_with(what), "{tag:?}");
    }
    assert_eq!(of(0.0, no_clip).events_share, Some(Estimate::exact(0.01)));
}

#[test]
fn number_that_is_not_measured_is_unknown_with_its_reason() {
    let nothing = |why: &str| Err(why.to_owned());
    let text = sentence(Measured {
        event: Err("no event of this camera was kept yet".to_owned()),
        opinion_usd: Err("no second opinion was answered yet".to_owned()),
        processor: Err("not tried".to_owned()),
        ..measured()
    });
    assert_eq!(
        text,
        "processor unknown (not tried), storage and uplink unknown (no event of this camera \
             was kept yet), model unknown (no second opinion was answered yet)"
    );
    // The next day may have events although the replayed hours had none.
    let quiet = sentence(Measured {
        events_a_day: Ok(Estimate::of_events(0)),
        opinions_a_day: Ok(Estimate::of_events(0)),
        ..measured()
    });
    let text = "storage 0 B to 6.5 MB a day, uplink 0 B to 12 kB a day, model $0.00 to $0.47 a";
    assert!(quiet.contains(text), "{quiet}");
    let unplayed = PriceTag::new(&Measured {
        events_a_day: nothing("it was not replayed"),
        opinions_a_day: nothing("it was not replayed"),
        ..measured()
    });
    assert_eq!(unplayed.model_usd_a_month, None);
    assert_eq!(unplayed.unknown["model"], "it was not replayed");
    let without = PriceTag::new(&Measured {
        events_a_day: nothing("it was not replayed"),
        opinions_a_day: Ok(Estimate::default()),
        ..measured()
    });
    assert_eq!(without.model_usd_a_month, Some(Estimate::default()));
    let recorded = PriceTag::new(&Measured {
        is_recorded: true,
        ..measured()
    });
    assert!(recorded.unknown["storage"].contains("records all frames"));
}

#[test]
fn event_bytes_are_means_of_this_camera() {
    let event = |source: &str, phase: &str, bytes: u64| -> Event {
        let picture = json!({"id": "m", "kind": "clean", "content_type": "image/jpeg",
                "bytes": bytes, "sha256": ""});
        let media: Vec<Value> = (phase == "new").then_some(picture).into_iter().collect();
        serde_json::from_value(json!({
            "schema": 1, "id": "01J00000000000000000000000", "seq": 1, "boot_id": "b",
            "mono_ms": 1, "at": {"unix_ms": 1, "quality": "synced"}, "phase": phase,
            "source": source, "severity": "info",
            "body": {"kind": "rule", "rule": "r", "condition": "appears", "reason": "r",
                "tracks": [], "frame": 1, "pts_s": 0.0},
            "decision": {"verdict": "act", "confidence": 0.9, "reason": "r"},
            "media": media, "evidence": [], "hash": "",
        }))
        .unwrap()
    };
    let records = [
        event("yard", "new", 1_000),
        event("yard", "end", 0),
        event("yard", "new", 3_000),
        event("gate", "new", 90_000),
    ];
    let yard = SourceId::new("yard").unwrap();
    let bytes = event_bytes(records.iter(), &yard).unwrap();
    assert_eq!((bytes.clean, bytes.annotated), (2_000.0, None));
    assert!(bytes.records > 300.0 && bytes.clip_second.is_none());
    let none = event_bytes(records.iter(), &SourceId::new("hall").unwrap());
    assert!(none.unwrap_err().contains("no event"));
}

#[test]
fn opinion_without_an_answer_is_not_in_the_mean_cost() {
    let opinion = |cost: Option<f64>| -> Event {
        let mut by = json!({"kind": "second_opinion"});
        if let Some(usd) = cost {
            by["cost_usd"] = json!(usd);
        }
        serde_json::from_value(json!({
            "schema": 1, "id": "01J00000000000000000000000", "seq": 1, "boot_id": "b",
            "mono_ms": 1, "at": {"unix_ms": 1, "quality": "synced"}, "phase": "assessed",
            "source": "yard", "severity": "info",
            "body": {"kind": "rule", "rule": "r", "condition": "appears", "reason": "r",
                "tracks": [], "frame": 1, "pts_s": 0.0},
            "decision": {"verdict": "act", "confidence": 0.9, "reason": "r"},
            "assessment": {"by": by, "answer": "none"},
            "media": [], "evidence": [], "hash": "",
        }))
        .unwrap()
    };
    let mean = |costs: &[Option<f64>]| {
        let records: Vec<Event> = costs.iter().copied().map(opinion).collect();
        opinion_usd(records.iter())
    };
    assert_eq!(mean(&[Some(0.5), None, Some(1.0)]), Ok(0.75));
    // A shared answer.
    assert_eq!(mean(&[Some(0.5), Some(0.0)]), Ok(0.25));
    assert!(mean(&[None]).unwrap_err().contains("answered"));
}

#[test]
fn events_close_together_share_a_clip() {
    let spec: PipelineSpec = serde_json::from_value(json!({
        "id": "p", "source": "yard", "workflow": {}, "rules": [
            {"name": "r", "when": {"kind": "enters", "zone": "z"},
                "clip": {"before_s": 5.0, "after_s": 10.0}},
            {"name": "without", "when": {"kind": "leaves", "zone": "z"}},
        ],
    }))
    .unwrap();
    let event = |rule: &str, at_ms: i64| -> BacktestEvent {
        serde_json::from_value(json!({
            "at_ms": at_ms, "severity": "info",
            "decision": {"verdict": "act", "confidence": 0.9, "reason": "r"},
            "event": {"rule": rule, "condition": "enters", "reason": "r", "tracks": [],
                "frame": 1, "pts_s": 0.0},
        }))
        .unwrap()
    };
    let apart = [event("r", 0), event("without", 1_000), event("r", 100_000)];
    assert_eq!(clip_s(&spec, &apart), 10.0);
    assert_eq!(clip_s(&spec, &[event("r", 0), event("r", 5_000)]), 10.0);
    assert_eq!(clip_s(&spec, &[]), 15.0);
}

proptest! {
    /// A day takes what its events take, whatever is measured; more events never cost less.
    #[test]
    fn price_grows_with_the_events(
        events in 0u64..100_000, more in 0u64..100_000, records in 1.0f64..1e5,
        pictures in 0.0f64..1e7, clip_second in proptest::option::of(0.0f64..1e6),
        clip_s in 0.0f64..120.0, usd in 0.0f64..1.0,
    ) {
        let of = |events: u64| PriceTag::new(&Measured {
            events_a_day: Ok(Estimate::of_events(events)),
            opinions_a_day: Ok(Estimate::of_events(events)),
            event: Ok(EventBytes { records, clean: pictures, annotated: None, clip_second }),
            clip_s,
            opinion_usd: Ok(usd),
            ..measured()
        });
        let (less, most) = (of(events), of(events + more));
        let ends = |of: Option<Estimate>| of.map(|of| [of.low, of.likely, of.high]);
        for (less, most) in [
            (less.processor_share, most.processor_share),
            (less.storage_bytes_a_day, most.storage_bytes_a_day),
            (less.uplink_bytes_a_day, most.uplink_bytes_a_day),
            (less.model_usd_a_month, most.model_usd_a_month),
        ] {
            let Some(([low, likely, high], more)) = ends(less).zip(ends(most)) else {
                prop_assert!(clip_s > 0.0 && clip_second.is_none());
                continue;
            };
            prop_assert!(low <= likely && likely <= high);
            prop_assert!(low <= more[0] && likely <= more[1] && high <= more[2]);
        }
        let uplink = less.uplink_bytes_a_day.map(|of| of.likely);
        prop_assert_eq!(uplink, Some(records * events as f64));
    }

    /// Every number is either there or has a reason.
    #[test]
    fn every_number_is_there_or_has_a_reason(
        share in any::<f64>(), events in any::<f64>(),
        records in any::<f64>(), usd in any::<f64>(),
    ) {
        let tag = PriceTag::new(&Measured {
            processor: Ok(shares(share, (share > 1.0).then_some(usd))),
            events_a_day: Ok(Estimate::exact(events)),
            event: Ok(EventBytes { records, clean: 0.0, annotated: None, clip_second: None }),
            opinion_usd: Ok(usd),
            ..measured()
        });
        for (name, number) in [
            ("processor", tag.processor_share), ("events", tag.events_share),
            ("storage", tag.storage_bytes_a_day),
            ("uplink", tag.uplink_bytes_a_day), ("model", tag.model_usd_a_month),
        ] {
            prop_assert_eq!(number.is_none(), tag.unknown.contains_key(name), "{}", name);
            prop_assert!(number.is_none_or(|n| n.likely >= 0.0 && n.high.is_finite()));
        }
    }

    #[test]
    fn processor_share_is_time_at_work(
        frames in 2u32..5_000, ms in 0.1f64..200.0, fps in 1.0f64..60.0,
        others in proptest::option::of(0.0f64..1.0), missed in 0.0f64..10.0,
    ) {
        let source_s = f64::from(frames - 1) / fps;
        let report = DryRunReport {
            results: PipelineResults {
                frames: u64::from(frames),
                source_s,
                processor_s: f64::from(frames) * ms / 1e3,
                ..PipelineResults::default()
            },
            others_s: others.map(|share| share * source_s),
            wanted_fps: fps * (1.0 + missed),
            ..DryRunReport::default()
        };
        let shares = ProcessorShares::from_report(&report).unwrap();
        let is_near = |a: f64, b: f64| (a - b).abs() < 1e-9 * a.max(1.0);
        prop_assert!(is_near(shares.pipeline, ms * fps / 1e3));
        prop_assert!(is_near(shares.of_pipeline().high, shares.pipeline * (1.0 + missed)));
        prop_assert_eq!(shares.others.is_some(), others.is_some());
        prop_assert!(shares.others.zip(others).is_none_or(|(a, b)| is_near(a, b)));
    }
}
