//! Generates `docs/ref/cli.md` from the declaration of the flags. Only tests use it.

#![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::Exit;

/// Generates the page `docs/ref/cli.md`.
fn document() -> String {
    let mut doc = String::from(HEAD);
    doc.push_str("| Code | Meaning |\n|---|---|\n");
    doc.push_str(&format!("| 0 | {SUCCESS} |\n"));
    for exit in EXITS {
        doc.push_str(&format!("| {} | {} |\n", exit.code(), meaning(exit)));
    }
    doc.push_str(RUN);
    doc.push_str(ASK);
    doc.push_str(JSON);
    doc.push_str(COMMANDS);
    let mut command = Cli::command().term_width(100);
    command.build();
    describe(&mut command, "watchkeeper", &mut doc);
    doc
}

/// Hides the options that each command has.
fn without_common_options(command: &mut clap::Command) {
    *command = std::mem::take(command).mut_args(|arg| {
        let is_common = arg.is_global_set() || matches!(arg.get_id().as_str(), "help" | "version");
        arg.hide(is_common)
    });
}

fn describe(command: &mut clap::Command, path: &str, doc: &mut String) {
    // clap ends some lines with blanks.
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    doc.push_str(&format!(
        "\n### {path}\n\n```text\n{}\n```\n",
        help.join("\n").trim_end()
    ));
    for sub in command.get_subcommands_mut() {
        if !sub.is_hide_set() && sub.get_name() != "help" {
            let path = format!("{path} {}", sub.get_name());
            without_common_options(sub);
            describe(sub, &path, doc);
        }
    }
}

const SUCCESS: &str = "Success. For `run`: the source ended, `--for` passed, the window was \
     closed, or Ctrl-C; images of a folder that can't be read are named and left out.";

/// Failures in the order of their codes.
const EXITS: [Exit; 5] = [
    Exit::Failed,
    Exit::BadInput,
    Exit::NoRuntime,
    Exit::Source,
    Exit::Undelivered,
];

/// What a failure means; a new one goes into [`EXITS`] too.
const fn meaning(exit: Exit) -> &'static str {
    match exit {
        Exit::Failed => "The command failed; standard error has the reason.",
        Exit::BadInput => {
            "Invalid input: a flag, a missing file, a file that is not a video, an unknown model, \
             or a workflow that does not compile."
        }
        Exit::NoRuntime => {
            "The runtime is not reachable, or a program that `run` needs is missing or does not \
             start."
        }
        Exit::Source => {
            "The camera or file failed: connection refused, unreachable, wrong password, or it \
             broke off."
        }
        Exit::Undelivered => {
            "`run`: the run is complete, but the broker of `--mqtt` did not acknowledge every \
             event, or an effect of the workflow that `[sinks]` allows failed."
        }
    }
}

const HEAD: &str = "# The command `watchkeeper`

<!-- Generated from agent/cli; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-cli document rewrites it. -->

Results go to standard output, notes and errors to standard error. `watchkeeper completions
bash|zsh|fish` prints a completion script.

## Exit codes

";

const RUN: &str = "
## Output of a run

Each line on standard output is an event: second of the source, rule, reason, and in parentheses
verdict and confidence ([rules.md](rules.md) explains them). The rules are those of `--rule`. Without
it they follow from the workflow: each `--line` reports every crossing, each `--zone` who enters and
who stays.

Without line, zone and rule, every new object is an event. The first is a line at once; those of the
next 5 seconds share one line, with the total so far. With `--json` every record is a line of its own.

The last lines are the counts. On a terminal a live line shows them during the run.

## End of a run

| Cause | Result |
|---|---|
| end of the file, `--for SECONDS` of source time, Ctrl-C, or the window of `--show` closed | all events are printed, then the counts |
| a line or zone outside the picture | code 2 at once; one that is partly outside is a note |
| wrong password, unknown address or device, permission denied | code 4 at once; repeated attempts could lock the account |
| other failures of a camera: connection refused, no answer, stalled stream | retried without end; `--for` ends the wait by the clock |
| a failing broker in `--mqtt` | a note with the reason; code 5 at the end, with the number of undelivered messages |

Before the first frame, a failing camera is a note at once, after 10, 30 and 60 s, and then at doubled
intervals. Later it is an event; as text, only the reconnection is printed.

`run` draws boxes, labels, lines and zones into `--video`, `--show` and the snapshots of events,
unless the workflow has drawing steps of its own. State is in a folder under `$TMPDIR`, which the end
of the run removes; the next run removes that of a killed one. `--keep-state DIR` keeps it.

## Publish to a broker

    WATCHKEEPER_MQTT__PASSWORD_FILE=mqtt.password watchkeeper run demo: --mqtt mqtts://gate-1@broker.local

- `--mqtt [mqtt[s]://][USER@]HOST[:PORT]`; the port is 1883, with `mqtts://` 8883. Write `@` in the
  user name as `%40`, and an IPv6 address in brackets.
- The password is in `WATCHKEEPER_MQTT__PASSWORD`, or on the first line of the file in
  `WATCHKEEPER_MQTT__PASSWORD_FILE`. In the address it is refused, because every user of the machine
  can read a command line. No file of a run contains it.
- The other keys of [mqtt] in [configuration.md](configuration.md) are variables too, such as
  `WATCHKEEPER_MQTT__CA_FILE` for a private certificate authority. The `[mqtt]` section of the
  configuration file is ignored: it names the box's broker.
- Topics have the site `run`; [mqtt.md](mqtt.md) describes them. Two runs at the same time need
  different names (`WATCHKEEPER_BOX__ID`).
- At its end a run clears what it retained, except `state` (`stopped`) and answers to commands.

## Folder of the models

`--models-dir`, else `[models] dir` of the configuration. Without both, two folders are searched:

1. the user's, `$XDG_DATA_HOME/watchkeeper/models` (`~/.local/share/watchkeeper/models`), not for root;
2. the box's, `/var/lib/watchkeeper/models`.

`models pull` and `models add` write to the first. The daemons of an installed box have their own user:
install models for them with `sudo watchkeeper models pull NAME`.
";

const ASK: &str = "
## Plain English

`ask` takes one request in English, `chat` is a conversation.
[plain-words.md](../guide/plain-words.md) describes what they understand, how changes are confirmed,
and what `chat --json` prints.
";

const JSON: &str = r#"
## JSON

With `--json` standard output has one object a line and nothing else. `run` prints

    {"type":"note","message":…}                      information
    {"type":"event","id":…,"seq":…,"phase":…,…}      a record of the journal, as the runtime wrote it
    {"type":"summary","frames":…,"seconds":…,"fps":…,"tracks":…,
     "lines":{NAME:{"in":…,"out":…}},
     "zones":{NAME:{"visits":[{"track":…,"enter_s":…,"dwell_s":…}]}},
     "events":…,"without_event":{REASON:…}}          always the last line

- `seconds` and `enter_s` are source time; `fps` is frames processed per second.
- A crossing is `in` from the right to the left of the line, seen from its start to its end.
- A zone lists its latest 1000 visits.
- `without_event` counts what a rule watched for and that made no event: `too_weak`, `cooling_down`,
  `inactive` (outside of the schedule), `not_accepted` (a class or score that the rule does not
  accept), `in_ignored_area`, `over_hourly_limit` (of `max_per_hour`). It is absent if all made one.
  With one rule a line's crossings, or a zone's visits, are its events and these together.
- With `--workflow` the summary has `"outputs":{NAME:…}`: the workflow's outputs at the last frame;
  pictures as their size.
- A run that fails before the first frame prints no summary; see standard error and the exit code.

A command that fails before it printed a result prints this instead, also for an invalid flag:

    {"type":"failure","message":…,"details":[…],"exit":2}

`workflow validate` prints one object; its `warnings` name steps without effect or with an unintended
one. `workflow run` prints one list with an object per picture, `workflow replay` one list with an
object per frame. [workflows.md](workflows.md#recorded-detections) describes recorded detections.
"#;

const COMMANDS: &str = "
## Commands

Every command takes the options of `watchkeeper`; they are listed once.
";

#[test]
fn generated_document_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ref/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == document(),
        "docs/ref/cli.md is out of date; UPDATE_DOCS=1 cargo nextest run -p watchkeeper-cli document"
    );
}
