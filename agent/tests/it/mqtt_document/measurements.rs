//! Sections on telemetry: frames, counts, the board, the agent.

use std::collections::BTreeMap;

use watchkeeper_contract::board::BoardThrottling;
use watchkeeper_contract::id::{ChannelId, EventSeq};
use watchkeeper_contract::model::{BackendChange, BackendChangeState};
use watchkeeper_contract::pipeline::{LineCount, RateLimit};

use super::Section;
use super::names::{NOW, TS_ROW, json, names};
use watchkeeper_agent::fleet::mqtt::payload::{
    AgentMessage, BoardMessage, ChannelCounts, CountsMessage, FramesMessage, SinkCounts, ZoneCount,
};
use watchkeeper_agent::fleet::outbox::{ClassStats, Stats};

pub(super) fn sections() -> Vec<Section> {
    let (topics, _, _, source, pipeline, _) = names();
    vec![
        Section {
            title: "Telemetry of a source",
            topic: topics.source_frames(&source),
            how: "QoS 0, every `agent.telemetry_s` seconds",
            about: "Counters since the runtime started. `late` is `true` on a message queued before the current session.",
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
                ("frames", "decoded frames"),
                (
                    "dropped",
                    "frames replaced by newer ones before any pipeline read them",
                ),
                ("fps", "frames per second over the last few seconds"),
                ("connects", "successful connects"),
                ("losses", "lost connections"),
            ],
        },
        Section {
            title: "Counts of a pipeline",
            topic: topics.pipeline_counts(&source, &pipeline),
            how: "QoS 0, every `agent.telemetry_s` seconds",
            about: "`frames` and `discarded` count since the deployment or the start of the runtime, the others since `counting_since`. `late` is `true` on a message queued before the current session.",
            example: json(&CountsMessage {
                ts: NOW.unix_ms,
                s: "running",
                limited_by: Some(RateLimit::Capacity),
                counting_since: Some(NOW),
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
                detector: Some("yolox-nano on rten".to_owned()),
                backend_changes: vec![BackendChange {
                    model: "yolox-nano".to_owned(),
                    from: "rten".to_owned(),
                    to: "ort".to_owned(),
                    state: BackendChangeState::Comparing {
                        agreed: 12,
                        wanted: 20,
                        needs_objects: false,
                    },
                }],
            }),
            members: &[
                TS_ROW,
                (
                    "s",
                    "`starting`, `running`, `paused`, `ended`, `stopped` or `failed`",
                ),
                (
                    "limited_by",
                    "why a running pipeline looks at fewer frames than it wants: `camera` delivers \
                     none, `disk` has no room for events, `heat`, or `capacity` (the model or the \
                     processor is busy); absent if it does not",
                ),
                (
                    "counting_since",
                    "when tracks, lines, zones and events began to be counted; absent before the first frame",
                ),
                ("frames", "frames processed"),
                ("tracks", "confirmed tracks"),
                ("lines", "crossings of each line: `in` and `out`"),
                (
                    "zones",
                    "visits of each zone (`count`) and those not over (`present`)",
                ),
                ("events", "recorded events"),
                (
                    "discarded",
                    "events with the verdict `discard`, not recorded",
                ),
                ("detector", "models, and the back ends that run them now"),
                (
                    "backend_changes",
                    "latest change of each model's back end: `building` with the `share` done, `comparing` with the \
                     frames that `agreed`, `agreed`, `swapped`, `refused`, `failed`, `reverted` or `cancelled`",
                ),
            ],
        },
        Section {
            title: "Telemetry of the board",
            topic: topics.board_measurements(),
            how: "QoS 0, every `agent.telemetry_s` seconds",
            about: "What the sensors of the board read; what the board does not show is absent. `late` is `true` on a message queued before the current session.",
            example: json(&BoardMessage {
                ts: NOW.unix_ms,
                celsius: BTreeMap::from([("cpu-thermal".to_owned(), 51.2)]),
                throttled: BoardThrottling {
                    thermal: Some(false),
                    over_current: Some(false),
                    under_voltage: Some(false),
                    had_under_voltage: Some(false),
                },
                watts: Some(6.6),
                power_mode: Some("25W".to_owned()),
                rpm: BTreeMap::from([("pwmfan".to_owned(), 1843)]),
                cpu: Some(31.5),
                gpu: Some(41.2),
                available_bytes: Some(5_335_449_600),
                life_used: BTreeMap::from([("mmcblk0".to_owned(), 10.0)]),
            }),
            members: &[
                TS_ROW,
                ("celsius", "temperature of each thermal zone that answers"),
                (
                    "throttled",
                    "what slows the board down: `thermal`, `over_current` and `under_voltage` now, \
                     `had_under_voltage` at any time since the board started",
                ),
                ("watts", "power of the whole board"),
                ("power_mode", "name of the power mode of a Jetson"),
                ("rpm", "speed of each fan with a tachometer"),
                ("cpu", "load of the processor in percent"),
                ("gpu", "load of the graphics processor in percent"),
                (
                    "available_bytes",
                    "memory that programs can still get without swapping",
                ),
                (
                    "life_used",
                    "life time of each eMMC that is used, in percent",
                ),
            ],
        },
        Section {
            title: "Telemetry of the agent",
            topic: topics.agent_measurements(),
            how: "QoS 0, every `agent.telemetry_s` seconds",
            about: "Queue lengths and losses. `late` is `true` on a message queued before the current session.",
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
                sinks: Some(SinkCounts {
                    waiting: 2,
                    done: 88,
                    refused: 0,
                    failed: 1,
                }),
                channels: ChannelId::new("security")
                    .into_iter()
                    .map(|id| ChannelCounts {
                        id,
                        told: 17,
                        given_up: 0,
                        trouble: None,
                    })
                    .collect(),
            }),
            members: &[
                TS_ROW,
                (
                    "outbox",
                    "of both classes: waiting `entries` and `bytes`, and `dropped` since the start; messages `in_flight` \
                     and `acked`",
                ),
                (
                    "cursor",
                    "last journal number that is in the outbox or was published",
                ),
                (
                    "telemetry_dropped",
                    "measurements dropped while the broker was unreachable",
                ),
                ("open_commands", "unfinished commands"),
                (
                    "sinks",
                    "effects of workflows: `waiting`, `done` and `refused` (not spooled) since the start of the runtime, \
                     `failed` (given up) in all; absent while the runtime does not answer",
                ),
                (
                    "channels",
                    "each channel: events `told` (delivered) and `given_up` since the start of the agent, and its \
                     `trouble` in one sentence while deliveries fail; absent without channels",
                ),
            ],
        },
    ]
}
