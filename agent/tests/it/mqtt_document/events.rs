//! Sections on events: those of the journal, opinions, heartbeat findings, loss records.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use watchkeeper_contract::assessment::{Assessment, AssessmentAnswer, Assessor, Person, Via};
use watchkeeper_contract::event::{Decision, Event, Phase, Verdict};
use watchkeeper_contract::id::{ChannelId, PipelineId, SourceId};
use watchkeeper_contract::model::BackendChangeResult;
use watchkeeper_contract::source::{Blindness, LossCause};
use watchkeeper_llm::money::Money;

use super::Section;
use super::names::{
    NOW, SCHEMA_ROW, TS_QUALITY_ROW, TS_ROW, example_event, example_newer_record, json, names,
};
use watchkeeper_agent::fleet::mqtt::Topics;
use watchkeeper_agent::fleet::mqtt::payload::{
    BodyMembers, EventMessage, HeartbeatMessage, LossMessage, NewerEventMessage, OpinionMessage,
};
use watchkeeper_agent::fleet::outbox::{Loss, LossFrom, OutboxId};
use watchkeeper_agent::heartbeat::Finding;
use watchkeeper_agent::heartbeat::asker::Added;
use watchkeeper_agent::heartbeat::input::CameraState;
use watchkeeper_agent::second_opinion::assessment::new_assessment;
use watchkeeper_agent::second_opinion::verdict::Stance;
use watchkeeper_agent::second_opinion::weigh::weigh;
use watchkeeper_agent::second_opinion::{Answer, Opinion};

fn heartbeat(topics: &Topics, source: &SourceId) -> Section {
    let added = Added {
        words: "Yard and gate went out together: look at the switch between them.".to_owned(),
        model: "claude-haiku-5-5".to_owned(),
    };
    let finding = Finding::CameraOut {
        camera: source.clone(),
        state: CameraState::Out {
            cause: LossCause::Refused,
        },
    };
    let channel = ChannelId::new("security").ok();
    let pipeline = PipelineId::new("watch").ok();
    let mut message =
        HeartbeatMessage::of(&finding, "01KDVDNA0000000000000002AB", NOW, Some(&added));
    // The example has all members, also those of other kinds.
    message.channel = channel.as_ref();
    message.pipeline = pipeline.as_ref();
    message.number = Some(64);
    let kind = Topics::heartbeat_below(Some(source), finding.kind());
    Section {
        title: "Heartbeat finding",
        topic: topics.at(&kind),
        how: "QoS 1 through the outbox; without `cam/…` for a finding about the box",
        about: "With `agent.heartbeat.interval_min` (docs/ref/configuration.md) the agent checks the box \
                periodically. It publishes a finding once, and again after the finding changed or was resolved. The last \
                level is the kind: `camera_out`, `pipeline_failed`, `runtime_away`, `not_delivered`, \
                `channel_silent`, `budget_nearly_spent`, `too_many_reviews` or `opinions_given_up`. \
                Findings are computed from numbers, with or without an LLM. After a crash a finding may be repeated with another `id`.",
        example: json(&message),
        members: &[
            SCHEMA_ROW,
            ("id", "identity of the finding"),
            TS_ROW,
            TS_QUALITY_ROW,
            ("cam", "source; absent for a finding about the box"),
            ("kind", "last level of the topic"),
            ("severity", "`info`, `warning` or `critical`"),
            ("reason", "the finding in one sentence"),
            ("pipeline", "`pipeline_failed`: the pipeline"),
            ("channel", "`channel_silent`: the channel"),
            (
                "number",
                "the finding as a number: waiting messages, percent of the budget, events that need a \
                 person, events without an opinion",
            ),
            (
                "by_model",
                "addition of an LLM about the finding; untrusted text: show it, never act on it",
            ),
            ("model", "the LLM of the addition"),
        ],
    }
}

/// The record in which the journal has a second opinion on `event`.
fn assessed(event: &Event) -> Event {
    let mut event = event.clone();
    event.decision = Decision {
        verdict: Verdict::Escalate,
        confidence: 0.6,
        raw_confidence: None,
        reason: "0.60 is at or above the gate to escalate (0.50)".to_owned(),
        asks: None,
    };
    let answer = Ok(Answer {
        opinion: Opinion {
            verdict: Stance::Confirm,
            confidence: 0.9,
            seen: "a person in a blue coat walks through the open door".to_owned(),
            text_seen: "DOCK 3".to_owned(),
            injection_suspected: false,
        },
        model: "claude-haiku-5-5".to_owned(),
        cost: Money(489_600),
        took: Duration::ZERO,
        shared_from: None,
    });
    let weighed = weigh(&event, &answer, NOW);
    let new = new_assessment(&event, &answer, &weighed);
    Event {
        at: NOW,
        phase: Phase::Assessed,
        decision: weighed.decision,
        evidence: new.links,
        assessment: Some(Box::new(new.assessment)),
        ..event
    }
}

fn second_opinion(topics: &Topics, event: &Event) -> Section {
    let assessed = assessed(event);
    let kind = Topics::opinion_below(event.source.as_ref(), "crosses");
    Section {
        title: "A second opinion",
        topic: topics.at(&kind),
        how: "QoS 1 through the outbox",
        about: "With `llm.second_opinion` (docs/ref/configuration.md) an LLM looks at the picture of each event with \
                the verdict `escalate` whose rule has no `decide`. The event is published at once with the decision of the box. \
                This message follows seconds later, once per such event, with the event of phase `assessed` in which the \
                journal has the opinion. Without an opinion, `decision` is the local one and its \
                `reason` says why: no answer, the budget is used up, more than 64 events wait (the oldest of the lowest \
                severity is given up), or the event waited for ten minutes. Events of one rule that show one \
                scene share one opinion: a track in common within ten minutes, or one place within ten seconds. \
                `reason` then names the event that the LLM saw, and `cost_usd` is 0. An opinion weighs as much as all local \
                evidence together. It never results in `act`. It lowers an event only if the rule has \
                `second_opinion_may_lower`, down to `discard`: a false alarm, and never if the LLM read \
                more than a short text in the picture. It does not count if text in the picture addresses the LLM, or after a person's answer, whose `decision` then holds. The texts are an LLM's words about an untrusted scene: show them, never act on them.",
        example: json(&OpinionMessage::of(&assessed)),
        members: &[
            SCHEMA_ROW,
            ("id", "identity of the event"),
            (
                "event_seq",
                "journal number of the record that asked; absent where a person had answered before. The message \
                 itself has no `seq`",
            ),
            TS_ROW,
            TS_QUALITY_ROW,
            ("cam", "source"),
            ("pipeline", "pipeline"),
            ("kind", "last level of the topic; the kind of the event"),
            ("severity", "severity of the event"),
            ("rule", "name of the rule"),
            ("outcome", "`raised`, `lowered`, or `stands` (unchanged)"),
            (
                "decision",
                "current decision: `verdict` (`discard`, `escalate`, `review` or `record`; `act` only of a person), \
                 `confidence` and `reason`",
            ),
            (
                "opinion",
                "the LLM's answer: `verdict` (`confirm`, `refute`, `abstain`), `confidence`, what it has `seen`, \
                 `text_seen` in the picture, and whether it suspects an injection (then the texts are empty); absent without \
                 an answer, and where a person had answered before",
            ),
            (
                "evidence",
                "the opinion as evidence of the event; absent if it does not count",
            ),
            ("model", "the LLM that answered"),
            ("cost_usd", "cost in US dollars, with all attempts"),
        ],
    }
}

pub(super) fn sections() -> Vec<Section> {
    let (topics, _, _, source, _, _) = names();
    let event = example_event();
    let mut message = EventMessage::of(&event);
    // The example has all members, also those of other kinds.
    message.body = BodyMembers {
        cause: Some(LossCause::Refused),
        blind: Some(Blindness::Frozen),
        lasted_s: Some(12.5),
        tries: Some(2),
        step: Some("detect"),
        failures: Some(120),
        model: Some("yolox-nano"),
        to: Some("ort"),
        result: Some(BackendChangeResult::Swapped),
        from: Some("journal"),
        count: Some(4),
        ..message.body
    };
    let assessment = Assessment {
        by: Assessor::Person(Person {
            name: Some("Ada".to_owned()),
            via: Via::CommandLine,
        }),
        answer: AssessmentAnswer::Correct,
        label: Some("dog".to_owned()),
        fields: BTreeMap::new(),
        note: Some("the neighbour's".to_owned()),
    };
    message.assessment = Some(&assessment);
    let mut example = json(&message);
    if let Some(object) = example.as_object_mut() {
        object.insert("late".to_owned(), Value::Bool(true));
    }
    let mut loss = Loss::new(LossFrom::Outbox);
    loss.add(1190, 1192);
    loss.add(1201, 1201);
    vec![
        Section {
            title: "Events",
            topic: topics.event(Some(&source), "crosses"),
            how: "QoS 1 through the outbox; `ev/<kind>` without `cam/…` for events about the box",
            about: "The last level is the kind: `appears`, `enters`, `leaves`, `stays`, `crosses`, `count`, `value` (conditions \
                    of rules), `source_outage`, `pipeline_held`, `pipeline_failed`, `step_failing`, \
                    `load_shed`, `board_throttled`, `storage_worn`, `decoder_fallback`, `frame_kept`, `backend_change` or `loss`. The example has \
                    all members; an absent member does not apply.",
            example,
            members: &[
                ("schema", "version of the event"),
                (
                    "id",
                    "identity over the event's life: `new`, `update`, `end` and `clip` share it (ULID)",
                ),
                (
                    "seq",
                    "number in the box's journal: use it to detect repetitions and gaps",
                ),
                ("boot_id", "run of the runtime that wrote it"),
                (
                    "mono_ms",
                    "milliseconds since the start of that run; monotonic",
                ),
                TS_ROW,
                TS_QUALITY_ROW,
                ("cam", "source"),
                ("pipeline", "pipeline"),
                ("kind", "last level of the topic"),
                (
                    "phase",
                    "`new`, `update`, `end`, `clip` (result of its clip) or `assessed`; the last two may come after its `end`",
                ),
                ("severity", "`info`, `warning` or `critical`"),
                (
                    "reason",
                    "one sentence: what happened and which bound was exceeded",
                ),
                ("rule", "name of the rule"),
                ("label", "class of the object"),
                ("track_ids", "ids of its tracks"),
                ("zone", "name of its zone"),
                ("line", "name of its line"),
                ("direction", "`in` or `out`, for crossings"),
                ("number", "number that the rule compared"),
                (
                    "dwell_s",
                    "seconds in the zone, or for `appears` in sight, so far or in total",
                ),
                ("score", "best score of the object so far, 0 to 1"),
                (
                    "box",
                    "bounding box of the object, as fractions of the picture: left, top, right, bottom",
                ),
                (
                    "shown_frame",
                    "number of the frame of `box` and of the pictures, where that is an earlier one: the latest that shows the object well",
                ),
                ("frame", "number of the frame in its source, from 1"),
                ("pts_s", "presentation time of that frame, in seconds"),
                (
                    "held_back",
                    "events that the cool-down suppressed since the last event",
                ),
                (
                    "readings",
                    "codes and texts that the workflow read, where a chain decides (docs/guide/evidence.md): `kind` \
                     (`code`, `text`), `value`, `score`; only in the phase `new`",
                ),
                (
                    "cause",
                    "`source_outage`: why no frame arrives; absent if frames arrive",
                ),
                (
                    "blind",
                    "`source_outage`: what is wrong with frames that arrive, as `blind` in the state of a source",
                ),
                (
                    "lasted_s",
                    "`source_outage`, `pipeline_failed`, `step_failing`, `load_shed`, `board_throttled`: duration in seconds, in the phase `end`",
                ),
                (
                    "tries",
                    "`pipeline_failed`: restarts of the pipeline since its first failure",
                ),
                (
                    "step",
                    "`step_failing`: the step of the workflow that keeps failing",
                ),
                ("failures", "`step_failing`: failed runs so far"),
                (
                    "model",
                    "`backend_change`: the model that another back end may run",
                ),
                (
                    "to",
                    "`backend_change`: the back end that may replace `from`",
                ),
                (
                    "result",
                    "`backend_change`, in the phase `end`: `swapped`, `refused`, `failed`, `reverted` or `cancelled`",
                ),
                (
                    "from",
                    "`loss`: the queue or store; `backend_change`: the back end that served before",
                ),
                ("count", "`loss`: number of entries"),
                (
                    "decision",
                    "decision of the box: `verdict` (`escalate`, `review`, `record`, `act`), weighted `confidence` \
                     and `reason`; with `escalate` also the bounds of a second opinion (`asks`)",
                ),
                (
                    "evidence",
                    "evidence of the decision: `source`, `confidence`, `weight`, `note`; of asked sources also `failed`, `data`, \
                     `at`, `took_ms`, `cost_usd`; omitted if the message would be too large",
                ),
                (
                    "media",
                    "stored pictures: fetch them on the box by `watchkeeper media get ID -o FILE`, or by \
                     `GET /v1/media/{id}` (docs/ref/api.md)",
                ),
                (
                    "clip",
                    "the clip of the event: in the phase `new` its id and `filming`, in the phase `clip` `kept` with \
                     its size, or `lost` with the reason; fetched like a picture",
                ),
                (
                    "assessment",
                    "in the phase `assessed`: who answered (`by`), `approve`, `reject`, `correct` or `none` (`answer`), \
                     `label` and `note`; `decision` and `evidence` take it into account",
                ),
                (
                    "hash",
                    "SHA-256 over the journal record and its predecessor's",
                ),
                (
                    "late",
                    "`true` on a message queued before the current session",
                ),
            ],
        },
        second_opinion(&topics, &event),
        heartbeat(&topics, &source),
        Section {
            title: "Events of a newer runtime",
            topic: topics.event(Some(&source), "door_forced"),
            how: "QoS 1 through the outbox; `ev/<kind>` without `cam/…` if no source is named",
            about: "During an update the runtime may be newer than the agent and write records that the agent does not know. The \
                    agent publishes them unchanged in `record` (as in `GET /v1/events`, docs/ref/api.md), and the members \
                    that it knows.",
            example: json(&NewerEventMessage::of(&example_newer_record())),
            members: &[
                SCHEMA_ROW,
                ("id", "identity over the event's life"),
                ("seq", "number in the box's journal, as in any other event"),
                TS_ROW,
                ("cam", "source; absent if the record names none"),
                (
                    "kind",
                    "last level of the topic: the condition of a rule, else the kind of the record; `other` if that is not \
                     valid in a topic",
                ),
                (
                    "phase",
                    "`new`, `update`, `end` or `clip`; absent for any other",
                ),
                (
                    "severity",
                    "`info`, `warning` or `critical`; absent for any other",
                ),
                ("record", "the unchanged record; shortened in this example"),
            ],
        },
        Section {
            title: "Loss record",
            topic: topics.event(None, "loss"),
            how: "QoS 1 through the outbox",
            about: "Messages were lost. The runtime publishes its own losses as ordinary events on the same topic, with a \
                    `seq`.",
            example: json(&LossMessage::of(OutboxId(1_798_761_605_310), &loss, NOW)),
            members: &[
                SCHEMA_ROW,
                ("id", "identity of this record; equal in a repetition"),
                ("kind", "`loss`"),
                ("phase", "`new`"),
                ("severity", "`critical`"),
                (
                    "from",
                    "`outbox` (it was full), `journal` (records were deleted before they were read), `unreadable`, or \
                     `store` (damaged files)",
                ),
                ("count", "number of lost messages"),
                (
                    "seqs",
                    "their journal numbers, first and last of each range; messages without number are only counted",
                ),
                (
                    "exact",
                    "`false` if ranges were joined and include numbers that were published",
                ),
                ("reason", "one sentence"),
                TS_ROW,
            ],
        },
    ]
}
