//! Sections on retained topics: state, birth, health, sources, alarms, capabilities.

use watchkeeper_config::CommandAccess;
use watchkeeper_contract::id::EventId;
use watchkeeper_contract::rule::Severity;
use watchkeeper_contract::source::LossCause;

use super::Section;
use super::names::{BOOT, NOW, SCHEMA_ROW, TS_QUALITY_ROW, TS_ROW, json, names};
use watchkeeper_agent::fleet::command::OperationName;
use watchkeeper_agent::fleet::mqtt::payload::{
    AlarmMessage, BirthMessage, CapabilityMessage, HealthMessage, Presence, SCHEMA, ServiceState,
    SourceStateMessage, StateMessage,
};

pub(super) fn sections() -> Vec<Section> {
    let (topics, site, box_id, source, _, _) = names();
    let alarm_event = EventId(ulid::Ulid::from_parts(1_798_761_600_000, 43));
    vec![
        Section {
            title: "State of the box",
            topic: topics.state(),
            how: "retained, QoS 1, last will",
            about: "`online` after every connect, `stopped` when the agent is switched off, `offline` as the last \
                    will when the session breaks. A will may be delivered late: ignore an `offline` whose `session` is \
                    smaller than one you have received. The box overwrites a stale one.",
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
                    "number of the session with the broker; always rises, with a set clock even after the state \
                     folder was lost",
                ),
                (
                    "seq0",
                    "first `seq` that was not in the outbox when the session started",
                ),
                TS_ROW,
                TS_QUALITY_ROW,
            ],
        },
        Section {
            title: "Birth certificate",
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
                commands: CommandAccess::All,
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
                (
                    "commands",
                    "`off`, `read` or `all`: what the box accepts (`mqtt.commands`)",
                ),
                ("operations", "available commands"),
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
                ("why", "one sentence for each problem"),
                ("pid", "process id, if known"),
                ("boot_id", "identity of the service's run, if known"),
            ],
        },
        Section {
            title: "State of a source",
            topic: topics.source_state(&source),
            how: "retained, QoS 1",
            about: "Written when it changes; `unknown` while the runtime does not answer. An empty payload: \
                    the source was removed.",
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
                    "`connecting`, `live`, `lost`, `ended`, `failed`, `idle`, or `unknown` while the runtime does \
                     not answer",
                ),
                (
                    "blind",
                    "with `live`: the pictures are `frozen` or `black`, or the camera is `moved`, `covered` or `blurred`",
                ),
                (
                    "cause",
                    "with `lost` and `failed`: `refused`, `unreachable`, `timeout`, `authentication`, `untrusted`, \
                           `not_found`, \
                           `permission`, `codec`, `no_keyframe`, `stalled`, `end_of_stream` or `other`",
                ),
                ("why", "with `lost`, `failed` and `unknown`: one sentence"),
                ("since", "start of this state, in UTC milliseconds"),
            ],
        },
        Section {
            title: "Alarm: outage of a source",
            topic: topics.outage_alarm(&source),
            how: "retained, QoS 1",
            about: "Retained during the outage; an empty payload clears it. A message has `cause` or `blind`, the \
                    example both. An event reports the outage too. If the \
                    record of its end is lost, the alarm is cleared after the source was live for a minute.",
            example: json(&AlarmMessage {
                schema: SCHEMA,
                severity: Severity::Warning,
                text: "the camera refused the connection".to_owned(),
                cause: Some(LossCause::Refused),
                blind: Some(watchkeeper_contract::source::Blindness::Frozen),
                event: Some(alarm_event),
                ts: NOW.unix_ms,
            }),
            members: &[
                SCHEMA_ROW,
                ("severity", "`info`, `warning` or `critical`"),
                ("text", "one sentence"),
                ("cause", "why no frame arrives, as in the state of a source"),
                (
                    "blind",
                    "what is wrong with frames that arrive, as in the state of a source",
                ),
                ("event", "`id` of the event of the outage"),
                ("ts", "start of the outage, in UTC milliseconds"),
            ],
        },
        Section {
            title: "Alarm: events can't be stored",
            topic: topics.storage_alarm(),
            how: "retained, QoS 1",
            about: "Retained while the runtime's disk refuses; an empty payload clears it.",
            example: json(&AlarmMessage {
                schema: SCHEMA,
                severity: Severity::Critical,
                text: "events can't be stored since 2026-12-31T23:59:00Z: the disk is full"
                    .to_owned(),
                cause: None,
                blind: None,
                event: None,
                ts: NOW.unix_ms,
            }),
            members: &[
                SCHEMA_ROW,
                ("severity", "`critical`"),
                ("text", "one sentence with the remedy"),
                ("ts", "time of the first refused write, in UTC milliseconds"),
            ],
        },
        Section {
            title: "Available command",
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
