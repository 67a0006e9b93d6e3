//! Sentences of proposals.

use serde_json::json;

use super::*;

fn describe(when: &Value, more: &Value) -> String {
    let mut spec = json!({"name": "r", "when": when});
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    describe_rule(&serde_json::from_value(spec).unwrap())
}

#[test]
fn deployment_is_described_by_its_specification() {
    let watch = watchkeeper_engine::templates::watch::Watch {
        classes: vec!["person".to_owned()],
        lines: vec!["door:320,0,320,360".parse().unwrap()],
        ..Default::default()
    };
    let workflow = watchkeeper_engine::templates::watch::workflow(&watch, "yolox-nano");
    let spec: PipelineSpec = serde_json::from_value(json!({
        "id": "gate-door", "source": "gate", "workflow": workflow,
        "rules": [{"name": "in", "when": {"kind": "crosses", "line": "door"}, "classes": ["person"], "cooldown_s": 30.0}],
    }))
    .unwrap();
    let pipeline = spec.id.clone();
    let deploy = ProposedChange::Deploy {
        spec: Box::new(spec),
    };
    let [watch] = describe_change(&deploy).try_into().unwrap();
    for part in [
        "gate-door on camera gate",
        "detect (roboflow_object_detection_model, model yolox-nano, only person, confidence 0.1 or more",
        "line door from 320,0 to 320,360",
        "cool-down 30 s for each object",
        "in: person crosses door either way, severity info",
    ] {
        assert!(watch.contains(part), "{part}: {watch}");
    }
    let stop = describe_change(&ProposedChange::Stop { pipeline });
    assert_eq!(stop, ["gate-door is stopped and deleted"]);
}

#[test]
fn every_condition_is_described() {
    let nothing = json!({});
    let person = json!({"classes": ["person"]});
    let usual = "severity info, keeps a snapshot and no clip, notifies no channel, no cool-down";
    for (when, more, sentence) in [
        (
            json!({"kind": "appears", "detections": TRACKED}),
            &nothing,
            "anything appears",
        ),
        (
            json!({"kind": "appears", "detections": "$steps.filter.predictions"}),
            &json!({"classes": ["car", "truck"]}),
            "car or truck appears among the predictions of step filter",
        ),
        (
            json!({"kind": "enters", "zone": "desk"}),
            &person,
            "person enters desk",
        ),
        (
            json!({"kind": "leaves", "zone": "desk"}),
            &person,
            "person leaves desk",
        ),
        (
            json!({"kind": "stays", "zone": "desk", "for_s": 120}),
            &person,
            "person stays in desk for 120 s",
        ),
        (
            json!({"kind": "crosses", "line": "door"}),
            &person,
            "person crosses door either way",
        ),
        (
            json!({"kind": "crosses", "line": "door", "direction": "in"}),
            &person,
            "person crosses door in (to the line's left hand)",
        ),
        (
            json!({"kind": "crosses", "line": "door", "direction": "out"}),
            &person,
            "person crosses door out (to the line's right hand)",
        ),
        (
            json!({"kind": "count", "detections": TRACKED, "bound": {"over": 2}}),
            &person,
            "more than 2 objects of class person at a time",
        ),
        (
            json!({"kind": "count", "detections": "$steps.desk.timed_detections", "bound": {"under": 3}, "for_s": 10}),
            &nothing,
            "fewer than 3 objects at a time in desk for 10 s",
        ),
        (
            json!({"kind": "count", "detections": TRACKED, "bound": {"under": 1}, "for_s": 20}),
            &person,
            "no objects of class person at a time for 20 s",
        ),
        (
            json!({"kind": "value", "value": "$steps.gap.output", "test": {"over": 3.5}, "for_s": 5}),
            &nothing,
            "the output of step gap is over 3.5 for 5 s",
        ),
        (
            json!({"kind": "value", "value": "$steps.gap.output", "test": {"under": 0.5}}),
            &nothing,
            "the output of step gap is under 0.5",
        ),
        (
            json!({"kind": "value", "value": "$steps.door.open", "test": {"is": true}}),
            &nothing,
            "the open of step door is true",
        ),
        (
            json!({"kind": "value", "value": "$steps.door.open", "test": {"is": false}}),
            &nothing,
            "the open of step door is false",
        ),
    ] {
        assert_eq!(describe(&when, more), format!("r: {sentence}, {usual}"));
    }
}

#[test]
fn every_setting_of_a_rule_is_described() {
    let when = json!({"kind": "enters", "zone": "desk"});
    let all = json!({
        "classes": ["person"], "confidence": {"min": 0.5, "max": 0.9}, "severity": "warning", "cooldown_s": 30,
        "schedule": {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "22:00", "to": "06:00"},
        "clip": {"before_s": 5, "after_s": 10}, "notify": ["security", "boss"], "second_opinion_may_lower": true,
        "gates": {"act": 0.95, "record": 0.9, "review": 0.8, "escalate": 0.6},
    });
    assert_eq!(
        describe(&when, &all),
        "r: person enters desk, only with a confidence of 0.5 to 0.9, Mon–Fri 22:00 to 06:00 of the next day, severity warning, \
         keeps a snapshot and a clip from 5 s before to 10 s after, notifies #security and #boss, cool-down 30 s for each object, \
         confidence gates: act from 0.95, record from 0.9, review from 0.8, escalate from 0.6, \
         a second opinion may lower it"
    );
    let critical = describe(
        &when,
        &json!({"severity": "critical", "second_opinion_may_lower": true, "confidence": {"min": 0.4}}),
    );
    assert!(
        critical.contains("confidence of 0.4 or more") && critical.contains("severity critical")
    );
    assert!(!critical.contains("may lower"), "{critical}");
    let count = json!({"kind": "count", "detections": TRACKED, "bound": {"over": 2}});
    let count = describe(&count, &json!({"cooldown_s": 60}));
    assert!(count.ends_with("cool-down 60 s"), "{count}");
    let shared = describe(&when, &json!({"cooldown_s": 60, "shared_cooldown": true}));
    let wanted = "cool-down 60 s shared by all objects";
    assert!(shared.ends_with(wanted), "{shared}");
}

#[test]
fn schedules_are_described_with_day_ranges() {
    let hours = |days: Value, from: &str, to: &str| {
        let hours = json!({"days": days, "from": from, "to": to});
        describe_schedule(&serde_json::from_value(hours).unwrap())
    };
    assert_eq!(
        hours(json!([]), "08:00", "18:00"),
        "every day 08:00 to 18:00"
    );
    assert_eq!(hours(json!(["sun"]), "00:00", "00:00"), "Sun all day");
    assert_eq!(
        hours(json!(["sat"]), "09:00", "09:00"),
        "Sat from 09:00 for 24 hours"
    );
    assert_eq!(
        hours(json!(["sat", "sun"]), "20:00", "00:00"),
        "Sat, Sun 20:00 to 00:00"
    );
    assert_eq!(
        hours(json!(["mon", "wed", "thu", "fri", "sun"]), "22:00", "06:00"),
        "Mon, Wed–Fri, Sun 22:00 to 06:00 of the next day"
    );
}

#[test]
fn sinks_are_described_in_full_with_every_step() {
    let still = |n: usize| json!({"type": "roboflow_core/continue_if@v1", "name": format!("wait{n}"), "stop_delay": n + 1, "next_steps": ["$steps.hook"]});
    let mut steps: Vec<Value> = (0..14).map(still).collect();
    let text = "x".repeat(MAX_VALUE_CHARS * 2);
    steps.push(json!({
        "type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "https://hooks.example/T0/B0", "method": "POST",
        "headers": {"X-Key": "$steps.vault.hook"}, "json_payload": {"text": text, "odd": "a\u{1b}[2Jb"},
    }));
    let inner = json!({"type": "roboflow_core/inner_workflow@v1", "name": "in", "workflow_definition": {"steps": [
        {"type": "roboflow_core/local_file_sink@v1", "name": "file", "target_directory": "/srv/out"}]}});
    steps.push(inner);
    let spec = json!({"id": "p", "source": "gate", "workflow": {"version": "1.0", "inputs": [], "steps": steps, "outputs": []}});
    let spec = Box::new(serde_json::from_value(spec).unwrap());
    let sentences = describe_change(&ProposedChange::Deploy { spec });
    let [watch, hook, file] = sentences.try_into().unwrap();
    assert!(
        watch.contains("wait13 (continue_if, stop_delay 14)"),
        "{watch}"
    );
    assert!(hook.starts_with("p sends: hook (webhook_sink): "), "{hook}");
    assert!(hook.contains("url \"https://hooks.example/***\""), "{hook}");
    assert!(
        hook.contains("$steps.vault.hook") && hook.contains(&text),
        "{hook}"
    );
    assert!(!hook.contains('\u{1b}'), "{hook}");
    assert!(
        file.contains("file (local_file_sink): target_directory \"/srv/out\""),
        "{file}"
    );
}

#[test]
fn inputs_are_described_by_their_values() {
    let slack = json!({"type": "roboflow_core/slack_notification@v1", "name": "slack", "slack_token": "$inputs.token", "channel": "$inputs.room"});
    let hook = json!({"type": "roboflow_core/webhook_sink@v1", "name": "hook", "method": "POST", "url": "https://$inputs.host/in"});
    let input = |name: &str| json!({"type": "WorkflowParameter", "name": name});
    let child = json!({
        "inputs": [{"type": "WorkflowParameter", "name": "room", "default_value": "nobody"}, input("token"), input("host")], "steps": [slack, hook],
    });
    let spec = json!({
        "id": "p", "source": "gate", "model": "motion", "detect": {"mode": "periodic", "every_s": 3.0}, "paused": true,
        "parameters": {"who": "boss@evil.example", "mine": "xoxb-1"},
        "workflow": {"version": "1.0", "outputs": [], "inputs": [
            {"type": "WorkflowParameter", "name": "hook", "default_value": "https://evil.example/T0"},
            {"type": "WorkflowParameter", "name": "who", "default_value": "boss@site.example"},
            {"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/webhook_sink@v1", "name": "hook", "url": "$inputs.hook", "method": "POST", "json_payload": {"picture": "$inputs.image"}},
            {"type": "roboflow_core/email_notification@v1", "name": "mail", "receiver_email": "$inputs.who"},
            {"type": "roboflow_core/inner_workflow@v1", "name": "in", "workflow_definition": child,
             "parameter_bindings": {"token": "$inputs.mine", "room": "$inputs.who", "host": "inner.example"}},
        ]},
    });
    let spec = Box::new(serde_json::from_value(spec).unwrap());
    let sentences = describe_change(&ProposedChange::Deploy { spec });
    let [watch, hook, mail, slack, inner] = sentences.try_into().unwrap();
    assert!(
        inner.contains("in__hook (webhook_sink)") && inner.contains("https://inner.example/"),
        "{inner}"
    );
    assert!(hook.contains("url \"https://evil.example/***\""), "{hook}");
    assert!(hook.contains("$inputs.image"), "{hook}");
    assert!(
        mail.contains("receiver_email \"boss@evil.example\""),
        "{mail}"
    );
    assert!(slack.contains("channel \"boss@evil.example\""), "{slack}");
    assert!(slack.contains("slack_token \"***\""), "{slack}");
    for part in [
        "model motion instead",
        "detects every 3 s only",
        "is paused",
    ] {
        assert!(watch.contains(part), "{part}: {watch}");
    }
}

#[test]
fn detector_is_described_with_its_confidence() {
    let detect = |confidence: Value| {
        let kind = "roboflow_core/roboflow_object_detection_model@v2";
        describe_step(
            &json!({"type": kind, "name": "detect", "model_id": "yolox-nano", "confidence": confidence}),
        )
    };
    let text = detect(json!(0.35));
    assert!(
        text.ends_with("model yolox-nano, confidence 0.35 or more)"),
        "{text}"
    );
    let text = detect(json!("$inputs.confidence"));
    assert!(
        text.ends_with("confidence $inputs.confidence or more)"),
        "{text}"
    );
}
