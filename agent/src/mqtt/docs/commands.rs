//! Requests, their status, and the life of a command.

use watchkeeper_contract::command::{CommandReport, CommandRequest, CommandStatus, Operation};

use super::Section;
use super::names::{NOW, example_event, json, names};
use crate::mqtt::payload::MAX_PAYLOAD;
use crate::mqtt::topics::{MAX_COMMAND_ID_LEN, OperationName};

pub(super) fn sections() -> Vec<Section> {
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
            how: "retained, QoS 1 through the outbox; `rejected` is answered once and not kept in the outbox",
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

pub(super) fn note() -> String {
    format!(
        "\n## The life of a command\n\n\
         `req` is written by the requester, `st` by the box, so that an ACL can tell them apart. The id is chosen by the \
         requester: 1 to {MAX_COMMAND_ID_LEN} of letters, digits, `-`, `_` and `.`.\n\n\
         ```text\n\
         req ─► accepted (stored) ─► executing (stored) ─► successful | failed\n\
         \u{20}  └─► rejected            └─► expired, when its time is over before it starts\n\
         ```\n\n\
         - Publish `req` retained, so that a box that is away finds it when it comes back; clear it (empty payload) once a \
         terminal status is there.\n\
         - A known id is answered again with its present status and never run twice. The box remembers the last \
         {} finished commands for {} days; a request that stays retained longer needs `expires_at`.\n\
         - `stop` ends a pipeline and forgets it. One that the box's configuration file declares stays listed as stopped, over restarts \
         too, until somebody resumes it, deploys it again or edits its section.\n\
         - One command runs at a time. A runtime that is away or silent is waited for up to {} s; then the command fails with the \
         reason, and the next one gets its turn. What the runtime refuses fails at once.\n\
         - A restart resumes what was executing: all three operations may be repeated without harm. Where `expires_at` has \
         passed meanwhile, the command fails instead.\n\
         - A request that is malformed, larger than {} KiB, unknown, or one too many ({} may be open) is `rejected` with the \
         reason and not remembered.\n\
         - While the box's clock is not set, a request with `expires_at` is rejected: nobody could tell whether its time is over.\n",
        crate::command::LEDGER_ENTRIES,
        crate::command::LEDGER_DAYS,
        crate::command::PATIENCE.as_secs(),
        MAX_PAYLOAD >> 10,
        crate::command::MAX_OPEN,
    )
}
