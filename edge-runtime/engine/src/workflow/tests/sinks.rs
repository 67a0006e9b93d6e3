//! The cool-down of every sink that has one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};

use super::super::{Execution, blocks, compile};
use super::bench::Bench;
use super::state::{play, prelude};
use crate::workflow::values::stored_value::StoredValue;
use crate::workflow::values::value::Value;

/// A sink with the cool-down that it has by default.
struct Sink {
    step: Json,
    default_s: f64,
    /// Longest cool-down of a sink that may share it with other steps.
    max_shared_s: Option<i64>,
}

fn sinks() -> Vec<Sink> {
    let own = |step: Json, default_s| Sink {
        step,
        default_s,
        max_shared_s: None,
    };
    let shared = |step: Json| Sink {
        max_shared_s: Some(15 * 60),
        ..own(step, 5.0)
    };
    let email = |version: &str| {
        json!({
            "type": format!("roboflow_core/email_notification@{version}"), "subject": "door",
            "receiver_email": "a@box", "message": "m", "sender_email": "box@box",
            "smtp_server": "mail.box", "sender_email_password": "hush",
        })
    };
    let sms = |version: &str| {
        json!({
            "type": format!("roboflow_core/twilio_sms_notification@{version}"), "message": "m",
            "twilio_account_sid": "AC1", "twilio_auth_token": "t", "sender_number": "+1",
            "receiver_number": "+2",
        })
    };
    vec![
        shared(json!({
            "type": "roboflow_core/slack_notification@v1", "slack_token": "t", "channel": "yard",
            "message": "m", "cooldown_session_key": "a",
        })),
        shared(with(&sms("v1"), "cooldown_session_key", json!("a"))),
        own(
            with(&sms("v2"), "sms_provider", json!("Custom Twilio")),
            5.0,
        ),
        own(email("v1"), 5.0),
        own(
            with(&email("v2"), "email_provider", json!("Custom SMTP")),
            5.0,
        ),
        own(
            json!({
                "type": "roboflow_core/webhook_sink@v1", "url": "https://host/in", "method": "POST",
            }),
            5.0,
        ),
        own(
            json!({
                "type": "roboflow_core/vision_event_bundle@v1", "target_directory": "events",
                "event_type": "custom",
            }),
            1.0,
        ),
    ]
}

/// The step with one more property.
fn with(step: &Json, property: &str, value: Json) -> Json {
    let mut step = step.clone();
    step[property] = value;
    step
}

/// Runs the step after a pause, and returns whether the cool-down kept its message.
fn is_kept_back(bench: &mut Bench, pause_s: f64) -> bool {
    bench.wait(pause_s);
    let out = bench.feed(&[]).unwrap();
    assert_eq!(out["error_status"], false, "{out}");
    out["throttling_status"] == true
}

fn bench(step: &Json) -> Bench {
    Bench::new(step.clone(), &[])
}

#[test]
fn table_has_every_sink_with_a_cool_down() {
    let has_cooldown = blocks::all().filter(|block| {
        let mut outputs = block.outputs.iter();
        outputs.any(|output| output.name == "throttling_status")
    });
    let all: BTreeSet<&str> = has_cooldown.map(|block| block.name).collect();
    let sinks = sinks();
    let tested = sinks.iter().map(|sink| sink.step["type"].as_str().unwrap());
    assert_eq!(tested.collect::<BTreeSet<_>>(), all);
}

#[test]
fn nothing_is_sent_before_the_cool_down_is_over() {
    for Sink {
        step, default_s, ..
    } in sinks()
    {
        for (step, cooldown_s) in [
            (step.clone(), default_s),
            (with(&step, "cooldown_seconds", json!(60)), 60.0),
        ] {
            let mut bench = bench(&step);
            assert!(!is_kept_back(&mut bench, 0.0), "{step}");
            assert!(is_kept_back(&mut bench, cooldown_s - 0.5), "{step}");
            assert!(!is_kept_back(&mut bench, 0.5), "{step}");
            assert_eq!(bench.effects().len(), 2, "{step}");
        }
        let mut without = bench(&with(&step, "cooldown_seconds", json!(0)));
        assert!(!is_kept_back(&mut without, 0.0) && !is_kept_back(&mut without, 0.0));
        let mut off = bench(&with(&step, "disable_sink", json!(true)));
        assert!(
            !is_kept_back(&mut off, 0.0) && off.effects().is_empty(),
            "{step}"
        );
    }
}

#[test]
fn only_a_shared_cool_down_has_a_limit() {
    for Sink {
        step, max_shared_s, ..
    } in sinks()
    {
        let at = |seconds: i64| with(&step, "cooldown_seconds", json!(seconds));
        match max_shared_s {
            Some(max) => {
                bench(&at(max));
                assert!(!Bench::refusal(at(max + 1)).is_empty());
            }
            None => drop(bench(&at(7 * 24 * 3600))),
        }
        assert!(!Bench::refusal(at(-1)).is_empty(), "{step}");
    }
}

/// A workflow of a model, trackers and these steps.
fn started(model: &str, steps: &[Json]) -> Execution {
    let mut all = prelude();
    all[0]["model_id"] = json!(model);
    all.extend_from_slice(steps);
    let definition = json!({
        "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}], "steps": all,
        "outputs": [],
    });
    let compiled = compile(&definition, &BTreeMap::new());
    compiled.unwrap_or_else(|e| panic!("{e:#?}")).instantiate()
}

/// Number of messages in one frame.
fn sent(run: &mut Execution, frame: u64) -> usize {
    let frames = play(run, frame, frame + 1);
    frames.iter().map(|(_, _, effects)| effects.len()).sum()
}

#[test]
fn steps_with_one_key_share_a_cool_down() {
    let slack = |name: &str, key: &str| {
        json!({
            "type": "roboflow_core/slack_notification@v1", "name": name, "slack_token": "t",
            "channel": "yard", "message": "m", "cooldown_session_key": key, "cooldown_seconds": 60,
        })
    };
    for (keys, count) in [(["a", "a"], 1), (["a", "b"], 2)] {
        let steps = [slack("one", keys[0]), slack("two", keys[1])];
        assert_eq!(sent(&mut started("m/1", &steps), 1), count, "{keys:?}");
    }
}

#[test]
fn shared_cool_down_survives_many_cached_values_and_a_restore() {
    let slack = json!({
        "type": "roboflow_core/slack_notification@v1", "name": "slack", "slack_token": "t",
        "channel": "yard", "message": "m", "cooldown_session_key": "k", "cooldown_seconds": 60,
    });
    let mut run = started("m/1", std::slice::from_ref(&slack));
    assert_eq!(sent(&mut run, 1), 1);
    let set = |run: &mut Execution, n: usize| {
        let key = ("cache of v".into(), (9_999 - n).to_string().into());
        let value = StoredValue::copied(&Value::from(n));
        run.memory.shared.cache.set(key, value).unwrap();
    };
    (0..4_096).for_each(|n| set(&mut run, n));
    assert_eq!(sent(&mut run, 2), 0);
    let mut restored = started("m/1", &[slack]);
    restored.restore(&run.save().bytes).unwrap();
    assert_eq!(sent(&mut restored, 3), 0);
    set(&mut restored, 4_096);
    let keys = restored.memory.shared.cache.iter();
    let keys: BTreeSet<&str> = keys.map(|((_, key), ..)| &**key).collect();
    assert!(
        !keys.contains("9999"),
        "the value set longest ago is evicted"
    );
    assert!(keys.contains("9998"));
}

#[test]
fn changed_step_before_a_sink_ends_its_cool_down() {
    let hook = json!({
        "type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "https://host/in",
        "method": "POST", "cooldown_seconds": 60,
        "json_payload": {"seen": "$steps.model.predictions"},
    });
    let steps = [hook];
    let mut first = started("m/1", &steps);
    assert_eq!(sent(&mut first, 1), 1);
    for (model, count) in [("m/1", 0), ("m/2", 1)] {
        let mut second = started(model, &steps);
        second.restore(&first.save().bytes).unwrap();
        assert_eq!(sent(&mut second, 2), count, "{model}");
    }
}

#[test]
fn refused_message_starts_no_cool_down() {
    let managed = json!({
        "type": "roboflow_core/twilio_sms_notification@v2", "message": "m", "receiver_number": "+2",
    });
    let by_step = bench(&managed);
    let sinks = sinks().into_iter();
    let by_host = sinks.map(|sink| bench(&sink.step).without_effects());
    for mut refusing in by_host.chain([by_step]) {
        for _ in 0..2 {
            let out = refusing.feed(&[]).unwrap();
            let status = (&out["error_status"], &out["throttling_status"]);
            assert_eq!(status, (&json!(true), &json!(false)), "{out}");
        }
    }
}

#[test]
fn changed_step_sends_at_once_and_unchanged_one_waits() {
    for Sink {
        step, max_shared_s, ..
    } in sinks()
    {
        let step = with(&step, "cooldown_seconds", json!(60));
        let mut first = bench(&step);
        assert!(!is_kept_back(&mut first, 0.0));
        assert!(
            is_kept_back(&mut bench(&step).resumed(&first), 1.0),
            "{step}"
        );
        let changed = with(&step, "cooldown_seconds", json!(90));
        let mut changed = bench(&changed).resumed(&first);
        assert_eq!(
            is_kept_back(&mut changed, 1.0),
            max_shared_s.is_some(),
            "{step}"
        );
    }
}
