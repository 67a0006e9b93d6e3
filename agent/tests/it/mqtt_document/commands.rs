//! The document's section on requests, their status, and the life of a command.

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

pub(super) fn note() -> String {
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
         to {} s, and one that is at it (it may load models first) up to {} s. Where a deployment or a stop was begun and no answer comes in that time, \
         the box asks for another {} s whether it was done after all. Then the command fails with the reason, and the next one gets its \
         turn. What the runtime refuses fails at once. A snapshot is not asked after: one that failed may have been taken all the same, \
         request another.\n\
         - A restart resumes what was executing: all three operations may be repeated without harm, and a deployment that is \
         there already as it was asked for is left as it is. Where `expires_at` has passed meanwhile, or the clock is not set, \
         the command fails instead.\n\
         - `rejected` is an end like the others: the command is not carried out later, ask again under another id. One too many \
         ({} may be open) is rejected. What is not understood (malformed, larger than {} KiB, an operation the box does not \
         have) is rejected too and not remembered: the corrected request may have the same id. That status is cleared when its request \
         is while the box is connected, after {} days, and when {} later ones were refused like it.\n\
         - Answers that need no storing leave a few at a time. Where more than {} requests wait for one, or {} rejections are \
         remembered, the rest stay unanswered until they come again with the next session; clear what is done.\n\
         - While the box's clock is not set, a request with `expires_at` waits, and what follows waits behind it. Where the clock \
         is still not set {} minutes after the agent's start, it is rejected: nobody could tell whether its time is over.\n\
         - A retained request of more than about 1 MiB ends every session. After three of them the box takes no commands for \
         an hour, so that events get out; `svc/agent/health` is `degraded` then and says which topic to clear.\n",
        watchkeeper_agent::fleet::command::LEDGER_ENTRIES,
        watchkeeper_agent::fleet::command::REJECTED_ENTRIES,
        watchkeeper_agent::fleet::command::LEDGER_DAYS,
        Deadlines::USUAL.away.as_secs(),
        Deadlines::USUAL.slow_answer.as_secs(),
        Deadlines::USUAL.aftermath.as_secs(),
        watchkeeper_agent::fleet::command::MAX_OPEN,
        MAX_PAYLOAD >> 10,
        watchkeeper_agent::fleet::command::LEDGER_DAYS,
        watchkeeper_agent::fleet::command::MAX_REFUSALS,
        watchkeeper_agent::fleet::command::MAX_PENDING,
        watchkeeper_agent::fleet::command::REJECTED_ENTRIES,
        watchkeeper_agent::fleet::command::CLOCK_TIMEOUT.as_secs() / 60,
    )
}
