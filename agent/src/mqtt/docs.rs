//! `docs/mqtt.md`, generated: topics from [`Topics`], payloads by serialising examples of the real types.
//!
//! Invariant: every member of every example has a line that says what it is, and no line is left over. The test at the
//! bottom compares the file in the repository; `UPDATE_DOCS=1` rewrites it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use watchkeeper_contract::command::{CommandReport, CommandRequest, CommandStatus, Operation};
use watchkeeper_contract::event::{
    Decision, EVENT_SCHEMA, Event, EventBody, Evidence, Media, MediaKind, Phase, RuleEvent, Verdict,
};
use watchkeeper_contract::id::{BoxId, EventId, EventSeq, PipelineId, SiteId, SourceId, TrackId};
use watchkeeper_contract::pipeline::LineCount;
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::LossCause;
use watchkeeper_contract::time::{TimeQuality, Wall};

use super::newer::NewerEventMessage;
use super::payload::{
    AgentMessage, AlarmMessage, BirthMessage, CapabilityMessage, CountsMessage, EventMessage,
    FramesMessage, HealthMessage, LossMessage, MAX_PAYLOAD, Presence, SCHEMA, ServiceState,
    SourceStateMessage, StateMessage, ZoneCount,
};
use super::topics::{CommandId, MAX_COMMAND_ID_LEN, OperationName, Topics};
use crate::outbox::{ClassStats, Limits, Loss, LossFrom, OutboxId, Stats};
use crate::runtime_client::{Deadlines, NewerRecord};

/// One kind of message as the document shows it.
struct Section {
    title: &'static str,
    topic: String,
    how: &'static str,
    about: &'static str,
    example: Value,
    members: &'static [(&'static str, &'static str)],
}

/// The document.
#[must_use]
pub fn render() -> String {
    let limits = Limits::default();
    let root = names().0.root().to_owned();
    let mut out = format!(
        "# MQTT\n\n\
         <!-- Generated from agent/src/mqtt/docs.rs; UPDATE_DOCS=1 cargo test -p watchkeeper-agent rewrites it. -->\n\n\
         A box speaks MQTT 3.1.1 below `watchkeeper/v1/<site>/<box>/` and subscribes to nothing outside of it; one ACL pattern \
         per box is enough. The examples are box `box-7` at site `north`, so everything begins with `{root}/`.\n\n\
         ## What you can rely on\n\n\
         - **At least once, and no silent hole.** Events and command reports are stored on the box before they are \
         published and forgotten only on the broker's PUBACK. After a lost session everything that was not acknowledged is \
         sent again: the same `seq` may come twice, so use `seq` (and `id` of a loss record) to tell.\n\
         - **`seq` rises by one** over all events of a box, over restarts too. A jump is explained by a message on `ev/loss` \
         that covers the missing numbers. Messages of severity `critical`, outages, loss records and command reports overtake \
         ordinary events; apart from that the order is that of `seq`.\n\
         - **Bounds.** Without a broker the box keeps up to {} events ({} MiB, see `agent.outbox_events` and \
         `agent.outbox_bytes`); beyond that the least severe go first, of those the oldest, each counted in a loss record. \
         Of the assured kinds it keeps {} ({} MiB) apart. Telemetry is thinned to one message per topic in five minutes.\n\
         - **`late`** is `true` on a message that waited since before the present session.\n\
         - **No pictures.** Media is named by id and checksum and fetched over the box's API. A payload is at most \
         {} KiB, both ways.\n\
         - **Retained state is written again on every connect**: `state`, `birth`, `cap/…`, `svc/…`, `cam/…/state`, open alarms, \
         the status of open commands. A broker without persistence is fine. After a change of `box.site` or `box.id` the box says \
         what it has to say below its new name; what it left retained below the old one is for you to clear.\n\n\
         ## Topics\n\n| Topic | How | What |\n|---|---|---|\n",
        limits.events.entries,
        limits.events.bytes >> 20,
        limits.assured.entries,
        limits.assured.bytes >> 20,
        MAX_PAYLOAD >> 10,
    );
    let sections = sections();
    for section in &sections {
        let topic = section.topic.trim_start_matches(&format!("{root}/"));
        // Writing to a String can't fail.
        let _ok = writeln!(out, "| `{topic}` | {} | {} |", section.how, section.title);
    }
    for section in &sections {
        out.push_str(&render_section(section));
    }
    out.push_str(&commands_note());
    out
}

fn render_section(section: &Section) -> String {
    let order: Vec<&str> = section.members.iter().map(|(name, _)| *name).collect();
    let json = pretty(&section.example, &order, 0);
    let mut out = format!(
        "\n## {}\n\n`{}` – {}\n\n{}\n\n```json\n{json}\n```\n\n",
        section.title, section.topic, section.how, section.about
    );
    out.push_str("| Member | Meaning |\n|---|---|\n");
    for (name, meaning) in section.members {
        let _ok = writeln!(out, "| `{name}` | {meaning} |");
    }
    out
}

/// Indented JSON whose outermost members stand in `order` and all others by name, whatever order the parser keeps.
fn pretty(value: &Value, order: &[&str], depth: usize) -> String {
    let Value::Object(object) = value else {
        return match value {
            Value::Array(items) if items.iter().any(Value::is_object) => {
                let items: Vec<String> = items.iter().map(|v| pretty(v, &[], depth)).collect();
                format!("[{}]", items.join(", "))
            }
            other => other.to_string(),
        };
    };
    if object.is_empty() {
        return "{}".to_owned();
    }
    let mut members: Vec<(&String, &Value)> = object.iter().collect();
    let rank = |name: &str| order.iter().position(|n| *n == name).unwrap_or(usize::MAX);
    members.sort_by(|a, b| (rank(a.0), a.0).cmp(&(rank(b.0), b.0)));
    let pad = "  ".repeat(depth + 1);
    let lines: Vec<String> = members
        .into_iter()
        .map(|(name, value)| format!("{pad}\"{name}\": {}", pretty(value, &[], depth + 1)))
        .collect();
    format!("{{\n{}\n{}}}", lines.join(",\n"), "  ".repeat(depth))
}

fn commands_note() -> String {
    format!(
        "\n## The life of a command\n\n\
         `req` is written by the requester, `st` by the box, so that an ACL can tell them apart. The id is chosen by the \
         requester: 1 to {MAX_COMMAND_ID_LEN} of letters, digits, `-`, `_` and `.`. It counts for its operation: `stop/7` and \
         `snapshot/7` are two commands.\n\n\
         ```text\n\
         req ─► accepted (stored) ─► executing (stored) ─► successful | failed\n\
         \u{20}  ├─► rejected            ├─► expired, when its time is over before it starts\n\
         \u{20}  └─► expired             └─► rejected, when the clock was not set in time\n\
         ```\n\n\
         - Publish `req` retained, so that a box that is away finds it when it comes back; clear it (empty payload) once a \
         terminal status is there.\n\
         - A known command is answered again with its present status and never run twice. The box remembers the last \
         {} finished commands, and apart from them {} rejected ones, for {} days by a clock that a time source vouches for; a \
         request that stays retained longer needs `expires_at`.\n\
         - `stop` ends a pipeline and forgets it. One that the box's configuration file declares stays listed as stopped, over restarts \
         too, until somebody resumes it, deploys it again or edits its section. What `deploy` puts in the place of such a pipeline holds \
         over restarts as well, until its section is edited.\n\
         - One command runs at a time, in the order in which they were accepted. A runtime that is away is waited for up \
         to {} s, and one that is at it (it may load models first) up to {} s. Where no answer comes in that time, the box asks for another {} s \
         whether it was done after all. Then the command fails with the reason, and the next one gets its turn. What the runtime refuses \
         fails at once.\n\
         - A restart resumes what was executing: all three operations may be repeated without harm, and a deployment that is \
         there already as it was asked for is left as it is. Where `expires_at` has passed meanwhile, or the clock is not set, \
         the command fails instead.\n\
         - `rejected` is an end like the others: the command is not carried out later, ask again under another id. One too many \
         ({} may be open) is rejected. What is not understood (malformed, larger than {} KiB, an operation the box does not \
         have) is rejected too and not remembered: the corrected request may have the same id. That status is cleared when its request \
         is, after {} days, and when {} later ones were refused like it.\n\
         - Answers that need no storing leave a few at a time. Where more than {} requests wait for one, or {} rejections are \
         remembered, the rest stay unanswered until they come again with the next session; clear what is done.\n\
         - While the box's clock is not set, a request with `expires_at` waits, and what follows waits behind it. Where the clock \
         is still not set {} minutes after the agent's start, it is rejected: nobody could tell whether its time is over.\n\
         - A retained request of more than about 1 MiB ends every session. After three of them the box takes no commands for \
         an hour, so that events get out; `svc/agent/health` is `degraded` then and says which topic to clear.\n",
        crate::command::LEDGER_ENTRIES,
        crate::command::REJECTED_ENTRIES,
        crate::command::LEDGER_DAYS,
        Deadlines::USUAL.away.as_secs(),
        Deadlines::USUAL.slow_answer.as_secs(),
        Deadlines::USUAL.aftermath.as_secs(),
        crate::command::MAX_OPEN,
        MAX_PAYLOAD >> 10,
        crate::command::LEDGER_DAYS,
        crate::command::MAX_STANDING,
        crate::command::MAX_PENDING,
        crate::command::REJECTED_ENTRIES,
        crate::command::CLOCK_PATIENCE.as_secs() / 60,
    )
}

/// Example names; they are valid by inspection, and the tests below use every one of them.
fn names() -> (Topics, SiteId, BoxId, SourceId, PipelineId, CommandId) {
    fn ok<T, E: std::fmt::Debug>(name: Result<T, E>) -> T {
        name.expect("the names of the example are valid")
    }
    let (site, box_id) = (ok(SiteId::new("north")), ok(BoxId::new("box-7")));
    (
        Topics::new(&site, &box_id),
        site,
        box_id,
        ok(SourceId::new("gate")),
        ok(PipelineId::new("gate-people")),
        ok(CommandId::new("7f3a")),
    )
}

const NOW: Wall = Wall {
    unix_ms: 1_798_761_600_000,
    quality: TimeQuality::Synced,
};
const BOOT: &str = "01KDVDNA000000000000000001";

/// An event with every member that a rule can set.
pub(crate) fn example_event() -> Event {
    let (_, _, _, source, pipeline, _) = names();
    Event {
        schema: EVENT_SCHEMA,
        id: EventId(ulid::Ulid::from_parts(1_798_761_600_000, 42)),
        seq: EventSeq(1207),
        boot_id: BOOT.to_owned(),
        mono_ms: 86_412,
        at: NOW,
        phase: Phase::New,
        source: Some(source),
        pipeline: Some(pipeline),
        severity: Severity::Warning,
        body: EventBody::Rule(Box::new(RuleEvent {
            rule: "entering".to_owned(),
            condition: "crosses".to_owned(),
            reason: "a person crossed the line door inwards".to_owned(),
            label: Some("person".to_owned()),
            tracks: vec![TrackId(17)],
            zone: Some("yard".to_owned()),
            line: Some("door".to_owned()),
            direction: Some("in".to_owned()),
            number: Some(3.0),
            dwell_s: Some(4.2),
            score: Some(0.91),
            bbox: Some([0.41, 0.22, 0.48, 0.61]),
            frame: 2604,
            pts_s: 104.16,
            held_back: 2,
        })),
        decision: Decision {
            verdict: Verdict::Act,
            confidence: 0.93,
            reason: "0.93 is at or above the gate to act (0.90)".to_owned(),
        },
        evidence: vec![Evidence {
            source: "detector_score".to_owned(),
            confidence: 0.91,
            weight: 0.5,
            note: "best score of the track".to_owned(),
        }],
        media: vec![Media {
            id: "01KDVDNA0000000000000001AB".to_owned(),
            kind: MediaKind::Clean,
            content_type: "image/jpeg".to_owned(),
            bytes: 81_022,
            sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        }],
        hash: "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752".to_owned(),
    }
}

/// A record with a kind that nobody here knows.
fn example_newer_record() -> NewerRecord {
    let event = Event {
        evidence: vec![],
        media: vec![],
        ..example_event()
    };
    let mut record = json(&event);
    record["body"] = serde_json::json!({ "kind": "door_forced", "door": "north" });
    NewerRecord::read(&record.to_string()).expect("the record of the example is one")
}

fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

const SCHEMA_ROW: (&str, &str) = ("schema", "version of the payload");
const TS_ROW: (&str, &str) = ("ts", "UTC milliseconds since 1970");
const TS_QUALITY_ROW: (&str, &str) = (
    "ts_quality",
    "`synced`, `estimated` (the clock runs free) or `unsynced` (the clock was never set)",
);

fn sections() -> Vec<Section> {
    let mut all = presence_sections();
    all.extend(event_sections());
    all.extend(measurement_sections());
    all.extend(command_sections());
    all
}

fn presence_sections() -> Vec<Section> {
    let (topics, site, box_id, source, _, _) = names();
    let alarm_event = EventId(ulid::Ulid::from_parts(1_798_761_600_000, 43));
    vec![
        Section {
            title: "Whether the box is there",
            topic: topics.state(),
            how: "retained, QoS 1, last will",
            about: "`online` after every connect, `stopped` when the agent is switched off, `offline` when it is gone without a \
                    word (the last will). A will may be delivered late: ignore an `offline` whose `session` is smaller than one \
                    you have seen. The box overwrites a stale one itself.",
            example: json(&StateMessage {
                schema: SCHEMA,
                s: Presence::Online,
                boot_id: BOOT.to_owned(),
                session: 1_798_761_600_000_001,
                seq0: 1208,
                ts: NOW.unix_ms,
                ts_quality: NOW.quality,
            }),
            members: &[
                SCHEMA_ROW,
                ("s", "`online`, `stopped` or `offline`"),
                ("boot_id", "identity of the agent's run"),
                (
                    "session",
                    "number of the session with the broker; rises for ever, also over a lost state folder where the clock is set",
                ),
                (
                    "seq0",
                    "first `seq` that was not in the outbox yet when the session began",
                ),
                TS_ROW,
                TS_QUALITY_ROW,
            ],
        },
        Section {
            title: "What the box is",
            topic: topics.birth(),
            how: "retained, QoS 1",
            about: "Written after every connect and when the sources change.",
            example: json(&BirthMessage {
                schema: SCHEMA,
                site,
                r#box: box_id,
                agent_version: "0.1.0".to_owned(),
                runtime_version: Some("0.1.0".to_owned()),
                boot_id: BOOT.to_owned(),
                session: 1_798_761_600_000_001,
                cams: vec![source.clone()],
                operations: OperationName::ALL.map(OperationName::as_str).to_vec(),
                ts: NOW.unix_ms,
                ts_quality: NOW.quality,
            }),
            members: &[
                SCHEMA_ROW,
                ("site", "site of the box"),
                ("box", "name of the box"),
                ("agent_version", "version of the agent"),
                (
                    "runtime_version",
                    "version of the runtime; absent until it answered",
                ),
                ("boot_id", "identity of the agent's run"),
                ("session", "number of the session with the broker"),
                ("cams", "names of the sources"),
                ("operations", "commands on offer"),
                TS_ROW,
                TS_QUALITY_ROW,
            ],
        },
        Section {
            title: "Health of the two services",
            topic: topics.health("runtime"),
            how: "retained, QoS 1; also `svc/agent/health`",
            about: "Written when it changes.",
            example: json(&HealthMessage {
                schema: SCHEMA,
                s: ServiceState::Degraded,
                why: vec!["source gate is lost: connection refused".to_owned()],
                pid: Some(812),
                boot_id: Some(BOOT.to_owned()),
            }),
            members: &[
                SCHEMA_ROW,
                ("s", "`up`, `degraded` or `down` (does not answer)"),
                ("why", "one sentence for each thing that is wrong"),
                ("pid", "process id, where known"),
                ("boot_id", "identity of the service's run, where known"),
            ],
        },
        Section {
            title: "State of a source",
            topic: topics.source_state(&source),
            how: "retained, QoS 1",
            about: "Written when it changes; `unknown` while the runtime does not answer. An empty payload: the source is gone.",
            example: json(&SourceStateMessage {
                schema: SCHEMA,
                s: "lost",
                blind: Some(watchkeeper_contract::source::Blindness::Frozen),
                cause: Some(LossCause::Refused),
                why: Some("the camera refused the connection".to_owned()),
                since: NOW.unix_ms,
            }),
            members: &[
                SCHEMA_ROW,
                (
                    "s",
                    "`connecting`, `live`, `lost`, `ended`, `failed`, `idle`, or `unknown` while the runtime does not answer",
                ),
                ("blind", "with `live`: `frozen` or `black` pictures come"),
                (
                    "cause",
                    "with `lost` and `failed`: `refused`, `unreachable`, `timeout`, `authentication`, `untrusted`, \
                           `not_found`, \
                           `permission`, `codec`, `no_keyframe`, `stalled`, `end_of_stream` or `other`",
                ),
                ("why", "with `lost`, `failed` and `unknown`: one sentence"),
                ("since", "UTC milliseconds since when"),
            ],
        },
        Section {
            title: "Alarm: a source is out",
            topic: topics.outage_alarm(&source),
            how: "retained, QoS 1",
            about: "There while the outage lasts; an empty payload clears it. The same outage is told as an event too. Where the record \
                    of its end is lost, it is cleared once the source was well for a minute.",
            example: json(&AlarmMessage {
                schema: SCHEMA,
                severity: Severity::Warning,
                text: "the camera refused the connection".to_owned(),
                cause: Some(LossCause::Refused),
                event: alarm_event,
                ts: NOW.unix_ms,
            }),
            members: &[
                SCHEMA_ROW,
                ("severity", "`info`, `warning` or `critical`"),
                ("text", "one sentence"),
                (
                    "cause",
                    "as in the state of a source; absent when frames come but show nothing",
                ),
                ("event", "`id` of the event that tells of it"),
                ("ts", "UTC milliseconds at which it began"),
            ],
        },
        Section {
            title: "A command on offer",
            topic: topics.capability(OperationName::Snapshot),
            how: "retained, QoS 1",
            about: "One topic for each operation.",
            example: json(&CapabilityMessage::of(OperationName::Snapshot)),
            members: &[
                SCHEMA_ROW,
                ("op", "the operation"),
                ("max_bytes", "largest request in bytes"),
            ],
        },
    ]
}

fn event_sections() -> Vec<Section> {
    let (topics, _, _, source, _, _) = names();
    let event = example_event();
    let mut message = EventMessage::of(&event);
    // The example shows every member once, also those that belong to other kinds.
    message.cause = Some(LossCause::Refused);
    message.lasted_s = Some(12.5);
    message.from = Some("journal");
    message.count = Some(4);
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
            about: "The last level is the kind: `appears`, `enters`, `leaves`, `stays`, `crosses`, `count`, `value` (what the rule \
                    waits for), `source_outage`, `pipeline_held` or `loss`. The example shows every member at once; an absent member does not apply.",
            example,
            members: &[
                ("schema", "version of the event"),
                (
                    "id",
                    "identity over the event's life: `new`, `update` and `end` share it (ULID)",
                ),
                (
                    "seq",
                    "number in the box's journal: use it to tell repetitions and holes",
                ),
                ("boot_id", "run of the runtime that wrote it"),
                ("mono_ms", "milliseconds since that run began; monotonic"),
                TS_ROW,
                TS_QUALITY_ROW,
                ("cam", "source"),
                ("pipeline", "pipeline"),
                ("kind", "last level of the topic"),
                ("phase", "`new`, `update` or `end`"),
                ("severity", "`info`, `warning` or `critical`"),
                (
                    "reason",
                    "one sentence: what happened and which bound was passed",
                ),
                ("rule", "name of the rule"),
                ("label", "class of the object"),
                ("track_ids", "tracks it is about"),
                ("zone", "zone it is about"),
                ("line", "line it is about"),
                ("direction", "`in` or `out`, for crossings"),
                ("number", "number that was compared"),
                ("dwell_s", "seconds in the zone so far, or in all"),
                ("score", "best score of the object so far, 0 to 1"),
                (
                    "box",
                    "box of the object in 0 to 1 of the picture: left, top, right, bottom",
                ),
                ("frame", "number of the frame in its source, from 1"),
                ("pts_s", "presentation time of that frame, in seconds"),
                (
                    "held_back",
                    "events that the cool-down held back since the last one",
                ),
                (
                    "cause",
                    "`source_outage`: why; absent when frames come but show nothing",
                ),
                ("lasted_s", "`source_outage`: seconds it lasted, at the end"),
                ("from", "`loss`: which queue or store"),
                ("count", "`loss`: how many entries"),
                (
                    "decision",
                    "what the box decided (`verdict`: `escalate`, `review`, `record`, `act`), its weighted `confidence` and the `reason`",
                ),
                (
                    "evidence",
                    "what the decision rests on; left out when the message would be too large",
                ),
                (
                    "media",
                    "pictures that were kept: on the box `watchkeeper media ID -o FILE`, or `GET /v1/media/{id}` (docs/api.md)",
                ),
                (
                    "hash",
                    "SHA-256 over the journal record and its predecessor's",
                ),
                (
                    "late",
                    "`true` when it waited since before the present session",
                ),
            ],
        },
        Section {
            title: "Events of a newer runtime",
            topic: topics.event(Some(&source), "door_forced"),
            how: "QoS 1 through the outbox; `ev/<kind>` without `cam/…` where no source is named",
            about: "While a box is updated, its runtime may have words that its agent does not know. Such an event is told all the same: \
                    `record` is what the runtime wrote (as in `GET /v1/events`, docs/api.md), and of the rest there is what the agent understands.",
            example: json(&NewerEventMessage::of(&example_newer_record())),
            members: &[
                SCHEMA_ROW,
                ("id", "identity over the event's life"),
                ("seq", "number in the box's journal, as of any other event"),
                TS_ROW,
                ("cam", "source; absent where none is named"),
                (
                    "kind",
                    "last level of the topic; `other` where the kind can't be one",
                ),
                (
                    "phase",
                    "`new`, `update` or `end`; absent where it is another",
                ),
                (
                    "severity",
                    "`info`, `warning` or `critical`; absent where it is another",
                ),
                ("record", "the record, to the byte; here shortened"),
            ],
        },
        Section {
            title: "A hole",
            topic: topics.event(None, "loss"),
            how: "QoS 1 through the outbox",
            about: "Something that was promised could not be kept. Losses that the runtime notices come as ordinary events on the \
                    same topic (they have a `seq` of their own).",
            example: json(&LossMessage::of(OutboxId(1_798_761_605_310), &loss, NOW)),
            members: &[
                SCHEMA_ROW,
                (
                    "id",
                    "identity of this record; the same when it is sent again",
                ),
                ("kind", "`loss`"),
                ("phase", "`new`"),
                ("severity", "`critical`"),
                (
                    "from",
                    "`outbox` (it was full), `journal` (records were gone before they were read), `unreadable`, or `store` (files were damaged)",
                ),
                ("count", "how many messages were lost"),
                (
                    "seqs",
                    "their journal numbers, first and last of each range; messages without a number are only counted",
                ),
                (
                    "exact",
                    "`false` when ranges were joined and cover numbers that did arrive",
                ),
                ("reason", "one sentence"),
                TS_ROW,
            ],
        },
    ]
}

fn measurement_sections() -> Vec<Section> {
    let (topics, _, _, source, pipeline, _) = names();
    vec![
        Section {
            title: "Telemetry of a source",
            topic: topics.source_frames(&source),
            how: "QoS 0, every `agent.telemetry_s` seconds",
            about: "Counters since the runtime started. `late` is `true` on one that waited since before the present session.",
            example: json(&FramesMessage {
                ts: NOW.unix_ms,
                frames: 90_210,
                dropped: 12,
                fps: 24.8,
                connects: 2,
                losses: 1,
            }),
            members: &[
                TS_ROW,
                ("frames", "frames out of the decoder"),
                (
                    "dropped",
                    "frames overwritten by a newer one before anybody took them",
                ),
                ("fps", "frames per second over the last few seconds"),
                ("connects", "successful connects"),
                ("losses", "times the source was lost"),
            ],
        },
        Section {
            title: "Counts of a pipeline",
            topic: topics.pipeline_counts(&source, &pipeline),
            how: "QoS 0, every `agent.telemetry_s` seconds",
            about: "What the pipeline has seen since it was deployed or the runtime started. `late` is `true` on one that waited since before the present session.",
            example: json(&CountsMessage {
                ts: NOW.unix_ms,
                s: "running",
                frames: 90_198,
                tracks: 311,
                lines: BTreeMap::from([(
                    "door".to_owned(),
                    LineCount {
                        r#in: 120,
                        out: 118,
                    },
                )]),
                zones: BTreeMap::from([(
                    "yard".to_owned(),
                    ZoneCount {
                        count: 96,
                        present: 2,
                    },
                )]),
                events: 238,
                discarded: 17,
            }),
            members: &[
                TS_ROW,
                ("s", "`starting`, `running`, `paused`, `ended` or `failed`"),
                ("frames", "frames processed"),
                ("tracks", "different confirmed tracks"),
                ("lines", "crossings of each line: `in` and `out`"),
                (
                    "zones",
                    "visits of each zone (`count`) and how many are in it now (`present`)",
                ),
                ("events", "events journaled"),
                ("discarded", "events too weak to journal"),
            ],
        },
        Section {
            title: "Telemetry of the agent",
            topic: topics.agent_measurements(),
            how: "QoS 0, every `agent.telemetry_s` seconds",
            about: "How much waits and what was lost. `late` is `true` on one that waited since before the present session.",
            example: json(&AgentMessage {
                ts: NOW.unix_ms,
                outbox: Stats {
                    assured: ClassStats {
                        entries: 1,
                        bytes: 0,
                        dropped: 0,
                    },
                    events: ClassStats {
                        entries: 12,
                        bytes: 9211,
                        dropped: 4,
                    },
                    in_flight: 3,
                    acked: 5301,
                },
                cursor: Some(EventSeq(1207)),
                telemetry_dropped: 0,
                open_commands: 0,
            }),
            members: &[
                TS_ROW,
                (
                    "outbox",
                    "of both classes: `entries` and `bytes` that wait, `dropped` since the start; messages `in_flight` and `acked`",
                ),
                (
                    "cursor",
                    "last journal number that is in the outbox or was sent",
                ),
                (
                    "telemetry_dropped",
                    "measurements thinned out while there was no link",
                ),
                ("open_commands", "commands that are not finished"),
            ],
        },
    ]
}

fn command_sections() -> Vec<Section> {
    let (topics, _, _, source, _, id) = names();
    let request = CommandRequest {
        operation: Operation::Snapshot { source },
        expires_at: jiff::Timestamp::from_millisecond(NOW.unix_ms).ok(),
    };
    let report = CommandReport {
        id: id.to_string(),
        status: CommandStatus::Successful {
            result: json(&example_event().media[0]),
        },
        version: 3,
    };
    let refused = CommandReport {
        id: id.to_string(),
        status: CommandStatus::Failed {
            reason: "no frame came from source \"gate\" within 10 s".to_owned(),
        },
        version: 3,
    };
    vec![
        Section {
            title: "A request",
            topic: topics.request(OperationName::Snapshot, &id),
            how: "written by the requester, retained, QoS 1",
            about: "`snapshot` takes `source`; `deploy` takes `pipeline` (a whole pipeline, as in `PUT /v1/pipelines/{id}`); `stop` \
                    takes `pipeline` (a name).",
            example: json(&request),
            members: &[
                (
                    "op",
                    "the operation; may be left out, for the topic says it",
                ),
                (
                    "source",
                    "`snapshot`: which source (`deploy` and `stop` have `pipeline` instead)",
                ),
                (
                    "expires_at",
                    "RFC 3339; after this instant it must not start any more; absent: it may always start",
                ),
            ],
        },
        Section {
            title: "Status of a command",
            topic: topics.status("snapshot", &id),
            how: "retained, QoS 1 through the outbox",
            about: "One message for each change.",
            example: json(&report),
            members: &[
                ("id", "the command"),
                (
                    "status",
                    "`accepted`, `executing`, `successful`, `failed`, `rejected` or `expired`",
                ),
                (
                    "result",
                    "with `successful`: what the operation answers (`snapshot`: the picture's id and checksum; `deploy`: \
                            `pipeline` and `state`; `stop`: `pipeline`)",
                ),
                ("version", "counts the changes of this command from 1"),
            ],
        },
        Section {
            title: "Status of a command that was not done",
            topic: topics.status("snapshot", &id),
            how: "retained, QoS 1 through the outbox; what is not understood is answered without it",
            about: "`failed` and `rejected` say why.",
            example: json(&refused),
            members: &[
                ("id", "the command"),
                ("status", "`failed` (tried) or `rejected` (not tried)"),
                ("reason", "one sentence: what was wrong"),
                ("version", "counts the changes of this command from 1"),
            ],
        },
    ]
}

/// Members of an example that have no line, and lines that have no member.
#[cfg(test)]
fn mismatch(section: &Section) -> (Vec<String>, Vec<String>) {
    let have: std::collections::BTreeSet<String> = section
        .example
        .as_object()
        .map(|o| o.keys().cloned().collect())
        .unwrap_or_default();
    let told: std::collections::BTreeSet<String> = section
        .members
        .iter()
        .map(|(n, _)| (*n).to_owned())
        .collect();
    (
        have.difference(&told).cloned().collect(),
        told.difference(&have).cloned().collect(),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_member_of_every_message_is_explained() {
        for section in sections() {
            assert_eq!(mismatch(&section), (vec![], vec![]), "{}", section.title);
        }
    }

    #[test]
    fn every_example_is_printed_as_the_json_it_is() {
        for section in sections() {
            let printed: Value =
                serde_json::from_str(&pretty(&section.example, &[], 0)).expect("json");
            assert_eq!(printed, section.example, "{}", section.title);
        }
    }

    #[test]
    fn the_document_in_the_repository_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/mqtt.md");
        let want = render();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("docs");
            std::fs::write(&path, &want).expect("write docs/mqtt.md");
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == want,
            "docs/mqtt.md is out of date; UPDATE_DOCS=1 cargo test -p watchkeeper-agent rewrites it"
        );
    }
}
