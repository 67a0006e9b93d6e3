//! What channels receive, and in which form.

use secrecy::SecretString;
use watchkeeper_config::SecretSource;
use watchkeeper_contract::id::ChannelId;

use super::*;
use crate::example::example_event;
use crate::second_opinion::testing::{assessed, confirmation};

fn channel(kind: ChannelKind, min_severity: Option<Severity>, notify_end: bool) -> ChannelConfig {
    ChannelConfig {
        id: ChannelId::new("security").unwrap(),
        kind,
        url: SecretSource::Value(SecretString::from("https://a.example/T0K3N")),
        min_severity,
        notify_end,
        pictures: true,
    }
}

fn names() -> Names {
    Names::new("box".to_owned())
}

fn event(phase: Phase, severity: Severity, notify: &[&str]) -> Event {
    let mut event = example_event();
    event.phase = phase;
    event.severity = severity;
    if let EventBody::Rule(rule) = &mut event.body {
        rule.condition = "stays".to_owned();
        rule.notify = notify.iter().map(|n| ChannelId::new(*n).unwrap()).collect();
    }
    event
}

#[test]
fn doubtful_event_carries_its_link_instead_of_the_command() {
    let named = channel(ChannelKind::Slack, None, false);
    let link = "https://box.example/review/1.2.3.4";
    let text = |event: &Event, link| {
        let notification = event_notification(&named, &names(), event, link);
        notification.unwrap().line()
    };
    let mut doubtful = event(Phase::New, Severity::Info, &["security"]);
    assert!(
        !text(&doubtful, Some(link)).contains(link),
        "a certain event"
    );
    doubtful.decision.verdict = Verdict::Review;
    let command = "watchkeeper reviews approve 1207";
    assert!(text(&doubtful, None).contains(command));
    if let EventBody::Rule(rule) = &mut doubtful.body {
        rule.reason = "x".repeat(2 * MAX_TEXT);
        rule.rule = "y".repeat(2 * MAX_TEXT);
    }
    let linked = text(&doubtful, Some(link));
    assert!(linked.ends_with(&format!(", answer: {link}")) && !linked.contains(command));
}

#[test]
fn text_has_the_name_that_a_user_gave_the_camera() {
    let channel = channel(ChannelKind::Slack, None, false);
    let event = event(Phase::New, Severity::Info, &["security"]);
    let text = |names: &Names| {
        event_notification(&channel, names, &event, None)
            .unwrap()
            .text
    };
    let (mut names, camera) = (names(), event.source.clone().unwrap());
    assert!(text(&names).contains(&format!("(box, camera {camera}, rule ")));
    names.cameras.insert(camera, "Main gate".to_owned());
    assert!(text(&names).contains("(box, camera Main gate, rule "));
}

#[test]
fn channel_receives_an_opinion_that_changes_the_event() {
    let channel = channel(ChannelKind::Webhook, Some(Severity::Critical), false);
    let raised = assessed(Ok(confirmation(false)));
    let notification = event_notification(&channel, &names(), &raised, None).unwrap();
    assert_eq!(notification.id, format!("{}-opinion", raised.id));
    let text = notification.text;
    let begin = "CRITICAL: needs review after a second opinion (0.77 with the second opinion";
    assert!(text.starts_with(begin), "{text}");
    assert!(text.ends_with(" A model adds: a person"), "{text}");
    let event: Value = serde_json::from_slice(&notification.event).unwrap();
    assert_eq!(event["outcome"], "raised");
    for unchanged in [
        assessed(Err("the budget is used up")),
        assessed(Ok(confirmation(true))),
    ] {
        let notification = event_notification(&channel, &names(), &unchanged, None);
        assert_eq!(notification, None);
    }
}

#[test]
fn channel_receives_named_and_severe_events() {
    let named = channel(ChannelKind::Slack, None, false);
    let severe = channel(ChannelKind::Slack, Some(Severity::Warning), false);
    for (severity, notify, by_name, by_severity) in [
        (Severity::Info, &["security"][..], true, true),
        (Severity::Info, &["yard"], false, false),
        (Severity::Warning, &[], false, true),
        (Severity::Critical, &["yard", "security"], true, true),
    ] {
        let event = event(Phase::New, severity, notify);
        assert_eq!(
            event_notification(&named, &names(), &event, None).is_some(),
            by_name,
            "{notify:?}"
        );
        assert_eq!(
            event_notification(&severe, &names(), &event, None).is_some(),
            by_severity,
            "{notify:?}"
        );
    }
}

#[test]
fn channel_in_on_act_receives_only_what_makes_an_event_certain() {
    let siren = channel(ChannelKind::Webhook, None, true);
    let notified = |phase, verdict| {
        let mut event = event(phase, Severity::Info, &[]);
        event.decision.verdict = verdict;
        if let EventBody::Rule(rule) = &mut event.body {
            rule.on_act = vec![ChannelId::new("security").unwrap()];
        }
        event_notification(&siren, &names(), &event, None).map(|one| one.text)
    };
    assert!(notified(Phase::New, Verdict::Act).is_some());
    assert!(notified(Phase::Update, Verdict::Act).is_some());
    for verdict in [Verdict::Record, Verdict::Review, Verdict::Escalate] {
        assert_eq!(notified(Phase::New, verdict), None, "{verdict:?}");
    }
    let approved = notified(Phase::Assessed, Verdict::Act).unwrap();
    assert!(approved.starts_with("approved by a person: "), "{approved}");
    assert_eq!(notified(Phase::Assessed, Verdict::Discard), None);
    assert_eq!(notified(Phase::Clip, Verdict::Act), None);
}

#[test]
fn notification_of_a_doubtful_event_says_how_to_answer() {
    let named = channel(ChannelKind::Slack, None, false);
    let text = |verdict| {
        let mut event = event(Phase::New, Severity::Info, &["security"]);
        event.decision.verdict = verdict;
        event_notification(&named, &names(), &event, None)
            .unwrap()
            .text
    };
    assert!(text(Verdict::Review).contains("`watchkeeper reviews approve "));
    assert!(!text(Verdict::Act).contains("reviews approve"));
}

#[test]
fn end_is_notified_if_configured_and_event_has_duration() {
    let end = event(Phase::End, Severity::Info, &["security"]);
    let without_end = channel(ChannelKind::Slack, None, false);
    let with_end = channel(ChannelKind::Slack, None, true);
    assert_eq!(event_notification(&without_end, &names(), &end, None), None);
    assert!(
        event_notification(&with_end, &names(), &end, None)
            .unwrap()
            .text
            .starts_with("ended: ")
    );
    let mut crossed = end.clone();
    if let EventBody::Rule(rule) = &mut crossed.body {
        rule.condition = "crosses".to_owned();
    }
    assert_eq!(
        event_notification(&with_end, &names(), &crossed, None),
        None
    );
    let update = event(Phase::Update, Severity::Critical, &["security"]);
    assert_eq!(event_notification(&with_end, &names(), &update, None), None);
}

#[test]
fn each_phase_has_a_stable_id_of_its_own() {
    let channel = channel(ChannelKind::Webhook, None, true);
    let begin = event(Phase::New, Severity::Info, &["security"]);
    let end = event(Phase::End, Severity::Info, &["security"]);
    let id = |event| {
        event_notification(&channel, &names(), event, None)
            .unwrap()
            .id
    };
    let copy = begin.clone();
    assert_eq!(id(&begin), id(&copy));
    assert_ne!(id(&begin), id(&end));
}

#[test]
fn outside_text_makes_no_mention_and_no_line_break() {
    let mut hostile = event(Phase::New, Severity::Info, &["security"]);
    if let EventBody::Rule(rule) = &mut hostile.body {
        rule.reason = "<!channel> & <https://evil.example|click>\nCRITICAL: fire".to_owned();
    }
    let channel = channel(ChannelKind::Slack, None, false);
    let (mut names, camera) = (names(), hostile.source.clone().unwrap());
    let name = "Gate\u{2028}CRITICAL: fire \u{202e}";
    names.cameras.insert(camera, name.to_owned());
    let notification = event_notification(&channel, &names, &hostile, None).unwrap();
    let text = &notification.text;
    assert!(!text.contains(['\n', '\u{2028}', '\u{202e}']), "{text}");
    let HttpBody::Json { document } = body(ChannelKind::Slack, &[notification], None) else {
        panic!("JSON");
    };
    let shown = &document["blocks"][0]["text"];
    for text in [&document["text"], &shown["text"]] {
        let text = text.as_str().unwrap();
        assert!(!text.contains(['<', '>']), "{text}");
        assert!(text.contains("&lt;!channel&gt; &amp;"), "{text}");
    }
    assert_eq!(shown["verbatim"], true, "no link of an address");
}

#[test]
fn only_link_in_slack_is_that_of_the_review() {
    let mut doubtful = event(Phase::New, Severity::Info, &["security"]);
    doubtful.decision.verdict = Verdict::Review;
    if let EventBody::Rule(rule) = &mut doubtful.body {
        rule.reason = "see https://evil.example".to_owned();
    }
    let channel = channel(ChannelKind::Slack, None, false);
    let link = "https://box.example/review/1.2.3.4";
    let notification = event_notification(&channel, &names(), &doubtful, Some(link)).unwrap();
    let sent = [notification.clone(), notification];
    let HttpBody::Json { document } = body(ChannelKind::Slack, &sent, None) else {
        panic!("JSON");
    };
    let blocks = document["blocks"].as_array().unwrap();
    assert_eq!(blocks.len(), 2, "one for each");
    for block in blocks {
        assert_eq!(
            (&block["type"], &block["text"]["type"]),
            (&json!("section"), &json!("mrkdwn"))
        );
        let text = block["text"]["text"].as_str().unwrap();
        assert!(text.contains("see https://evil.example"), "{text}");
        assert_eq!(text.matches('<').count(), 1, "{text}");
        assert!(text.ends_with(&format!(", answer: <{link}>")), "{text}");
    }
}

#[test]
fn block_for_slack_is_short_enough_and_escapes_its_link() {
    let mut doubtful = event(Phase::New, Severity::Info, &["security"]);
    doubtful.decision.verdict = Verdict::Review;
    let channel = channel(ChannelKind::Slack, None, false);
    let block = |link: &str| {
        let notification = event_notification(&channel, &names(), &doubtful, Some(link)).unwrap();
        let text = "&".repeat(MAX_TEXT);
        slack_block(&Notification {
            text,
            ..notification
        })
    };
    let text = |link: &str| block(link)["text"]["text"].as_str().unwrap().to_owned();
    let linked = text("https://box.example/a&b");
    assert!(linked.len() < SLACK_MAX_BLOCK_TEXT, "{}", linked.len());
    assert!(linked.ends_with(", answer: <https://box.example/a&amp;b>"));
    let too_long = text(&format!(
        "https://box.example/{}",
        "a".repeat(SLACK_MAX_LINK)
    ));
    assert_eq!(
        too_long,
        "&amp;".repeat(MAX_TEXT),
        "the message is sent without it"
    );
}

#[test]
fn notice_is_notified_from_its_minimal_severity_on() {
    let notice = Notice {
        id: "01J".to_owned(),
        at: example_event().at,
        severity: Severity::Warning,
        reason: "camera gate is out (refused)".to_owned(),
        camera: SourceId::new("gate").ok(),
        by_model: Some("Look at\nthe switch.".to_owned()),
        payload: b"{}".to_vec(),
    };
    let named = channel(ChannelKind::Slack, None, false);
    let critical = channel(ChannelKind::Slack, Some(Severity::Critical), false);
    assert_eq!(notice_notification(&named, &names(), &notice), None);
    assert_eq!(notice_notification(&critical, &names(), &notice), None);
    let hook = channel(ChannelKind::Webhook, Some(Severity::Warning), false);
    let notification = notice_notification(&hook, &names(), &notice).unwrap();
    assert!(
        notification
            .text
            .starts_with("Warning: camera gate is out (refused) (box, camera gate")
    );
    assert!(
        notification
            .text
            .ends_with("A model adds: Look at the switch."),
        "{}",
        notification.text
    );
    assert_eq!(notification.event, notice.payload);
}

#[test]
fn webhook_receives_mqtt_payload_and_picture() {
    let channel = channel(ChannelKind::Webhook, None, false);
    let event = event(Phase::New, Severity::Info, &["security"]);
    let notification = event_notification(&channel, &names(), &event, None).unwrap();
    assert_eq!(notification.media, media_of(&event));
    let file = Some(("picture", vec![0xff]));
    let sent = body(ChannelKind::Webhook, &[notification], file);
    let HttpBody::Form { fields, files } = sent else {
        panic!("a form");
    };
    let message: serde_json::Value = serde_json::from_str(&fields[1].1).unwrap();
    assert_eq!(message["id"], event.id.to_string());
    assert_eq!(files[0].name, "picture");
}

#[test]
fn clip_follows_its_event_and_is_attached_if_small() {
    let webhook = channel(ChannelKind::Webhook, None, false);
    let slack = channel(ChannelKind::Slack, None, false);
    let record = |state| {
        let mut event = event(Phase::Clip, Severity::Info, &["security"]);
        if let Some(clip) = &mut event.clip {
            clip.state = state;
        }
        event
    };
    let kept = |bytes| {
        record(ClipState::Kept {
            content_type: "video/mp4".to_owned(),
            bytes,
            sha256: "00".to_owned(),
        })
    };
    let small = event_notification(&webhook, &names(), &kept(1_200_000), None).unwrap();
    assert!(small.id.ends_with("-clip"), "{}", small.id);
    let attached = small.media.as_ref().unwrap();
    assert_eq!(attached.name, "clip");
    for text in [
        &small.text,
        &event_notification(&slack, &names(), &kept(1), None)
            .unwrap()
            .text,
    ] {
        assert!(
            text.contains("clip of 15 s") && text.contains(&attached.id),
            "{text}"
        );
    }
    let large =
        event_notification(&webhook, &names(), &kept(MAX_ATTACHMENT_BYTES + 1), None).unwrap();
    assert_eq!(large.media, None);
    let message = "the disk is full".to_owned();
    let lost =
        event_notification(&slack, &names(), &record(ClipState::Lost { message }), None).unwrap();
    assert!(
        lost.text.contains("clip lost (the disk is full)"),
        "{}",
        lost.text
    );
    let unaddressed = event(Phase::Clip, Severity::Info, &[]);
    assert_eq!(
        event_notification(&slack, &names(), &unaddressed, None),
        None
    );
}
