//! Every key of the configuration, declared once.
//!
//! - A key that is not in [`KEYS`] is refused.
//! - A default in [`KEYS`] passes the key's own check.
//! - `docs/ref/configuration.md` is printed from this table.

use watchkeeper_contract::privacy::MaskFill;
use watchkeeper_contract::source::STALL_S;

use crate::config::CommandAccess;
use crate::permissions::{ChangeKind, ToolEffect};

/// Kind of a key's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Any text that is not empty.
    Text,
    /// A name: 1 to 40 of `a-z`, `0-9`, `-`, `_`, beginning with a letter or digit.
    Name,
    /// A display name: 1 to 60 characters on one line.
    DisplayName,
    /// A path; a relative one begins at the folder of the configuration file.
    Path,
    /// Text that is never printed.
    Secret,
    /// Address of a source; a credential in it is never printed.
    Address,
    Switch,
    /// A whole number in a range, both ends included.
    Integer(u64, u64),
    /// A number in a range, both ends included.
    Number(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Permission bits in octal, such as `"0660"`.
    Mode,
    /// A list of texts, none of them empty.
    Texts,
    /// A list of these words.
    Words(&'static [&'static str]),
    /// A table or a list with a structure of its own, checked later.
    Structure,
    /// Path of a file, or the structure itself.
    FileOrStructure,
}

/// Declaration of one key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Key {
    /// Path; `*` stands for a name that the user chooses.
    pub path: &'static str,
    pub kind: Kind,
    /// Default, as one would write it in a variable; absent when there is none.
    pub default: Option<&'static str>,
    /// Unit; empty where there is none.
    pub unit: &'static str,
    /// Effect in one or two sentences, for the document.
    pub effect: &'static str,
}

/// One section of the file, for the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Path; `*` stands for a name that the user chooses.
    pub path: &'static str,
    /// Subject of the section, for the document.
    pub effect: &'static str,
}

/// Providers of language models.
const PROVIDERS: &[&str] = &["claude", "claude-cli", "openai", "gemini", "local"];

/// The sections, in the order of the document.
pub const SECTIONS: &[Section] = &[
    Section {
        path: "box",
        effect: "This box. Both names are levels of every MQTT topic.",
    },
    Section {
        path: "runtime",
        effect: "The daemon that captures and detects.",
    },
    Section {
        path: "runtime.inference",
        effect: "How models are run.",
    },
    Section {
        path: "sources.*",
        effect: "One section for each camera, file or demo scene; its name is the source's id. A \
                 section with an error is reported and left out; the other sources run. A source \
                 is opened when a pipeline or a preview needs it; until then it is `idle`. A \
                 source replaced or removed by hand stays so over restarts, until its section is \
                 edited.",
    },
    Section {
        path: "sources.*.privacy",
        effect: "The privacy mask of the camera ([cameras.md](../guide/cameras.md#privacy-masks)). \
                 Its regions are made unrecognisable as soon as a frame is decoded, before the \
                 motion filter, a model, a clip, a snapshot or a drawing has it. Only this file \
                 sets a mask; no request, API or command changes it. A source deployed by hand \
                 under the same name keeps the mask. One under another name at the same host, \
                 device or file is refused. While this section has an error, its camera is left \
                 out; a source of that name deployed by hand is black. A change holds from the \
                 next start on; pictures and clips kept before stay as they are.",
    },
    Section {
        path: "pipelines.*",
        effect: "One section for each workflow deployed on a source; its name is the pipeline's \
                 id. A section with an error is reported and left out; the other pipelines run. \
                 Changes by hand (`pause`, `resume`, `delete`, a deployment of the same name, the \
                 MQTT commands `stop` and `deploy`) hold over restarts until the section or its \
                 workflow file is edited. A deleted pipeline stays listed as stopped; `resume` or \
                 a new deployment starts it again. An edited section replaces what was deployed \
                 over it. A section with an error, or a removed one, is no edit: the deployed \
                 pipeline runs on, and the error is reported.",
    },
    Section {
        path: "mqtt",
        effect: "The MQTT broker. Without a host nothing is published.",
    },
    Section {
        path: "agent",
        effect: "The daemon that reports.",
    },
    Section {
        path: "agent.api",
        effect: "The agent's API ([agent-api.md](agent-api.md)): sessions in plain words, \
                 proposals, costs, notes, the trace. It is always served on a Unix socket, and \
                 with `listen` over TCP for clients with the token. A proposal made over TCP can \
                 be confirmed there; one made on the box only on the box.",
    },
    Section {
        path: "agent.archive",
        effect: "The archive ([archive.md](../guide/archive.md)): contents by name on disk, in \
                 memory, and optionally in memcached and a bucket that speaks S3.",
    },
    Section {
        path: "agent.auto_approve",
        effect: "Changes confirmed in advance, by entrypoint. None unless a list names it; there \
                 is no word for everything. A change is auto-approved only if the rules alone \
                 read it from a user's own words, it concerns one pipeline, nothing was left out, \
                 the engine has no warning, and its trial showed no problem. A proposal that a \
                 language model made or reworded always waits for a user's yes, because a model \
                 may have read names, pictures, events or notes that someone else wrote. The \
                 proposal is shown with the key that confirmed it, and the trace has each \
                 decision. Changes: `pause` (until a time or for good), `resume`, `deploy` (a new \
                 pipeline), `replace` (another pipeline in its place), `stop` (the pipeline is \
                 deleted).",
    },
    Section {
        path: "agent.tools",
        effect: "What tools of a language model may do, by entrypoint: `read` (cameras, \
                 pipelines, events, notes), `write` (keep a note, write its plan), `propose` \
                 (propose a new pipeline) and `propose_loss` (propose to stop, pause or replace \
                 one that runs). A list allows exactly what it names; a model is not told of \
                 other tools. No tool changes the box: every proposal waits for a yes. Requests \
                 that the rules understand use no tools.",
    },
    Section {
        path: "agent.audit",
        effect: "The audit logs, chained by hash: one of confirmations and changes, one of effects \
                 and money spent. `watchkeeper audit` shows and verifies them. The agent \
                 keeps both, and so does each user of `ask` and `chat`. The bounds hold for each; \
                 the first one that is reached deletes the oldest part, the rest stays verifiable.",
    },
    Section {
        path: "agent.jobs.*",
        effect: "One section for each schedule of jobs ([jobs.md](../guide/jobs.md)), by its \
                 name. It has a `plan` or a `request`, and `cron` or `on`. The agent checks the \
                 plan at its start, as `watchkeeper config check` does, and runs what is due as \
                 its own job. `watchkeeper status` shows the last run of each.",
    },
    Section {
        path: "agent.jobs.*.on",
        effect: "Events that start the job. A field that is absent fits all; one at least is \
                 needed. Only records of new events of rules count, and only those that come \
                 after the schedule was first seen.",
    },
    Section {
        path: "agent.job_limits",
        effect: "Bounds of stored jobs, for the agent and for each user of `watchkeeper job`. \
                 Beyond a bound the job that ended first is removed, with the files in its own \
                 folder; one that runs or waits never is. Files in another output folder stay.",
    },
    Section {
        path: "agent.job_tools",
        effect: "What tools of jobs may do, for the agent and for each user of `watchkeeper job`.",
    },
    Section {
        path: "agent.heartbeat",
        effect: "A periodic check of cameras, recent events, undelivered messages and spending \
                 ([blueprints.md](blueprints.md)). The box itself decides what to report: a \
                 camera that is out, far more or fewer events than usual for the hour, waiting \
                 messages, a budget nearly spent. Each finding is reported once, over MQTT, to \
                 the channels whose `min_severity` it reaches, and in the notes. With `[llm]`, \
                 and within its budget, a model is asked once to comment. With `look_at`, a model \
                 that takes pictures also looks at frames of these cameras at each heartbeat. \
                 What it sees becomes an observation in the notes and changes nothing.",
    },
    Section {
        path: "agent.lookups.*",
        effect: "One section for each look-up that the chain of a rule may name \
                 ([evidence.md](../guide/evidence.md)): a service over HTTP, a table in a file, or \
                 fields that a model reads from the picture. The agent asks; the runtime opens no \
                 connection. `watchkeeper lookup NAME VALUE` tries one.",
    },
    Section {
        path: "agent.references",
        effect: "How the source `reference NAME` of a chain compares the picture of an event with \
                 sets of reference pictures \
                 ([evidence.md](../guide/evidence.md#reference-pictures)).",
    },
    Section {
        path: "agent.memory",
        effect: "How notes are searched: always by their words, and by meaning where a small \
                 sentence embedding model is installed \
                 ([models.md](../guide/models.md#sentence-embeddings-for-the-notes)). Without \
                 one, parts of words and a table of synonyms are compared. `watchkeeper doctor` \
                 shows which is in use.",
    },
    Section {
        path: "models",
        effect: "Where models are found.",
    },
    Section {
        path: "llm",
        effect: "A language model (LLM). It works on requests that `ask` and `chat` did not \
                 understand: it rewords them, or looks at the cameras, writes a workflow, checks \
                 it on the real picture, tries it and proposes it. With `second_opinion` it also \
                 looks at the pictures of `escalate` events. Without a provider none is called, \
                 and everything else works. A model changes nothing: each proposal is shown with \
                 the difference to what runs, and waits for a user's yes. The provider receives \
                 the request, names of cameras, pipelines, places and classes, related events and \
                 notes, and pictures of the cameras concerned; never camera addresses. The limits \
                 hold for the agent, and separately for each user of `ask` and `chat`. When a \
                 limit is reached, no model is called and the box watches on.",
    },
    Section {
        path: "llm.second",
        effect: "A second provider, for the blueprints that name it \
                 ([blueprints.md](blueprints.md)), such as a model of your own that never sends \
                 a picture away. It has a key and address of its own; limits, timeouts and \
                 models file are those of `[llm]`, and both count against one budget.",
    },
    Section {
        path: "sinks",
        effect: "Effects that workflows may have outside: requests, messages, e-mails, files. \
                 Only what is named here is done; a refused step names the missing key. Both \
                 daemons read this section: the runtime spools effects below `state_dir`; the \
                 agent executes them, retries with growing pauses and gives up after `max_age_s`. \
                 `GET /v1/effects` lists what waits, `GET /v1/health` the results. After a crash \
                 an effect may be executed twice; HTTP requests carry an `Idempotency-Key` for \
                 that.",
    },
    Section {
        path: "sinks.secrets.*",
        effect: "One section for each secret of workflows, by the name that workflows use \
                 (`variables_storing_secrets` of an environment secrets store). Exactly one key \
                 says where it is. The agent reads it at each use and strips white space around \
                 it. It is stored nowhere else and sent only to one of the `hosts`.",
    },
    Section {
        path: "channels.*",
        effect: "One section for each channel where people are notified. Rules name it in \
                 `notify` (docs/ref/rules.md), and so do requests in plain words (\"… and tell \
                 #NAME\"). A channel needs no broker and no permission in `sinks.hosts`. It sends \
                 events that begin, at most one message every two seconds; events in between \
                 share a message. Each channel follows the journal by itself: one that does not \
                 answer delays no other, and what it missed is sent when it answers again, for up \
                 to `sinks.max_age_s`. After a crash a message may be sent twice; the same \
                 message has the same `Idempotency-Key`. A new channel begins with the events \
                 after its first start. Exactly one of the keys `url*` gives the address.",
    },
];

const fn key(path: &'static str, kind: Kind, effect: &'static str) -> Key {
    Key {
        path,
        kind,
        default: None,
        unit: "",
        effect,
    }
}

impl Key {
    const fn default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }
}

const MIB: u64 = 1 << 20;

/// The keys, in the order of the document.
pub const KEYS: &[Key] = &[
    key("box.site", Kind::Name, "Name of the site.").default("site"),
    key(
        "box.id",
        Kind::Name,
        "Name of the box. Default: the host name, other characters replaced by `-`.",
    ),
    key(
        "runtime.socket",
        Kind::Path,
        "Unix socket of the API. Anyone who can open the file can use the API.",
    )
    .default("/run/watchkeeper/runtime.sock"),
    key(
        "runtime.socket_mode",
        Kind::Mode,
        "Permission bits of the socket.",
    )
    .default("0660")
    .unit("octal"),
    key(
        "runtime.state_dir",
        Kind::Path,
        "Folder of the journal, pictures, deployed pipelines and the outbox. One runtime per \
         folder.",
    )
    .default("/var/lib/watchkeeper"),
    key(
        "runtime.media_bytes",
        Kind::Integer(16 * MIB, 1 << 50),
        "Bytes of pictures and clips kept with events; the oldest are deleted first. On a nearly \
         full disk they are deleted in favour of events (docs/guide/install.md).",
    )
    .default("2147483648")
    .unit("bytes"),
    key(
        "runtime.history_bytes",
        Kind::Integer(0, 1 << 40),
        "Bytes of what the detectors of all cameras reported in the last 24 hours (boxes, and \
         small pictures), on which a proposal is replayed before you confirm it; shared fairly by \
         the cameras, the oldest are deleted first, and 0 keeps none.",
    )
    .default("134217728")
    .unit("bytes"),
    key(
        "runtime.dry_run_roots",
        Kind::Texts,
        "Folders below which a dry run may read video files and folders of pictures, symbolic \
         links resolved. Default: none.",
    ),
    key(
        "runtime.journal_events",
        Kind::Integer(1_000, 100_000_000),
        "Event records kept; the oldest are dropped first.",
    )
    .default("200000")
    .unit("records"),
    key(
        "runtime.journal_bytes",
        Kind::Integer(MIB, 1 << 40),
        "Bytes of event records kept; the oldest are dropped first.",
    )
    .default("536870912")
    .unit("bytes"),
    key(
        "runtime.recording_bytes",
        Kind::Integer(64 * MIB, 1 << 50),
        "Bytes of annotated videos of all pipelines with `record = true`; the oldest parts are \
         deleted first. A part has at most a quarter of it. With less than 512 MiB free on the \
         disk nothing is recorded; on a nearly full disk old parts are deleted in favour of \
         events.",
    )
    .default("4294967296")
    .unit("bytes"),
    key(
        "runtime.recording_days",
        Kind::Number(0.01, 36_500.0),
        "Age at which a part of an annotated video is deleted. Only while the clock shows a \
         plausible date.",
    )
    .default("30")
    .unit("days"),
    key(
        "runtime.crash_loop_limit",
        Kind::Integer(0, 1000),
        "If the runtime dies this many times in a row within a minute of its start, it holds the \
         pipelines that were deployed or changed since it last ran for a minute (all, if there \
         are none). Status, log and an event give the reason; `resume`, a new deployment or an \
         edit releases them. Restarts of the machine do not count. 0: never.",
    )
    .default("3")
    .unit("deaths"),
    key(
        "runtime.inference.backend",
        Kind::Choice(&["auto", "rten", "ort", "trt"]),
        "Engine that runs models. `auto`: the built-in `rten` at once, then the first of TensorRT \
         (`trt`) and ONNX Runtime (`ort`) that is found and agrees with it on 20 frames. ONNX \
         Runtime is left out where it was measured as slower. Commands that end by themselves take \
         the first that runs the model.",
    )
    .default("auto"),
    key(
        "runtime.inference.precision",
        Kind::Choice(&["fp32", "fp16", "int8"]),
        "Precision of networks. `fp32`: that of the file. `fp16`: float16 on TensorRT where little \
         is lost, elsewhere that of the file. `int8`: the network that `watchkeeper models \
         calibrate` kept for the back end; as `fp16` for models without one.",
    )
    .default("fp16"),
    key(
        "runtime.inference.threads",
        Kind::Integer(1, 256),
        "Threads of one inference. Default: one per core, at most two; one on ONNX Runtime where a \
         run takes at most 20 ms.",
    )
    .unit("threads"),
    key(
        "runtime.inference.ort_library",
        Kind::Path,
        "ONNX Runtime's shared library (`libonnxruntime.so`). Default: the system's folders, \
         then those of `watchkeeper backends pull`.",
    ),
    key(
        "runtime.inference.trt_library",
        Kind::Path,
        "The shim of TensorRT (`libwk_trt.so`), compiled on this box. Default: the system's \
         folders, then `lib` in the state folder and `/var/lib/watchkeeper/lib`.",
    ),
    key(
        "runtime.inference.engine_dir",
        Kind::Path,
        "Folder in which engines of TensorRT are kept. Default: `engines` in the state folder.",
    ),
    key(
        "sources.*.uri",
        Kind::Address,
        "Required. `rtsp://…`, `rtsps://…`, `http(s)://…` (MJPEG or a file), `/dev/videoN`, a \
         video file, a folder of images, or `demo:`, an artificial street scene of a minute \
         (`demo:?seconds=86400` lasts a day; also `seed`, `width`, `height`, `fps`).",
    ),
    key(
        "sources.*.pace",
        Kind::Choice(&["fast", "native"]),
        "Pace of files, image folders and the demo scene. `fast`: every frame, as fast as \
         possible. `native`: at the recorded speed; late frames are dropped.",
    )
    .default("fast"),
    key(
        "sources.*.max_fps",
        Kind::Number(0.01, 1000.0),
        "Most frames processed a second. Default: all.",
    )
    .unit("frames/s"),
    key(
        "sources.*.rtsp_transport",
        Kind::Choice(&["tcp", "udp"]),
        "Transport of RTSP. `tcp` loses nothing; `udp` is for networks that need it.",
    )
    .default("tcp"),
    key(
        "sources.*.tls_verify",
        Kind::Switch,
        "Whether the certificate of `rtsps://` and `https://` must be issued for the address by \
         an authority that the system trusts. `false` accepts self-signed certificates: the \
         connection is encrypted, but anyone in between can impersonate the camera and learn the \
         password.",
    )
    .default("true"),
    key(
        "sources.*.fixed_view",
        Kind::Switch,
        "Whether the camera always shows the same view. Then it is reported when it is moved, \
         covered or out of focus. `false` is for one that pans or drives.",
    )
    .default("true"),
    key(
        "sources.*.controls",
        Kind::Structure,
        "Controls of a USB or CSI camera, by the names and in the ranges that `watchkeeper cameras \
         show` lists, such as `{ exposure_time_absolute = 200 }`. They are set each time the \
         device is opened; a wrong name or value keeps the camera from starting.",
    ),
    key(
        "sources.*.decoder",
        Kind::Choice(&["auto", "software", "nvidia", "v4l2", "va"]),
        "Which decoders may decode H.264 and H.265. `auto` takes hardware where it is installed \
         and reports where it falls back to the processor; `nvidia`, `v4l2` or `va` asks for that \
         hardware; `software` is the processor.",
    )
    .default("auto"),
    key(
        "sources.*.scale",
        Kind::Structure,
        "Width and height to which pictures are scaled as soon as they are decoded, such as \
         `[1280, 720]`; on a Jetson before they are copied. Lines and zones are in these pixels. \
         Default: the size that the camera sends.",
    )
    .unit("pixels"),
    key(
        "sources.*.stall_s",
        Kind::Number(*STALL_S.start(), *STALL_S.end()),
        "Longest time between two pictures of a camera. After it the camera counts as lost and is \
         reconnected. A camera with one picture a minute needs more than 60. Recordings may have \
         gaps of an hour in any case.",
    )
    .default("5")
    .unit("s"),
    key(
        "sources.*.name",
        Kind::DisplayName,
        "Display name, such as `Loading dock`; `ask` and `chat` know the camera by it. Default: \
         its id.",
    ),
    key(
        "sources.*.privacy.regions",
        Kind::Structure,
        "Regions of the picture, each a list of corners `[x, y]` in fractions of its width and \
         height, from 0 to 1: `[[[0, 0], [0.5, 0], [0.5, 0.4], [0, 0.4]]]`. At most 32 regions of \
         64 corners.",
    ),
    key(
        "sources.*.privacy.classes",
        Kind::Texts,
        "Classes of objects, such as `person`, that are masked in every picture that leaves a \
         pipeline; its models see the whole frame. At most 32. Pictures without a pipeline are \
         refused.",
    ),
    key(
        "sources.*.privacy.fill",
        Kind::Choice(MaskFill::NAMES),
        "What stands in the place of masked pixels. `black`: nothing of them. `pixelate`: the \
         mean colours of 24 squares along the shorter side of the picture; movement remains \
         visible.",
    )
    .default("black"),
    key(
        "pipelines.*.name",
        Kind::DisplayName,
        "Display name, such as `Night patrol`; `ask` and `chat` know the pipeline by it. Default: \
         its id.",
    ),
    key(
        "pipelines.*.source",
        Kind::Name,
        "Required. Source to watch.",
    ),
    key(
        "pipelines.*.workflow",
        Kind::FileOrStructure,
        "Required. Path of a workflow definition (Roboflow's JSON), relative to the folder of \
         this file, or the definition itself as a table.",
    ),
    key(
        "pipelines.*.parameters",
        Kind::Structure,
        "Values of the workflow's parameters, by name.",
    ),
    key(
        "pipelines.*.model",
        Kind::Text,
        "Model used instead of the one in every detection step: a name from `watchkeeper models \
         list`, the path of an ONNX file, or `motion`.",
    ),
    key(
        "pipelines.*.rules",
        Kind::Structure,
        "Rules that make events: a list of tables `[[pipelines.NAME.rules]]`, see \
         [rules.md](rules.md). Default: rules that follow from the workflow (crossings of each \
         line counter, entries and stays of each zone, else any appearance). `[]`: no events.",
    ),
    key(
        "pipelines.*.detect",
        Kind::Structure,
        "When the detector runs: `{ mode = \"always\" }`, `{ mode = \"on_motion\", refresh_s = 5 \
         }` or `{ mode = \"periodic\", every_s = 1 }`. Default: always.",
    ),
    key(
        "pipelines.*.target_fps",
        Kind::Number(0.01, 1000.0),
        "Most frames of a camera looked at a second, also of a recording with `pace = \"native\"`. \
         Default: all. In other recordings every frame is looked at.",
    )
    .unit("frames/s"),
    key(
        "pipelines.*.priority",
        Kind::Choice(&["low", "normal", "high"]),
        "Share where several pipelines want the same model: `low` half, `high` twice that of \
         `normal`. `low` also allows a pause while the box is hot and a lower rate does not \
         suffice; the others keep one look a second.",
    )
    .default("normal"),
    key(
        "pipelines.*.record",
        Kind::Switch,
        "Writes every annotated frame to `<state_dir>/recordings/NAME.N.mp4`, in parts that \
         `recording_bytes` and `recording_days` bound. A part can be played when it is complete; \
         after a crash its last seconds are missing.",
    )
    .default("false"),
    key(
        "pipelines.*.show",
        Kind::Switch,
        "Shows every annotated frame in a window on the box's screen.",
    )
    .default("false"),
    key(
        "pipelines.*.paused",
        Kind::Switch,
        "Creates it paused. Changes by hand hold over restarts until this section is edited.",
    )
    .default("false"),
    key(
        "mqtt.host",
        Kind::Text,
        "Host name or address of the broker. Default: none, and nothing is published.",
    ),
    key(
        "mqtt.port",
        Kind::Integer(1, 65535),
        "TCP port. Default: 1883, or 8883 with TLS.",
    ),
    key(
        "mqtt.client_id",
        Kind::Text,
        "Client id, unique at the broker. Default: `watchkeeper-SITE-BOX`.",
    ),
    key("mqtt.username", Kind::Text, "User name."),
    key(
        "mqtt.password",
        Kind::Secret,
        "Password; never printed. Prefer `password_file`.",
    ),
    key(
        "mqtt.password_file",
        Kind::Path,
        "File with the password in its first line. Read at every connect, so a new password takes \
         effect at once.",
    ),
    key(
        "mqtt.commands",
        Kind::Choice(CommandAccess::NAMES),
        "Commands that the box accepts from the broker: `off`, `read` (`snapshot` only) or `all`. \
         Every client that may publish below `cmd/` can give them. Default: `all` with \
         `username` or \
         `cert_file`, otherwise `off`.",
    ),
    key("mqtt.tls", Kind::Switch, "Connects with TLS.").default("false"),
    key(
        "mqtt.ca_file",
        Kind::Path,
        "PEM file with the authorities to trust. Default: the system's. Read at every connect, so \
         a new file takes effect at once.",
    ),
    key(
        "mqtt.cert_file",
        Kind::Path,
        "PEM file with the client certificate and its intermediate authorities, for brokers that \
         ask for one (mutual TLS). Needs `key_file`.",
    ),
    key(
        "mqtt.key_file",
        Kind::Path,
        "PEM file with the private key of `cert_file`, unencrypted; readable by the agent alone.",
    ),
    key(
        "mqtt.connect_timeout_s",
        Kind::Integer(1, 300),
        "Timeout of one attempt to connect, from the name look-up to the broker's answer, and of \
         sending one message. Raise it for satellite links.",
    )
    .default("15")
    .unit("s"),
    key(
        "mqtt.keep_alive_s",
        Kind::Integer(5, 3600),
        "Interval of keep-alive packets. After one and a half intervals without a packet the \
         broker publishes the last will.",
    )
    .default("30")
    .unit("s"),
    key(
        "agent.outbox_events",
        Kind::Integer(100, 100_000_000),
        "Messages kept until the broker acknowledges them; the oldest are dropped first, and the \
         loss is recorded.",
    )
    .default("100000")
    .unit("messages"),
    key(
        "agent.outbox_bytes",
        Kind::Integer(MIB, 1 << 40),
        "Bytes of messages kept until the broker acknowledges them.",
    )
    .default("268435456")
    .unit("bytes"),
    key(
        "agent.telemetry_s",
        Kind::Number(1.0, 86_400.0),
        "Interval of telemetry.",
    )
    .default("30")
    .unit("s"),
    key(
        "agent.api.socket",
        Kind::Path,
        "Unix socket of the API. Anyone who can open the file can use the API. Default: \
         `agent.sock` \
         beside the runtime's socket.",
    ),
    key(
        "agent.api.socket_mode",
        Kind::Mode,
        "Permission bits of the socket.",
    )
    .default("0660")
    .unit("octal"),
    key(
        "agent.api.listen",
        Kind::Text,
        "Address and port to serve the API over TCP, such as `127.0.0.1:8088`. Only loopback \
         addresses, because the token is not encrypted; for other machines put a proxy with TLS \
         before it. Needs a token. Default: none.",
    ),
    key(
        "agent.api.hosts",
        Kind::Texts,
        "Host names by which clients reach the API over TCP, such as the name of the proxy. \
         `localhost` and loopback addresses are always accepted; a request with another `Host` is \
         refused.",
    ),
    key(
        "agent.api.public_url",
        Kind::Text,
        "Address by which people reach the API over TCP, such as `https://box.example.com`. With \
         it, notifications of doubtful events carry a link that answers the review: valid for \
         seven days and for one answer. Anybody with the link can answer. Its host is accepted \
         like those of `hosts`. Needs `listen`. Default: none.",
    ),
    key(
        "agent.api.token_file",
        Kind::Path,
        "File with the token in its first line: at least 32 characters, as from `openssl rand \
         -hex 32`; readable by the agent alone.",
    ),
    key(
        "agent.api.token_credential",
        Kind::Text,
        "Name of a systemd credential of the agent's service with the token, instead of \
         `token_file`.",
    ),
    key(
        "agent.archive.max_bytes",
        Kind::Integer(MIB, 1 << 44),
        "Bytes of all contents on disk. What has expired is removed first, then the oldest that \
         is not protected.",
    )
    .default("8589934592")
    .unit("bytes"),
    key(
        "agent.archive.max_entry_bytes",
        Kind::Integer(1024, 1 << 36),
        "Bytes of one content.",
    )
    .default("268435456")
    .unit("bytes"),
    key(
        "agent.archive.memory_bytes",
        Kind::Integer(0, 1 << 34),
        "Bytes of contents that the agent holds in memory; 0 for none.",
    )
    .default("33554432")
    .unit("bytes"),
    key(
        "agent.archive.memcached",
        Kind::Texts,
        "memcached servers, each `\"HOST:PORT\"`, as a fast tier that several boxes may share. \
         A box uses only what its own records name, and checks each value by its SHA-256. \
         Contents are not encrypted on the way. Default: none.",
    ),
    key(
        "agent.archive.s3_endpoints",
        Kind::Texts,
        "Addresses of one store that speaks S3, such as `\"https://s3.example.com\"`. It gets a \
         copy of each content up to 64 MiB, and repairs damaged files. Default: none.",
    ),
    key(
        "agent.archive.s3_bucket",
        Kind::Text,
        "Bucket of the copies.",
    ),
    key(
        "agent.archive.s3_region",
        Kind::Text,
        "Region of the bucket; self-hosted stores accept the default.",
    )
    .default("us-east-1"),
    key(
        "agent.archive.s3_prefix",
        Kind::Text,
        "Text before the SHA-256 in the key of each object, such as `\"berlin/box-7/\"`. Required \
         with `s3_endpoints`. Each box needs its own: a box deletes what it no longer has, also \
         where another one with the same prefix still has it.",
    ),
    key(
        "agent.archive.s3_access_key",
        Kind::Text,
        "Id of the access key.",
    ),
    key(
        "agent.archive.s3_secret_key_file",
        Kind::Path,
        "File with the secret key in its first line.",
    ),
    key(
        "agent.archive.s3_secret_key_credential",
        Kind::Text,
        "Name of a systemd credential of the agent's service with the secret key, instead of \
         `s3_secret_key_file`.",
    ),
    key(
        "agent.archive.ingest_roots",
        Kind::Texts,
        "Folders below which the agent may read `file::` and `folder::`; symbolic links are not \
         followed. The command line reads files as its own user and needs none. Default: none.",
    ),
    key(
        "agent.archive.ingest_hosts",
        Kind::Texts,
        "Hosts that `http::` may call although their addresses are not public, each `\"NAME\"` \
         or `\"NAME:PORT\"`. Default: none.",
    ),
    key(
        "agent.archive.index_events",
        Kind::Switch,
        "Whether pictures and clips of events enter the collection `events`, as references to \
         the runtime's media.",
    )
    .default("true"),
    key(
        "agent.archive.embedding",
        Kind::Text,
        "Model whose embeddings the pictures of the archive get in the background, such as \
         `\"mobilenet-v2-features\"`, for queries by likeness; `\"auto\"`: an installed one, \
         first one that reads texts too. Default: none are computed.",
    ),
    key(
        "agent.auto_approve.ask",
        Kind::Words(ChangeKind::NAMES),
        "Changes that `watchkeeper ask` applies at once, such as `[\"resume\"]`. Default: none; \
         `--yes` or `--confirm` applies them.",
    ),
    key(
        "agent.auto_approve.chat",
        Kind::Words(ChangeKind::NAMES),
        "Changes that `watchkeeper chat` applies at once. Default: none.",
    ),
    key(
        "agent.auto_approve.local",
        Kind::Words(ChangeKind::NAMES),
        "Changes applied at once in sessions over the socket of the agent's API. Default: none.",
    ),
    key(
        "agent.auto_approve.remote",
        Kind::Words(ChangeKind::NAMES),
        "Changes applied at once in sessions over TCP. Default: none.",
    ),
    key(
        "agent.tools.ask",
        Kind::Words(ToolEffect::NAMES),
        "What tools may do for `watchkeeper ask`, such as `[\"read\", \"write\"]`; `[]`: nothing. \
         Default: everything named above.",
    ),
    key(
        "agent.tools.chat",
        Kind::Words(ToolEffect::NAMES),
        "What tools may do for `watchkeeper chat`. Default: everything.",
    ),
    key(
        "agent.tools.local",
        Kind::Words(ToolEffect::NAMES),
        "What tools may do in sessions over the socket of the agent's API. Default: everything.",
    ),
    key(
        "agent.tools.remote",
        Kind::Words(ToolEffect::NAMES),
        "What tools may do in sessions over TCP. Default: everything.",
    ),
    key(
        "agent.heartbeat.interval_min",
        Kind::Integer(15, 60),
        "Interval of the heartbeat. Default: off.",
    )
    .unit("min"),
    key(
        "agent.heartbeat.look_at",
        Kind::Texts,
        "Cameras whose frames a language model looks at, each a name of `sources`, or `\"*\"` for \
         all. Their pictures then leave the box without a request, after the privacy mask. \
         Needs `interval_min` and `[llm]`. Default: none.",
    ),
    key(
        "agent.heartbeat.look_frames",
        Kind::Integer(1, 8),
        "Most frames looked at in one heartbeat; with more cameras they take turns. Each is one \
         call, and all of them together may use 10 % of `llm.calls_per_hour`.",
    )
    .default("2")
    .unit("frames"),
    key(
        "agent.heartbeat.look_from",
        Kind::Text,
        "Local time from which frames are looked at, `HH:MM`. With `look_to`. Default: always.",
    ),
    key(
        "agent.heartbeat.look_to",
        Kind::Text,
        "Local time until which frames are looked at, `HH:MM`; at or before `look_from` it is on \
         the next day. `24:00` is the end of the day.",
    ),
    key(
        "agent.audit.max_days",
        Kind::Integer(1, 3_650),
        "Longest time that an audit log keeps a record.",
    )
    .default("365")
    .unit("days"),
    key(
        "agent.audit.max_bytes",
        Kind::Integer(1 << 20, 1 << 40),
        "Most bytes of an audit log.",
    )
    .default("67108864")
    .unit("bytes"),
    key(
        "agent.lookups.*.kind",
        Kind::Choice(&["http", "table", "fields"]),
        "Where it looks: `http`, a service; `table`, a CSV file or an SQLite database; \
         `fields`, the picture, by the language model of `[llm]`.",
    ),
    key(
        "agent.lookups.*.value",
        Kind::Text,
        "`http`, `table`: what is looked up. `read`: the code, else the text, that the \
         workflow read; `code`; `text`; `label`, the class; or `fields.NAME`, a field of the \
         last look-up of the kind `fields`.",
    )
    .default("read"),
    key(
        "agent.lookups.*.url",
        Kind::Text,
        "`http`: address with `{value}`, which is percent-encoded. Redirects are not \
         followed.",
    ),
    key(
        "agent.lookups.*.method",
        Kind::Choice(&["GET", "POST"]),
        "`http`: method.",
    )
    .default("GET"),
    key(
        "agent.lookups.*.body",
        Kind::Text,
        "`http`: JSON body of a `POST`, with `{value}` inside a text.",
    ),
    key(
        "agent.lookups.*.headers",
        Kind::Structure,
        "`http`: headers, such as `{ accept = \"application/json\", authorization_file = \
         \"/etc/watchkeeper/token\" }`. The value of `NAME_file` is the first line of that \
         file, read at each request and never printed.",
    ),
    key(
        "agent.lookups.*.answer",
        Kind::Text,
        "`http`: JSON pointer of the answer in the response, such as `/status`. A response \
         without it is a failure.",
    ),
    key(
        "agent.lookups.*.answer_type",
        Kind::Choice(&["text", "number", "bool", "choice"]),
        "`http`: type of the answer. Another type is a failure. With `bool`, `true` supports \
         the event and `false` speaks against it.",
    )
    .default("text"),
    key(
        "agent.lookups.*.choices",
        Kind::Texts,
        "`http`: possible answers with `choice`; another one is a failure.",
    ),
    key(
        "agent.lookups.*.expect",
        Kind::Texts,
        "`http`: answers that support the event; another one speaks against it. Default: each \
         supports it.",
    ),
    key(
        "agent.lookups.*.confidence",
        Kind::Number(0.0, 1.0),
        "`http`: confidence of an answer.",
    )
    .default("0.95"),
    key(
        "agent.lookups.*.confidence_at",
        Kind::Text,
        "`http`: JSON pointer of a confidence of 0 to 1 in the response, in place of \
         `confidence`.",
    ),
    key(
        "agent.lookups.*.cache_s",
        Kind::Number(0.0, 2_592_000.0),
        "`http`: time that an answer is kept in memory and used again; 0: never.",
    )
    .default("3600")
    .unit("s"),
    key(
        "agent.lookups.*.cache_entries",
        Kind::Integer(1, 100_000),
        "`http`: most answers that are kept; the oldest makes room.",
    )
    .default("1000"),
    key(
        "agent.lookups.*.per_minute",
        Kind::Integer(1, 6_000),
        "`http`: most requests a minute, repeated ones included. Above that a look-up waits \
         up to ten seconds, then fails.",
    )
    .default("60"),
    key(
        "agent.lookups.*.tries",
        Kind::Integer(1, 4),
        "`http`: most tries, with pauses of 2, 5 and 10 seconds, where an error may pass: no \
         connection, 408, 425, 429, 5xx.",
    )
    .default("3"),
    key(
        "agent.lookups.*.timeout_s",
        Kind::Number(0.1, 60.0),
        "`http`: time limit of one try.",
    )
    .default("10")
    .unit("s"),
    key(
        "agent.lookups.*.max_bytes",
        Kind::Integer(64, 1_048_576),
        "`http`: longest response; a longer one is a failure.",
    )
    .default("65536")
    .unit("bytes"),
    key(
        "agent.lookups.*.private",
        Kind::Switch,
        "`http`: whether private and local addresses may be called.",
    )
    .default("false"),
    key(
        "agent.lookups.*.ca_file",
        Kind::Path,
        "`http`: PEM file with the authorities to trust. Default: the system's.",
    ),
    key(
        "agent.lookups.*.path",
        Kind::Path,
        "`table`: CSV file with a header line, or SQLite database. It is read again when it \
         changed, and never written.",
    ),
    key(
        "agent.lookups.*.table",
        Kind::Text,
        "`table`: table or view of the database; required with one.",
    ),
    key(
        "agent.lookups.*.key",
        Kind::Text,
        "`table`: column that is compared. Case and spaces do not count.",
    ),
    key(
        "agent.lookups.*.columns",
        Kind::Texts,
        "`table`: columns that become the data of the evidence. Default: all.",
    ),
    key(
        "agent.lookups.*.match",
        Kind::Choice(&["exact", "fuzzy"]),
        "`table`: `fuzzy` also accepts near keys, with a confidence of 0.65 to 0.85. Two rows \
         that are equally near are no answer.",
    )
    .default("exact"),
    key(
        "agent.lookups.*.alike",
        Kind::Switch,
        "`table`: whether `O` equals `0`, `I` and `L` equal `1`, `S` equals `5`, `B` equals \
         `8` and `Z` equals `2`.",
    )
    .default("false"),
    key(
        "agent.lookups.*.schema",
        Kind::Structure,
        "`fields`: JSON Schema of the fields: an object of `string`, `number`, `boolean` and \
         `enum`, at most 16.",
    ),
    key(
        "agent.lookups.*.question",
        Kind::Text,
        "`fields`: addition to the instructions, such as what the fields mean here.",
    ),
    key(
        "agent.references.model",
        Kind::Text,
        "Model that computes the vectors of pictures. After a change all of them are computed \
         again.",
    )
    .default("mobilenet-v2-features"),
    key(
        "agent.references.min_likeness",
        Kind::Number(0.0, 0.99),
        "Lowest likeness that is an answer, with confidence 0.70; 1 has 0.95. Default: as \
         measured for the model; required for a model that was not measured.",
    ),
    key(
        "agent.jobs.*.plan",
        Kind::Path,
        "File of a plan, in YAML or JSON.",
    ),
    key(
        "agent.jobs.*.request",
        Kind::Text,
        "Request in plain English instead, such as `\"last week's deliveries by bay, the three \
         best of each\"`. It is planned whenever it is due, so times are counted from then.",
    ),
    key(
        "agent.jobs.*.cron",
        Kind::Text,
        "Local times, as five fields: minute, hour, day of the month, month, weekday. \
         `\"0 6 * * MON\"` is Mondays at 6:00. A time that the clock leaves out in spring comes \
         after the gap; of an hour that it repeats in autumn only the first pass counts.",
    ),
    key(
        "agent.jobs.*.catch_up",
        Kind::Switch,
        "Whether a time that was missed by more than five minutes, such as while the box was off, \
         is made up for: once, however many were missed.",
    )
    .default("false"),
    key("agent.jobs.*.on.camera", Kind::Name, "Camera of the event."),
    key(
        "agent.jobs.*.on.class",
        Kind::Text,
        "Class of the object, such as `\"truck\"`.",
    ),
    key("agent.jobs.*.on.rule", Kind::Text, "Name of the rule."),
    key(
        "agent.jobs.*.on.verdict",
        Kind::Choice(&["escalate", "review", "record", "act"]),
        "Verdict of the event.",
    ),
    key(
        "agent.jobs.*.min_interval_s",
        Kind::Integer(10, 604_800),
        "Shortest time between two jobs that events start. Of the events in between only the \
         latest starts one, when the time is over.",
    )
    .default("600")
    .unit("s"),
    key(
        "agent.jobs.*.output",
        Kind::Text,
        "Absolute path of the output folder, with the date as in `/srv/albums/%Y-%m-%d`; each job \
         needs a new one. Default: in the job's own folder.",
    ),
    key(
        "agent.jobs.*.keep_last",
        Kind::Integer(1, 1000),
        "Ended jobs of the schedule that are kept. Older ones are removed with the files that \
         they wrote, also from `output`. Default: `agent.job_limits` decides.",
    ),
    key(
        "agent.jobs.*.notify_failure",
        Kind::Switch,
        "Whether a failed job is sent to the channels that take warnings. Health names it in any \
         case.",
    )
    .default("false"),
    key(
        "agent.job_limits.max_jobs",
        Kind::Integer(1, 10_000),
        "Most jobs.",
    )
    .default("200"),
    key(
        "agent.job_limits.max_bytes",
        Kind::Integer(1 << 20, 1 << 44),
        "Most bytes in the jobs' own folders.",
    )
    .default("10737418240")
    .unit("bytes"),
    key(
        "agent.job_limits.max_days",
        Kind::Integer(1, 3_650),
        "Days after its end after which a job is removed.",
    )
    .default("90")
    .unit("days"),
    key(
        "agent.job_tools.faces",
        Kind::Switch,
        "Whether jobs may look for faces in pictures, where a detector of them is installed.",
    )
    .default("false"),
    key(
        "agent.memory.model",
        Kind::Path,
        "Folder of a sentence embedding model: `model.onnx` and `tokenizer.json` of a \
         sentence-transformers export. Default: `memory` in the folder of model files \
         (`models.dir`), where it exists, such as `/var/lib/watchkeeper/models/memory`. A model \
         that can't be loaded is reported, and notes are searched without it.",
    ),
    key(
        "models.dir",
        Kind::Path,
        "Folder of model files and their manifests. Default: the user's own, \
         `$XDG_DATA_HOME/watchkeeper/models` (`~/.local/share/watchkeeper/models`), then \
         `/var/lib/watchkeeper/models`; root has only the latter. Daemons and command use the \
         same rule; `watchkeeper models pull` and `add` write to the first folder.",
    ),
    key(
        "models.mirror",
        Kind::Text,
        "Address of a folder, `http(s)://…`, from which `watchkeeper models pull` fetches \
         `NAME.onnx` and the other files of a model. Known checksums are verified. Default: the \
         published addresses.",
    ),
    key(
        "models.default",
        Kind::Text,
        "Model for workflows that name none. Default: `yolox-nano` or `ssd-mobilenet-v2` \
         where its file is installed, else `motion`.",
    ),
    key(
        "llm.provider",
        Kind::Choice(PROVIDERS),
        "Provider of the model. `local`: your own server with Claude's protocol, such as Ollama. \
         `claude-cli`: the program `claude` of this machine and its login. It takes text only, \
         without tools and pictures: it rewords requests, and refuses to set up pipelines on its \
         own, to give second opinions and to comment on findings. Default: no model.",
    ),
    key(
        "llm.program",
        Kind::Path,
        "The program of `claude-cli`. Default: `claude` in the search path of the agent.",
    ),
    key(
        "llm.base_url",
        Kind::Text,
        "Another address than the provider's, `https://…`. `http://` only for servers without a \
         key, and for this machine.",
    ),
    key(
        "llm.key",
        Kind::Secret,
        "The provider's API key. Better in a file, in the variable `WATCHKEEPER_LLM__KEY`, or in \
         the systemd credential `watchkeeper-PROVIDER-key`.",
    ),
    key(
        "llm.key_file",
        Kind::Path,
        "File whose only line is the key. Read when a model is called.",
    ),
    key(
        "llm.model",
        Kind::Text,
        "Another model than the provider's small one, by the provider's id.",
    ),
    key(
        "llm.large_model",
        Kind::Text,
        "Another model than the provider's medium one, by the provider's id. It sets up \
         pipelines, and gives the second opinion where the small one is unsure.",
    ),
    key(
        "llm.models_file",
        Kind::Path,
        "Your own model file, in the form of the built-in one \
         (`agent/llm/src/catalogue/models.toml`): models, prices, limits and providers that are \
         missing there or have changed. An entry replaces the built-in one of the same provider \
         and id. Read at the start; errors are reported with their place.",
    ),
    key(
        "llm.second_opinion",
        Kind::Switch,
        "Sends the picture of an event with verdict `escalate` to the model, and publishes its \
         opinion over MQTT (docs/ref/mqtt.md); channels that reported the event report a changed \
         verdict. The opinion may only raise the verdict, unless the rule says \
         `second_opinion_may_lower` (docs/ref/rules.md). Pictures of your cameras then leave the \
         box without a request; otherwise only those that a request of `ask` or `chat` is about.",
    )
    .default("false"),
    key(
        "llm.calls_per_hour",
        Kind::Integer(1, 10_000),
        "Most calls within sixty minutes, failed ones included. Set-ups over the agent's API may \
         use 90 % of them, second opinions 50 %, those of one rule 20 %, heartbeats 20 %, their \
         looks at frames 10 %; the rest is left to users. The parts hold for \
         money too, that of a rule for the money of a day.",
    )
    .default("60")
    .unit("calls"),
    key(
        "llm.tokens_per_call",
        Kind::Integer(1_000, 2_000_000),
        "Most tokens of one call, prompt and answer together. Setting up a pipeline takes about \
         20000, including the reserve for the answer.",
    )
    .default("60000")
    .unit("tokens"),
    key(
        "llm.idle_timeout_s",
        Kind::Number(1.0, 3_600.0),
        "Longest time without a byte from the provider; then the call has failed and is retried. \
         A large model on a slow machine of your own may need more.",
    )
    .default("90")
    .unit("s"),
    key(
        "llm.timeout_factor",
        Kind::Integer(1, 100),
        "Factor for the timeouts of whole jobs: 30 s to reword, 20 s for a second opinion, a \
         minute for a heartbeat, ten minutes to set up a pipeline. A slow machine of your own may \
         need more.",
    )
    .default("1")
    .unit("times"),
    key(
        "llm.day_usd",
        Kind::Number(0.0, 10_000.0),
        "Most money a day (UTC). The highest cost of a call is reserved before it is made, so a \
         crash never exceeds it.",
    )
    .default("1")
    .unit("US$"),
    key(
        "llm.month_usd",
        Kind::Number(0.0, 100_000.0),
        "Most money a month (UTC).",
    )
    .default("20")
    .unit("US$"),
    key(
        "llm.second.provider",
        Kind::Choice(PROVIDERS),
        "As `llm.provider`, and another one. Default: none.",
    ),
    key("llm.second.program", Kind::Path, "As `llm.program`."),
    key("llm.second.base_url", Kind::Text, "As `llm.base_url`."),
    key("llm.second.key", Kind::Secret, "As `llm.key`."),
    key("llm.second.key_file", Kind::Path, "As `llm.key_file`."),
    key(
        "sinks.hosts",
        Kind::Texts,
        "Hosts that may be called, each `\"NAME\"` (at the usual ports of HTTP, HTTPS, SMTP and \
         MQTT) or `\"NAME:PORT\"`. Slack needs `slack.com`, and `files.slack.com` for files; \
         Twilio `api.twilio.com`; an Amazon bucket `BUCKET.s3.REGION.amazonaws.com`. Redirects \
         are followed only to named hosts. Default: none.",
    ),
    key(
        "sinks.folders",
        Kind::Texts,
        "Folders below which files may be written; a relative `target_directory` begins in the \
         first. Symbolic links below them are not followed. The agent's service needs each as \
         `ReadWritePaths=` (systemd/README.md). Default: none.",
    ),
    key(
        "sinks.ca_file",
        Kind::Path,
        "PEM file with the authorities to trust. Default: the system's.",
    ),
    key(
        "sinks.slack_url",
        Kind::Text,
        "Address of Slack's API, for compatible services.",
    )
    .default("https://slack.com/api/"),
    key(
        "sinks.twilio_url",
        Kind::Text,
        "Address of Twilio's API, for compatible services.",
    )
    .default("https://api.twilio.com/"),
    key(
        "sinks.s3_url",
        Kind::Text,
        "Address of your own S3-compatible store, such as MinIO. Default: Amazon's.",
    ),
    key(
        "sinks.max_age_s",
        Kind::Number(10.0, 2_592_000.0),
        "Age at which an effect or a message that did not succeed is given up.",
    )
    .default("86400")
    .unit("s"),
    key(
        "sinks.secrets.*.file",
        Kind::Path,
        "File with the secret in its first line.",
    ),
    key(
        "sinks.secrets.*.credential",
        Kind::Text,
        "Name of a systemd credential of the agent's service (`LoadCredential=`, `systemd-creds`).",
    ),
    key(
        "sinks.secrets.*.env",
        Kind::Text,
        "Name of an environment variable of the agent.",
    ),
    key(
        "sinks.secrets.*.value",
        Kind::Secret,
        "The secret itself; never printed. Prefer one of the other keys.",
    ),
    key(
        "channels.*.kind",
        Kind::Choice(&["webhook", "slack"]),
        "Protocol. `webhook`: a form with the fields `event` (the MQTT message, docs/ref/mqtt.md) \
         and `text` (one sentence), and the file `picture`. `slack`: `{\"text\": …}`, for Slack's \
         incoming webhooks and compatible services.",
    )
    .default("webhook"),
    key(
        "channels.*.url",
        Kind::Secret,
        "Address; never printed. Anyone who knows it can post there, so prefer one of the \
         other keys.",
    ),
    key(
        "channels.*.url_file",
        Kind::Path,
        "File with the address in its first line.",
    ),
    key(
        "channels.*.url_credential",
        Kind::Text,
        "Name of a systemd credential of the agent's service with the address.",
    ),
    key(
        "channels.*.url_env",
        Kind::Text,
        "Name of an environment variable of the agent with the address.",
    ),
    key(
        "channels.*.min_severity",
        Kind::Choice(&["info", "warning", "critical"]),
        "Lowest severity of the events sent there, including camera outages. Default: only events \
         whose rule names the channel.",
    ),
    key(
        "channels.*.notify_end",
        Kind::Switch,
        "Whether the end of an event is sent too.",
    )
    .default("false"),
    key(
        "channels.*.pictures",
        Kind::Switch,
        "Whether pictures are sent. Slack's incoming webhooks take none.",
    )
    .default("true"),
];

/// Returns whether `path` (such as `sources.gate.uri`) matches `pattern` (such as `sources.*.uri`).
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

/// Finds the declaration of a key.
#[must_use]
pub fn find(path: &[&str]) -> Option<&'static Key> {
    KEYS.iter().find(|k| matches(k.path, path))
}

/// Lists the names that may stand directly below `path`; `*` where the user chooses the name. Empty
/// when `path` is no section.
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

/// Describes the allowed values.
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
