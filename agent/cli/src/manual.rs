//! Completion scripts, man pages and `docs/ref/cli.md`, all from the declaration of the flags.

use std::path::Path;

use clap::CommandFactory;

use super::args::Cli;
use super::exit::{Exit, Failure};
use super::output::Output;

/// `watchkeeper completions`.
pub(super) fn completions(shell: clap_complete::Shell, out: &Output) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "watchkeeper", &mut script);
    out.page(String::from_utf8_lossy(&script).trim_end());
}

/// `watchkeeper man`.
pub(super) fn man(dir: Option<&Path>, out: &Output) -> Result<(), Failure> {
    let failed =
        |e: std::io::Error| Failure::new(Exit::Failed, format!("can't write the man pages: {e}"));
    match dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(failed)?;
            clap_mangen::generate_to(Cli::command(), dir).map_err(failed)?;
            out.line(format!("the man pages are in {}", dir.display()));
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(failed)?;
            out.page(String::from_utf8_lossy(&page).trim_end());
        }
    }
    Ok(())
}

/// `docs/ref/cli.md` as Markdown.
#[must_use]
pub fn document() -> String {
    let mut doc = String::from(HEAD);
    doc.push_str("| Code | Meaning |\n|---|---|\n");
    for exit in Exit::ALL {
        doc.push_str(&format!("| {} | {} |\n", exit.code(), exit.meaning()));
    }
    doc.push_str(RUN);
    doc.push_str(ASK);
    doc.push_str(JSON);
    doc.push_str("\n## Commands\n");
    let mut command = Cli::command().term_width(100);
    command.build();
    describe(&mut command, "watchkeeper", &mut doc);
    doc
}

fn describe(command: &mut clap::Command, path: &str, doc: &mut String) {
    // Help ends some lines with blanks; a document that is compared to the byte must not depend on them.
    let help = command.render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    doc.push_str(&format!(
        "\n### {path}\n\n```text\n{}\n```\n",
        help.join("\n").trim_end()
    ));
    for sub in command.get_subcommands_mut() {
        if !sub.is_hide_set() && sub.get_name() != "help" {
            let path = format!("{path} {}", sub.get_name());
            describe(sub, &path, doc);
        }
    }
}

const HEAD: &str = "# The command `watchkeeper`

<!-- Generated from agent/cli; UPDATE_DOCS=1 cargo test -p watchkeeper-cli document rewrites it. -->

Results go to standard output, notes and errors to standard error. `watchkeeper completions bash|zsh|fish` prints a
completion script, `watchkeeper man --dir DIR` writes man pages.

## Exit codes

";

const RUN: &str = "
## What a run prints

Lines on standard output are events as they happen: second of the source, rule, what happened, the verdict and its confidence
([rules.md](rules.md) says what each means). The rules are those of `--rule`, else they follow from the workflow: each `--line`
tells every crossing, each `--zone` who enters and who stays. With neither, and without `--rule`, whatever appears is an event: the first
appearance is a line at once, those of the next five seconds are one line together, with how many there were so far. With
`--json` nothing is gathered: every record is a line. The last lines are the counts; on a terminal they are also the live line below.

## When a run ends

- At the end of a recording; with `--for SECONDS` at that second of the source, counted from its first frame; with Ctrl-C after
  the frame at hand; when somebody closes the window of `--show`. Whatever ended it, every event is printed before the summary.
- At once, with code 2, where a line or zone lies outside the picture: it could never count anything. One that only reaches out of
  the picture is a note.
- At once, with code 4, where trying again does not help: a wrong password (again and again it would lock the account), an address or
  device that does not exist, or one that this user may not open.
- Everything else that a camera can do is tried again for ever: a refused connection, a host that does not answer, a stream that
  stalls. Before the first frame that is a note at once, after 10, 30 and 60 s, and then each time the wait has doubled; afterwards it is an event.
  `--for` ends the waiting too, on the clock.
- A broker in `--mqtt` that can't be used is a note with the reason, the run goes on, and at the end code 5 and a sentence say how
  many messages were not delivered.

`run` draws boxes, labels, lines and zones into `--video`, `--show` and the pictures of events; a workflow that draws by itself is left
as it is. State lies in a folder under `$TMPDIR` that is removed at the end; what a killed run left behind, the next one removes.
`--keep-state DIR` keeps it.

## A broker of one's own

    WATCHKEEPER_MQTT__PASSWORD_FILE=mqtt.password watchkeeper run demo: --mqtt mqtts://gate-1@broker.local

`--mqtt [mqtt[s]://][USER@]HOST[:PORT]`. Without a port it is 1883, with `mqtts://` 8883. A `@` in the name is written `%40`, an IPv6
address in brackets. The password comes from `WATCHKEEPER_MQTT__PASSWORD`, or from the first line of the file in
`WATCHKEEPER_MQTT__PASSWORD_FILE`; in the address it is refused, because every user of the machine can read a command line. The other
keys of [mqtt] in [configuration.md](configuration.md) are variables in the same way, such as `WATCHKEEPER_MQTT__CA_FILE` for an authority
that the system does not know. The `[mqtt]` of the configuration file is about the box's own broker and says nothing here: its password goes to no
other. Messages are at site `run` ([mqtt.md](mqtt.md) describes them); two runs of one machine at the same time need names of their own
(`WATCHKEEPER_BOX__ID`). At its end a run clears what it retained, but for its `state` (`stopped`) and answers to commands. What is written down of a run
holds no password.

## Which folder holds the models

`--models-dir`, else `[models] dir` of the configuration. Where neither is said, models are looked for in two folders: the user's own,
`$XDG_DATA_HOME/watchkeeper/models` (`~/.local/share/watchkeeper/models`), and then the box's, `/var/lib/watchkeeper/models`; for root there is
only the latter. `models pull` and `models add` write to the first of them. `run`, `workflow run` and the daemons follow the same rule. The
daemons of an installed box are a user of their own, so what they shall find is put there by `sudo watchkeeper models pull NAME`.
";

const ASK: &str = "
## Asking in plain words

`ask` takes one request in English, `chat` is a conversation. [plain-words.md](../guide/plain-words.md) says what they
understand, what happens before anything changes, and what `chat --json` prints.
";

const JSON: &str = r#"
## JSON

With `--json` standard output holds one object a line and nothing else. `run` prints

    {"type":"note","message":…}                      something worth knowing
    {"type":"event","id":…,"seq":…,"phase":…,…}      a record of the journal, as the runtime wrote it
    {"type":"summary","frames":…,"seconds":…,"fps":…,"tracks":…,
     "lines":{NAME:{"in":…,"out":…}},
     "zones":{NAME:{"visits":[{"track":…,"enter_s":…,"dwell_s":…}]}},
     "events":…}                                     always the last line

`seconds` is source time, `fps` are frames a second of processing. A crossing is `in` when it leads from the right hand of
the line to its left hand, looking from its start to its end. A zone lists its latest 1000 visits; `enter_s` is source time.
With `--workflow` the summary also has `"outputs":{NAME:…}`: the workflow's outputs at the last frame, boxes and all, pictures by their size.
A run that fails before the first frame prints no summary; the sentence on standard error and the exit code say why.

`workflow validate` prints one object (its `warnings` are what has no effect, or can't do what was meant), `workflow run` one list with an object for each picture, `workflow replay` one list
with an object for each frame. [workflows.md](workflows.md#recorded-detections) says how detections are recorded.
"#;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
    use super::*;

    #[test]
    fn the_document_of_the_command_is_current() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ref/cli.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, document()).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == document(),
            "docs/ref/cli.md is out of date; UPDATE_DOCS=1 cargo test -p watchkeeper-cli document"
        );
    }
}
