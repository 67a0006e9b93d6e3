//! Sections on requests, their status, and the life cycle of a command.

use watchkeeper_contract::command::{CommandReport, CommandRequest, CommandStatus, Operation};

use super::Section;
use super::names::{NOW, example_event, json, names};
use watchkeeper_agent::fleet::command::{MAX_COMMAND_ID_LEN, OperationName};
use watchkeeper_agent::fleet::mqtt::payload::MAX_PAYLOAD;
use watchkeeper_client::Deadlines;

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
            title: "Request",
            topic: topics.request(OperationName::Snapshot, &id),
            how: "written by the requester, retained, QoS 1",
            about: "`snapshot` takes `source`; `deploy` takes `pipeline` (a whole pipeline, as in `PUT /v1/pipelines/{id}`); `stop` \
                    takes `pipeline` (a name); `review` takes `event`, `answer` and, if wanted, \
                    `label`, `note` and `by`.",
            example: json(&request),
            members: &[
                ("op", "the operation; optional, because the topic names it"),
                (
                    "source",
                    "`snapshot`: the source (`deploy` and `stop` have `pipeline` instead, `review` \
                     has `event` and `answer`)",
                ),
                (
                    "expires_at",
                    "RFC 3339; the command does not start after this time; absent: no limit",
                ),
            ],
        },
        Section {
            title: "Status of a command",
            topic: topics.status("snapshot", id.as_str()),
            how: "retained, QoS 1 through the outbox",
            about: "One message for each change.",
            example: json(&report),
            members: &[
                ("id", "id of the command"),
                (
                    "status",
                    "`accepted`, `executing`, `successful`, `failed`, `rejected` or `expired`",
                ),
                (
                    "result",
                    "with `successful`: result of the operation (`snapshot`: the picture's id and checksum; `deploy`: \
                            `pipeline` and `state`; `stop`: `pipeline`)",
                ),
                ("version", "counts the changes of this command from 1"),
            ],
        },
        Section {
            title: "Status of a failed or rejected command",
            topic: topics.status("snapshot", id.as_str()),
            how: "retained, QoS 1 through the outbox; for an invalid request not through the outbox",
            about: "`failed` and `rejected` have a `reason`.",
            example: json(&refused),
            members: &[
                ("id", "id of the command"),
                ("status", "`failed` (executed) or `rejected` (not executed)"),
                ("reason", "the reason in one sentence"),
                ("version", "counts the changes of this command from 1"),
            ],
        },
    ]
}

pub(super) fn note() -> String {
    format!(
        "\n## The life of a command\n\n\
         The requester writes `req`, the box writes `st`, so that an ACL can separate them. The requester chooses the id: 1 \
         to {MAX_COMMAND_ID_LEN} of letters, digits, `-`, `_` and `.`. Ids belong to an operation: `stop/7` and `snapshot/7` \
         are two commands.\n\n\
         ```text\n\
         req ─► accepted (stored) ─► executing (stored) ─► successful | failed\n\
         \u{20}  ├─► rejected            ├─► expired, if its time is over before it starts\n\
         \u{20}  └─► expired             └─► rejected, if the clock was not set in time\n\
         ```\n\n\
         - Publish `req` retained, so that a box that is offline receives it later. Clear it (empty payload) after a \
         terminal status: the box then clears `st` too, if it is connected. Otherwise `st` stays until the box forgets the \
         command.\n\
         - A request of more than 256 KiB is read up to that size, dropped and `rejected`, as is one that `mqtt.commands` \
         does not allow. Neither disturbs another request. With `mqtt.commands = \"off\"` the box subscribes to no request.\n\
         - A known command is answered with its current status and never executed twice. The box keeps the last \
         {} finished commands and, separately, {} rejected ones, for {} days of a synchronised clock. A \
         request that stays retained for longer needs `expires_at`.\n\
         - `review` answers an event: `event` is the journal number of one of its records, `answer` is `approve`, `reject` or \
         `correct` (with `label`, the class that the object really has), `note` and `by` are optional. The answer becomes a \
         record of the event, in phase `assessed`.\n\
         - `stop` ends and deletes a pipeline. A pipeline of the box's configuration file stays listed as stopped, after a \
         restart too, until a user resumes it, deploys it again or edits its section. What `deploy` puts in its place \
         also stays after a restart, until its section is edited.\n\
         - One command runs at a time, in the order of acceptance. The box waits up to {} s for an unreachable runtime, \
         and up to {} s for one that executes (it may load models first). If a deployment or a stop has no answer by then, \
         the box checks for another {} s whether it was done after all. Then the command fails with the reason, and the \
         next one starts. A command that the runtime refuses fails at once. A snapshot is not checked: a failed one may \
         have been taken; request another.\n\
         - A restart resumes the executing command: all operations can be repeated: an identical deployment stays unchanged, and an \
         answer is recorded once. If `expires_at` has passed meanwhile, or the clock is not set, \
         the command fails.\n\
         - `rejected` is final: the command is not executed later; request it under another id. A command is rejected \
         if {} are open. An invalid request (malformed, larger than {} KiB, unknown operation or member, invalid id) is \
         rejected too, but not remembered: the corrected request may have the same id.\n\
         - Answers that are not stored are sent a few at a time. If more than {} requests wait for one, or {} rejections are \
         remembered, other requests stay unanswered until they come again in the next session; clear finished ones.\n\
         - While the box's clock is not set, a request with `expires_at` waits, and later ones wait behind it. If the clock \
         is still not set {} minutes after the agent's start, the request is rejected, because its expiry can't be checked. \
         In these minutes a clock that only runs free counts as not set, because it may be days behind; what is over by it \
         is expired.\n",
        watchkeeper_agent::fleet::command::LEDGER_ENTRIES,
        watchkeeper_agent::fleet::command::REJECTED_ENTRIES,
        watchkeeper_agent::fleet::command::LEDGER_DAYS,
        Deadlines::USUAL.away.as_secs(),
        Deadlines::USUAL.slow_answer.as_secs(),
        Deadlines::USUAL.aftermath.as_secs(),
        watchkeeper_agent::fleet::command::MAX_OPEN,
        MAX_PAYLOAD >> 10,
        watchkeeper_agent::fleet::command::MAX_PENDING,
        watchkeeper_agent::fleet::command::REJECTED_ENTRIES,
        watchkeeper_agent::fleet::command::CLOCK_TIMEOUT.as_secs() / 60,
    )
}
