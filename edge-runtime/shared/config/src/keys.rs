//! Every key of the configuration, declared once.
//!
//! Invariant: a key that is not in [`KEYS`] is refused, a default in [`KEYS`] passes the key's own check, and
//! `docs/ref/configuration.md` says exactly what stands here.

use watchkeeper_contract::source::STALL_S;

use crate::permissions::{ChangeKind, ToolEffect};

/// What a key holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Any text that is not empty.
    Text,
    /// A name: 1 to 40 of `a-z`, `0-9`, `-`, `_`, beginning with a letter or digit.
    Name,
    /// What people call something: 1 to 60 characters of one line.
    DisplayName,
    /// A path; relative ones begin at the folder of the configuration file.
    Path,
    /// Text that is never printed.
    Secret,
    /// Address of a source; a credential in it is never printed.
    Address,
    /// `true` or `false`.
    Switch,
    /// A whole number in a range, both ends included.
    Integer(u64, u64),
    /// A number in a range, both ends included.
    Number(f64, f64),
    /// One of some words.
    Choice(&'static [&'static str]),
    /// Permission bits in octal, such as `"0660"`.
    Mode,
    /// A list of texts, none of them empty.
    Texts,
    /// A list of some of these words.
    Words(&'static [&'static str]),
    /// Something with a structure of its own, checked later: a table or a list.
    Structure,
    /// A path of a file, or the structure itself.
    FileOrStructure,
}

/// One key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Path; `*` stands for the name a person gives.
    pub path: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Default, as one would write it in a variable; absent when there is none.
    pub default: Option<&'static str>,
    /// Unit, empty where there is none.
    pub unit: &'static str,
    /// What it does, one or two sentences.
    pub effect: &'static str,
}

/// One section of the file, for the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Path; `*` stands for the name a person gives.
    pub path: &'static str,
    /// What it is about.
    pub effect: &'static str,
}

/// The sections, in the order of the document.
pub const SECTIONS: &[Section] = &[
    Section {
        path: "box",
        effect: "Who this box is. Both names are levels of every MQTT topic.",
    },
    Section {
        path: "runtime",
        effect: "The daemon that watches.",
    },
    Section {
        path: "runtime.inference",
        effect: "How models are run.",
    },
    Section {
        path: "sources.*",
        effect: "One section for each camera, file or demo scene; the name is the source's id. A section with a mistake \
                 is reported and left out; the other sources run. A source that no pipeline uses is `idle`: nothing is opened \
                 before somebody looks at it. What a person puts in the place of a source of the file, or its removal, holds over \
                 restarts until its section is edited.",
    },
    Section {
        path: "pipelines.*",
        effect: "One section for each workflow deployed on a source; the name is the pipeline's id. A section with a \
                 mistake is reported and left out; the other pipelines run. What a person does by hand to a pipeline of the file \
                 (`pause`, `resume`, `delete`, a deployment of the same name, the MQTT commands `stop` and `deploy`) holds over restarts \
                 until its section or the workflow in it is edited: a deleted one stays listed as stopped, a deployed one runs in its \
                 place, and its status says so. A mistake in the section, or its removal, is no edit: what was deployed goes on, and the \
                 mistake is reported. A stop is lifted by `resume` and by deploying it again too. An edited section wins, and what was \
                 deployed over it is forgotten.",
    },
    Section {
        path: "mqtt",
        effect: "The broker. Without a host nothing is published.",
    },
    Section {
        path: "agent",
        effect: "The daemon that reports.",
    },
    Section {
        path: "agent.api",
        effect: "The agent's own API ([agent-api.md](agent-api.md)): conversations in plain words, proposals, costs, notes, the trace. It is always \
                 served on a Unix socket; with `listen` over TCP too, for whoever has the token. A proposal that was made over TCP may be confirmed \
                 there, one that was made on the box only on the box.",
    },
    Section {
        path: "agent.auto_approve",
        effect: "What is done without asking, for each way in which a request comes: nothing, unless a list here names it. There is no word for everything. It holds only \
                 for what the rules read in a person's own words, as a whole, about one pipeline, and where nothing speaks against it: no warning of the engine, \
                 nothing left out, nothing that was seen when it was tried. Whatever a model of language proposed or put into other words waits for a person's yes, \
                 whatever stands here, since every model that works on a request has read names, pictures, events or notes that somebody else may have written. The proposal is shown all the same, \
                 with a word by which key it was confirmed, and the trace has each decision. The changes: `pause` (until a time or for good), `resume`, \
                 `deploy` (a new watch), `replace` (a watch becomes another one) and `stop` (a pipeline is gone).",
    },
    Section {
        path: "agent.tools",
        effect: "What the tools of a model of language may do, for each way in which a request comes: `read` (look at cameras, pipelines, events, notes), `write` (keep \
                 a note, write its plan), `propose` (put a new watch up for a person's yes) and `propose_loss` (put up the end, the pause or the replacement of one that \
                 runs). A list allows what it names and nothing else; a model is not told of tools that it may not use. There is no tool that changes what the box does: \
                 whatever is put up waits for a yes. What the rules read in a person's own words is not a tool's doing and goes on as ever.",
    },
    Section {
        path: "agent.heartbeat",
        effect: "A look every so many minutes at cameras, recent events, what could not be told and what was spent ([blueprints.md](blueprints.md)). What \
                 is worth a word is decided on the box: a camera that is out, events far above or below what that hour of the day usually has, messages \
                 that wait, a budget that is nearly spent. It is told once, over MQTT, over channels whose `min_severity` it reaches, and among the notes; where \
                 `[llm]` names a provider and the budget allows, a model is asked once to add what helps.",
    },
    Section {
        path: "agent.memory",
        effect: "How notes are found. By their words always; besides by what they mean, for which a small model of sentences may be put on the box \
                 ([models.md](../guide/models.md#sentence-embeddings-for-the-notes)). Without one, vectors made of parts of words and a table of words that mean much the same on a site \
                 take its place. `watchkeeper doctor` says which is in use.",
    },
    Section {
        path: "models",
        effect: "Where models are found.",
    },
    Section {
        path: "llm",
        effect: "A model of language. It works on what `ask` and `chat` did not understand: it puts it into words that they do, or looks at \
                 the cameras, writes a workflow, sees it on the real picture, tries it and proposes it; and, where \
                 `second_opinion` is on, it looks at the pictures of doubtful events. Without a provider none is asked, and everything else \
                 works as before. It changes nothing: what it proposes is shown with the difference to what runs, and waits for a person's yes. \
                 What was not understood goes to the provider with the names of cameras, pipelines, places and classes, with events and notes that \
                 have to do with it, and with pictures of the cameras that it is about; addresses of cameras do not. \
                 The limits hold for the agent, and apart from it for each person who uses `ask` and `chat`; when one is reached, the \
                 model is left alone and the box goes on watching.",
    },
    Section {
        path: "sinks",
        effect: "What workflows may have done outside: requests, messages, e-mails, files. Nothing is done that is not named here, and the step \
                 that wants it says which key is missing. Both daemons read this section: the runtime keeps what is to be done below \
                 `state_dir`, the agent does it, tries again with growing pauses while it fails, and gives it up in the end; \
                 `GET /v1/effects` shows what waits and `GET /v1/health` how it went. After a crash something may be done twice; a \
                 request carries an `Idempotency-Key` by which its receiver can tell.",
    },
    Section {
        path: "sinks.secrets.*",
        effect: "One for each secret that workflows use; the name is the one that a workflow has for it (`variables_storing_secrets` of an \
                 environment secrets store). Exactly one of the keys says where it is; the agent reads it each time it is used, without the \
                 white space around it. A secret is kept nowhere, and is sent only where the workflow says: to one of the `hosts`.",
    },
    Section {
        path: "channels.*",
        effect: "One for each channel by which people are told of events; rules name it in `notify` (docs/ref/rules.md), and so do requests in plain \
                 words (\"… and tell #NAME\"). The agent follows the journal for each channel by itself, so it needs no broker, a channel that \
                 does not answer holds up no other, and what happened while it was away is told when it is back, for `sinks.max_age_s`; \
                 after a crash something may be told twice, with the same `Idempotency-Key` where it is told with the same others. Told are events that begin (at most one message \
                 every two seconds; what happens faster is told together) and where the address leads needs no permission in `sinks.hosts`. A \
                 new channel begins with the events after its first start. Exactly one of the keys that begin with `url` says where it is.",
    },
];

const fn key(
    path: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    unit: &'static str,
    effect: &'static str,
) -> Key {
    Key {
        path,
        kind,
        default,
        unit,
        effect,
    }
}

/// Bytes in a mebibyte.
const MIB: u64 = 1 << 20;

/// The keys, in the order of the document.
pub const KEYS: &[Key] = &[
    key(
        "box.site",
        Kind::Name,
        Some("site"),
        "",
        "Name of the site the box stands at.",
    ),
    key(
        "box.id",
        Kind::Name,
        None,
        "",
        "Name of the box. Left out: the host name, with every other character replaced by `-`.",
    ),
    key(
        "runtime.socket",
        Kind::Path,
        Some("/run/watchkeeper/runtime.sock"),
        "",
        "Unix socket of the API. Who may open the file may use the API.",
    ),
    key(
        "runtime.socket_mode",
        Kind::Mode,
        Some("0660"),
        "octal",
        "Permission bits of the socket.",
    ),
    key(
        "runtime.state_dir",
        Kind::Path,
        Some("/var/lib/watchkeeper"),
        "",
        "Folder for the journal, pictures, deployed pipelines and the outbox. One runtime per folder.",
    ),
    key(
        "runtime.media_bytes",
        Kind::Integer(16 * MIB, 1 << 50),
        Some("2147483648"),
        "bytes",
        "Pictures kept with events; beyond it the oldest are deleted. On a nearly full disk they give way to events (docs/guide/install.md).",
    ),
    key(
        "runtime.journal_events",
        Kind::Integer(1_000, 100_000_000),
        Some("200000"),
        "records",
        "Event records kept; beyond it the oldest are dropped.",
    ),
    key(
        "runtime.journal_bytes",
        Kind::Integer(MIB, 1 << 40),
        Some("536870912"),
        "bytes",
        "Bytes of event records kept; beyond it the oldest are dropped.",
    ),
    key(
        "runtime.recording_bytes",
        Kind::Integer(64 * MIB, 1 << 50),
        Some("4294967296"),
        "bytes",
        "Annotated videos kept, of all pipelines with `record = true`; beyond it the oldest parts are deleted. A part is a quarter of \
         it at most. While less than 512 MiB of the disk are free nothing is recorded; on a nearly full disk old parts give way to events.",
    ),
    key(
        "runtime.recording_days",
        Kind::Number(0.01, 36_500.0),
        Some("30"),
        "days",
        "Age after which a part of an annotated video is deleted, while the clock shows a date that is possible.",
    ),
    key(
        "runtime.crash_loop_limit",
        Kind::Integer(0, 1000),
        Some("3"),
        "deaths",
        "When the runtime died this often in a row within a minute of its start, it starts with those pipelines held that were \
         deployed or changed since it last ran for a minute (with all, if there is none). Status, log and an event say why; \
         `resume`, a new deployment or an edit lifts it. A restart of the machine does not count. 0: never.",
    ),
    key(
        "runtime.inference.backend",
        Kind::Choice(&["auto", "rten", "ort"]),
        Some("auto"),
        "",
        "Engine that runs models. `auto` takes ONNX Runtime (`ort`) where its library is found, else `rten`, which is \
         part of the program.",
    ),
    key(
        "runtime.inference.threads",
        Kind::Integer(1, 256),
        None,
        "threads",
        "Threads of one inference. Left out: one per core, at most two.",
    ),
    key(
        "runtime.inference.ort_library",
        Kind::Path,
        None,
        "",
        "ONNX Runtime's shared library (`libonnxruntime.so`). Left out: the system's search path.",
    ),
    key(
        "sources.*.uri",
        Kind::Address,
        None,
        "",
        "Required. `rtsp://…`, `rtsps://…`, `http(s)://…` (MJPEG or a file), `/dev/videoN`, a video file, a folder of images, or \
         `demo:`, a made-up street of a minute (`demo:?seconds=86400` is a day of it; also `seed`, `width`, `height`, `fps`).",
    ),
    key(
        "sources.*.pace",
        Kind::Choice(&["fast", "native"]),
        Some("fast"),
        "",
        "Pace of files, image folders and the demo scene: `fast` takes every frame as fast as it goes, `native` plays at \
         the speed of the recording and drops late frames.",
    ),
    key(
        "sources.*.max_fps",
        Kind::Number(0.01, 1000.0),
        None,
        "frames/s",
        "Upper bound on frames that are processed. Left out: all.",
    ),
    key(
        "sources.*.rtsp_transport",
        Kind::Choice(&["tcp", "udp"]),
        Some("tcp"),
        "",
        "Transport of RTSP. `tcp` loses nothing; `udp` is for networks that ask for it.",
    ),
    key(
        "sources.*.tls_verify",
        Kind::Switch,
        Some("true"),
        "",
        "Whether the certificate of `rtsps://` and `https://` must be made out to the address by an authority that the \
         system trusts. `false` is for cameras that signed their own: what they send is encrypted, but anybody in between \
         can stand in for them and is told the password.",
    ),
    key(
        "sources.*.stall_s",
        Kind::Number(*STALL_S.start(), *STALL_S.end()),
        Some("5"),
        "s",
        "Longest time between two pictures of a camera; after it the camera counts as lost and is connected anew. One that sends a \
         picture a minute needs more than 60. Recordings may leave out as much as an hour, whatever this says.",
    ),
    key(
        "sources.*.name",
        Kind::DisplayName,
        None,
        "",
        "What people call it, such as `Loading dock`; `ask` and `chat` know it by that. Left out: its id.",
    ),
    key(
        "pipelines.*.name",
        Kind::DisplayName,
        None,
        "",
        "What people call it, such as `Night patrol`; `ask` and `chat` know it by that. Left out: its id.",
    ),
    key(
        "pipelines.*.source",
        Kind::Name,
        None,
        "",
        "Required. Source it watches.",
    ),
    key(
        "pipelines.*.workflow",
        Kind::FileOrStructure,
        None,
        "",
        "Required. Path of a workflow definition (Roboflow's JSON), relative to the folder of this file, or the definition itself as a table.",
    ),
    key(
        "pipelines.*.parameters",
        Kind::Structure,
        None,
        "",
        "Values of the workflow's parameters, by name.",
    ),
    key(
        "pipelines.*.model",
        Kind::Text,
        None,
        "",
        "Model that takes the place of the one named in every detection step: a name from `watchkeeper models list`, a \
         path of an ONNX file, or `motion`.",
    ),
    key(
        "pipelines.*.rules",
        Kind::Structure,
        None,
        "",
        "What to make events of: a list of tables `[[pipelines.NAME.rules]]`, see [rules.md](rules.md). Left out: what follows from \
         the workflow (crossings of each line counter, entries and stays of each zone, else whatever appears). `[]`: no events.",
    ),
    key(
        "pipelines.*.detect",
        Kind::Structure,
        None,
        "",
        "When the detector runs: `{ mode = \"always\" }`, `{ mode = \"on_motion\", refresh_s = 5 }` or `{ mode = \
         \"periodic\", every_s = 1 }`. Left out: always.",
    ),
    key(
        "pipelines.*.record",
        Kind::Switch,
        Some("false"),
        "",
        "Writes every annotated frame to `<state_dir>/recordings/NAME.N.mp4`, in parts that `recording_bytes` and \
         `recording_days` bound; a part can be played when it is complete, and after a crash up to its last seconds.",
    ),
    key(
        "pipelines.*.show",
        Kind::Switch,
        Some("false"),
        "",
        "Shows every annotated frame in a window on the box's screen.",
    ),
    key(
        "pipelines.*.paused",
        Kind::Switch,
        Some("false"),
        "",
        "Creates it paused. What is done by hand holds over restarts until this section is edited.",
    ),
    key(
        "mqtt.host",
        Kind::Text,
        None,
        "",
        "Host name or address of the broker. Left out: nothing is published.",
    ),
    key(
        "mqtt.port",
        Kind::Integer(1, 65535),
        None,
        "",
        "TCP port. Left out: 1883, or 8883 with TLS.",
    ),
    key(
        "mqtt.client_id",
        Kind::Text,
        None,
        "",
        "Client id, unique at the broker. Left out: `watchkeeper-SITE-BOX`.",
    ),
    key("mqtt.username", Kind::Text, None, "", "User name."),
    key(
        "mqtt.password",
        Kind::Secret,
        None,
        "",
        "Password. Prefer `password_file`; never printed.",
    ),
    key(
        "mqtt.password_file",
        Kind::Path,
        None,
        "",
        "File that holds the password in its first line.",
    ),
    key(
        "mqtt.tls",
        Kind::Switch,
        Some("false"),
        "",
        "Speaks TLS to the broker.",
    ),
    key(
        "mqtt.ca_file",
        Kind::Path,
        None,
        "",
        "PEM file with the authorities to trust. Left out: the system's. Read at every connect, so that a file that was \
         exchanged counts at once.",
    ),
    key(
        "mqtt.cert_file",
        Kind::Path,
        None,
        "",
        "PEM file with the certificate by which the box proves to the broker who it is, and those of the authorities \
         between. For brokers that ask for one (mutual TLS); needs `key_file`.",
    ),
    key(
        "mqtt.key_file",
        Kind::Path,
        None,
        "",
        "PEM file with the private key of `cert_file`, not encrypted; readable by the agent alone.",
    ),
    key(
        "mqtt.connect_timeout_s",
        Kind::Integer(1, 300),
        Some("15"),
        "s",
        "Time for one attempt to connect, from the look-up of the name to the broker's answer, and for handing one message \
         to the network afterwards. Longer for links by satellite.",
    ),
    key(
        "mqtt.keep_alive_s",
        Kind::Integer(5, 3600),
        Some("30"),
        "s",
        "Interval of keep-alive packets; after one and a half of it without a word the broker publishes the last will.",
    ),
    key(
        "agent.outbox_events",
        Kind::Integer(100, 100_000_000),
        Some("100000"),
        "messages",
        "Messages kept until the broker has acknowledged them; beyond it the oldest are dropped and the loss is recorded.",
    ),
    key(
        "agent.outbox_bytes",
        Kind::Integer(MIB, 1 << 40),
        Some("268435456"),
        "bytes",
        "Bytes of messages kept until the broker has acknowledged them.",
    ),
    key(
        "agent.telemetry_s",
        Kind::Number(1.0, 86_400.0),
        Some("30"),
        "s",
        "Interval of telemetry.",
    ),
    key(
        "agent.api.socket",
        Kind::Path,
        None,
        "",
        "Unix socket of the API. Who may open the file may use the API. Left out: `agent.sock` beside the runtime's socket.",
    ),
    key(
        "agent.api.socket_mode",
        Kind::Mode,
        Some("0660"),
        "octal",
        "Permission bits of the socket.",
    ),
    key(
        "agent.api.listen",
        Kind::Text,
        None,
        "",
        "Address and port of this machine at which the API is served over TCP, such as `127.0.0.1:8088`. Only addresses that nobody else can \
         reach: the token is not encrypted. For others put a proxy with TLS before it. Needs a token. Left out: none.",
    ),
    key(
        "agent.api.token_file",
        Kind::Path,
        None,
        "",
        "File that holds the token in its first line: at least 32 characters, as from `openssl rand -hex 32`; readable by the agent alone.",
    ),
    key(
        "agent.api.token_credential",
        Kind::Text,
        None,
        "",
        "Name of a systemd credential of the agent's service that holds the token, in place of `token_file`.",
    ),
    key(
        "agent.auto_approve.ask",
        Kind::Words(ChangeKind::NAMES),
        None,
        "",
        "Changes that `watchkeeper ask` does at once, such as `[\"resume\"]`. Left out: none, and `--yes` or `--confirm` does it.",
    ),
    key(
        "agent.auto_approve.chat",
        Kind::Words(ChangeKind::NAMES),
        None,
        "",
        "The same in `watchkeeper chat`. Left out: none.",
    ),
    key(
        "agent.auto_approve.local",
        Kind::Words(ChangeKind::NAMES),
        None,
        "",
        "The same for conversations over the socket of the agent's API. Left out: none.",
    ),
    key(
        "agent.auto_approve.remote",
        Kind::Words(ChangeKind::NAMES),
        None,
        "",
        "The same for conversations over TCP, for whoever shows the token. Left out: none.",
    ),
    key(
        "agent.tools.ask",
        Kind::Words(ToolEffect::NAMES),
        None,
        "",
        "What tools may do for `watchkeeper ask`, such as `[\"read\", \"write\"]`; `[]`: nothing at all. Left out: everything that is named above.",
    ),
    key(
        "agent.tools.chat",
        Kind::Words(ToolEffect::NAMES),
        None,
        "",
        "The same for `watchkeeper chat`. Left out: everything.",
    ),
    key(
        "agent.tools.local",
        Kind::Words(ToolEffect::NAMES),
        None,
        "",
        "The same for conversations over the socket of the agent's API. Left out: everything.",
    ),
    key(
        "agent.tools.remote",
        Kind::Words(ToolEffect::NAMES),
        None,
        "",
        "The same for conversations over TCP, for whoever shows the token. Left out: everything.",
    ),
    key(
        "agent.heartbeat.interval_min",
        Kind::Integer(15, 60),
        None,
        "min",
        "Time between two looks. Left out: none is taken.",
    ),
    key(
        "agent.memory.model",
        Kind::Path,
        None,
        "",
        "Folder of a model of sentences: `model.onnx` and `tokenizer.json` of a sentence-transformers export. Left out: `memory` in the folder of model files \
         (`models.dir`), where it is there, such as `/var/lib/watchkeeper/models/memory`. One that can't be used is told, and the notes are searched without it.",
    ),
    key(
        "models.dir",
        Kind::Path,
        None,
        "",
        "Folder of model files and their manifests. Left out: a user's own, `$XDG_DATA_HOME/watchkeeper/models` \
         (`~/.local/share/watchkeeper/models`), and after it `/var/lib/watchkeeper/models`; root has only the latter. Daemons and \
         command follow the same rule, and `watchkeeper models pull` and `add` write to the first.",
    ),
    key(
        "models.mirror",
        Kind::Text,
        None,
        "",
        "Address of a folder, `http(s)://…`, that `watchkeeper models pull` fetches `NAME.onnx` and the other files of a model from, in place of the \
         published addresses. Checksums that are known hold for it too. Left out: the published addresses.",
    ),
    key(
        "models.default",
        Kind::Text,
        None,
        "",
        "Model for workflows that name none. Left out: `yolox-nano` where its file is here, else `motion`.",
    ),
    key(
        "llm.provider",
        Kind::Choice(&["claude", "openai", "gemini", "local"]),
        None,
        "",
        "Who serves the model. `local` is a server of one's own that speaks Claude's protocol, such as Ollama. Left out: no model.",
    ),
    key(
        "llm.base_url",
        Kind::Text,
        None,
        "",
        "Another address than the provider's, `https://…`. `http://` is for servers that need no key, and for this machine.",
    ),
    key(
        "llm.key",
        Kind::Secret,
        None,
        "",
        "Key of the provider. Better in a file, in the variable `WATCHKEEPER_LLM__KEY`, or in the systemd credential `watchkeeper-PROVIDER-key`.",
    ),
    key(
        "llm.key_file",
        Kind::Path,
        None,
        "",
        "File whose only line is the key. It is read when a model is asked.",
    ),
    key(
        "llm.model",
        Kind::Text,
        None,
        "",
        "Another model than the provider's small one, by the provider's id.",
    ),
    key(
        "llm.large_model",
        Kind::Text,
        None,
        "",
        "Another model than the provider's medium one, by the provider's id. It sets up watches, and is asked where the small one is in doubt about an event.",
    ),
    key(
        "llm.models_file",
        Kind::Path,
        None,
        "",
        "A model file of your own, in the form of the one that is built in (`agent/llm/src/catalogue/models.toml`): models, prices, limits and providers that are not in that one, or are others by now. An entry \
         of the same provider and id takes the place of the one that is built in. It is read at the start; what is wrong in it is told with its place.",
    ),
    key(
        "llm.second_opinion",
        Kind::Switch,
        Some("false"),
        "",
        "Sends the picture of an event whose decision is `escalate` to the model, and tells its opinion over MQTT (docs/ref/mqtt.md); channels that told of the event \
         tell when it is taken for more or for less. \
         It may only raise what the event is taken for, unless the rule says `second_opinion_may_lower` (docs/ref/rules.md). \
         Pictures of your cameras leave the box with this without anybody asking; without it only those that a request of `ask` or `chat` is about.",
    ),
    key(
        "llm.calls_per_hour",
        Kind::Integer(1, 10_000),
        Some("60"),
        "calls",
        "Most calls within sixty minutes, failed ones included.",
    ),
    key(
        "llm.tokens_per_call",
        Kind::Integer(1_000, 2_000_000),
        Some("60000"),
        "tokens",
        "Most tokens of one call, prompt and answer together. Setting up a watch takes some 20000 with the room for the answer.",
    ),
    key(
        "llm.idle_timeout_s",
        Kind::Number(1.0, 3_600.0),
        Some("90"),
        "s",
        "Longest silence before and within an answer; after it the call has failed and is made again. A large model on a slow machine of one's own may need more.",
    ),
    key(
        "llm.timeout_factor",
        Kind::Integer(1, 100),
        Some("1"),
        "times",
        "How many times as long as usual a model may take for a whole job: 30 s for other words, 20 s for an opinion, a minute for a finding of the heartbeat, \
         ten minutes for setting up a watch. A slow machine of one's own may need more.",
    ),
    key(
        "llm.day_usd",
        Kind::Number(0.0, 10_000.0),
        Some("1"),
        "US$",
        "Most money a day of UTC. What a call may cost at most is booked before it is made, so a crash never leads beyond it.",
    ),
    key(
        "llm.month_usd",
        Kind::Number(0.0, 100_000.0),
        Some("20"),
        "US$",
        "Most money a month of UTC.",
    ),
    key(
        "sinks.hosts",
        Kind::Texts,
        None,
        "",
        "Hosts that may be called, each `\"NAME\"` (at the usual ports of HTTP, HTTPS, SMTP and MQTT) or `\"NAME:PORT\"`. Slack needs \
         `slack.com`, and `files.slack.com` for files; Twilio `api.twilio.com`; a bucket of Amazon \
         `BUCKET.s3.REGION.amazonaws.com`. A redirect is followed only to a host that is named too. Left out: none.",
    ),
    key(
        "sinks.folders",
        Kind::Texts,
        None,
        "",
        "Folders below which files may be written; a relative `target_directory` begins in the first. No symbolic link below them is \
         followed. The agent's service needs each as `ReadWritePaths=` (docs/guide/install.md). Left out: none.",
    ),
    key(
        "sinks.ca_file",
        Kind::Path,
        None,
        "",
        "PEM file with the authorities to trust. Left out: the system's.",
    ),
    key(
        "sinks.slack_url",
        Kind::Text,
        Some("https://slack.com/api/"),
        "",
        "Where Slack's methods are, for services that speak like Slack.",
    ),
    key(
        "sinks.twilio_url",
        Kind::Text,
        Some("https://api.twilio.com/"),
        "",
        "Where Twilio's API is, for services that speak like Twilio.",
    ),
    key(
        "sinks.s3_url",
        Kind::Text,
        None,
        "",
        "Address of a store of one's own that speaks S3, such as MinIO. Left out: Amazon's.",
    ),
    key(
        "sinks.max_age_s",
        Kind::Number(10.0, 2_592_000.0),
        Some("86400"),
        "s",
        "Age at which something that did not succeed is given up, so that nobody is told of yesterday's visitor.",
    ),
    key(
        "sinks.secrets.*.file",
        Kind::Path,
        None,
        "",
        "File that holds it in its first line.",
    ),
    key(
        "sinks.secrets.*.credential",
        Kind::Text,
        None,
        "",
        "Name of a systemd credential of the agent's service (`LoadCredential=`, `systemd-creds`).",
    ),
    key(
        "sinks.secrets.*.env",
        Kind::Text,
        None,
        "",
        "Name of a variable of the agent's environment.",
    ),
    key(
        "sinks.secrets.*.value",
        Kind::Secret,
        None,
        "",
        "The secret itself. Prefer one of the others; never printed.",
    ),
    key(
        "channels.*.kind",
        Kind::Choice(&["webhook", "slack"]),
        Some("webhook"),
        "",
        "What is spoken there. `webhook`: a form with the field `event` (the message that MQTT has, docs/ref/mqtt.md), `text` (one sentence) and \
         the file `picture`. `slack`: `{\"text\": …}`, for Slack's incoming webhooks and all that take the same.",
    ),
    key(
        "channels.*.url",
        Kind::Secret,
        None,
        "",
        "Its address. Whoever knows it may post there, so prefer one of the others; never printed.",
    ),
    key(
        "channels.*.url_file",
        Kind::Path,
        None,
        "",
        "File that holds the address in its first line.",
    ),
    key(
        "channels.*.url_credential",
        Kind::Text,
        None,
        "",
        "Name of a systemd credential of the agent's service that holds it.",
    ),
    key(
        "channels.*.url_env",
        Kind::Text,
        None,
        "",
        "Name of a variable of the agent's environment that holds it.",
    ),
    key(
        "channels.*.min_severity",
        Kind::Choice(&["info", "warning", "critical"]),
        None,
        "",
        "Severity from which every event is told there, outages of cameras among them. Left out: only events whose rule names the channel.",
    ),
    key(
        "channels.*.notify_end",
        Kind::Switch,
        Some("false"),
        "",
        "Whether the end of an event is told too.",
    ),
    key(
        "channels.*.pictures",
        Kind::Switch,
        Some("true"),
        "",
        "Whether the picture goes along. Slack's incoming webhooks take none.",
    ),
];

/// Whether `path` (such as `sources.gate.uri`) is the declared `pattern` (such as `sources.*.uri`).
fn matches(pattern: &str, path: &[&str]) -> bool {
    let mut parts = path.iter();
    for want in pattern.split('.') {
        match parts.next() {
            Some(part) if want == "*" || want == *part => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

/// The declaration of a key.
#[must_use]
pub fn find(path: &[&str]) -> Option<&'static Key> {
    KEYS.iter().find(|k| matches(k.path, path))
}

/// Names that may stand directly below `path`; `*` where a person chooses the name. Empty when `path` is no section.
#[must_use]
pub fn children(path: &[&str]) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for key in KEYS {
        let mut parts = key.path.split('.');
        let below = path.iter().all(|part| {
            parts
                .next()
                .is_some_and(|want| want == "*" || want == *part)
        });
        if let (true, Some(name)) = (below, parts.next())
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// What is allowed, in words.
#[must_use]
pub fn allowed(kind: Kind) -> String {
    match kind {
        Kind::Text => "text that is not empty".to_owned(),
        Kind::Name => {
            "1 to 40 of a-z, 0-9, '-' and '_', beginning with a letter or digit".to_owned()
        }
        Kind::DisplayName => {
            "1 to 60 characters of one line, with a letter or digit among them".to_owned()
        }
        Kind::Path => "a path".to_owned(),
        Kind::Secret => "text".to_owned(),
        Kind::Address => {
            "rtsp://…, rtsps://…, http(s)://…, /dev/videoN, a file, a folder or demo:".to_owned()
        }
        Kind::Switch => "true or false".to_owned(),
        Kind::Integer(min, max) => format!("a whole number from {min} to {max}"),
        Kind::Number(min, max) => format!("a number from {min} to {max}"),
        Kind::Choice(words) => words.join(", "),
        Kind::Mode => "octal permission bits as text, \"0600\" to \"0777\"".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
        Kind::Words(words) => format!("a list of {}", words.join(", ")),
        Kind::Structure => "a table or a list".to_owned(),
        Kind::FileOrStructure => "a path of a JSON file, or a table".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_chosen_by_a_person_matches_the_star() {
        assert_eq!(
            find(&["sources", "gate", "uri"]).map(|k| k.path),
            Some("sources.*.uri")
        );
        assert!(find(&["sources", "gate"]).is_none());
        assert!(find(&["sources", "gate", "uri", "x"]).is_none());
    }

    #[test]
    fn a_section_lists_what_may_stand_in_it() {
        assert_eq!(children(&["box"]), ["site", "id"]);
        assert_eq!(children(&["sources"]), ["*"]);
        assert!(children(&["runtime"]).contains(&"inference"));
        assert!(children(&["nothing"]).is_empty());
    }

    #[test]
    fn every_key_belongs_to_a_section_of_the_document() {
        for key in KEYS {
            let section = key.path.rsplit_once('.').map(|(s, _)| s);
            assert!(
                SECTIONS.iter().any(|s| Some(s.path) == section),
                "{}",
                key.path
            );
        }
    }
}
