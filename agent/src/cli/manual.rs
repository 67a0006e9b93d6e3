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

<!-- Generated from agent/src/cli; UPDATE_DOCS=1 cargo test -p watchkeeper-agent document rewrites it. -->

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

    watchkeeper ask \"tell me when a person crosses the vertical line at 50% on camera gate\"
    watchkeeper ask --confirm ID
    watchkeeper chat

`ask` takes one request, `chat` is a conversation; both speak to the runtime that runs, need no model of language and no network, and read common requests in English:
watch, count, line, zone, stay, hours, cool-down, confidence, change, stop, pause, resume, list, status, what happened. `watchkeeper ask \"what can I say\"` has examples.

- What is looked up is answered at once. What would change something is a *proposal*: what was understood, what was taken for granted, what can't be done, which
  words were not understood, what the engine says to the workflow and its rules, and what would be different from what runs now. Nothing happens before a yes.
- A proposal of the rules with a line or a zone is tried before it is shown: its places are drawn on the camera's picture (in a file, see below), and its rules look at four seconds of the camera. The proposal says what was
  counted, which events there would have been and what failed. Where that speaks against the request one sentence says so: a place that is to become free was never empty, or is empty already; events came one after the other;
  nothing was seen at all. Where a step failed on which it depends, or the trial ended early, it says that it could not be judged. Nothing of it is kept or deployed, and it takes 20 seconds at most. Where it can't be tried the proposal is shown all the same, with the reason. With `--yes` nothing is tried. In JSON it is `tried`.
- The yes is `yes` in the chat, and `ask --confirm ID` within an hour after `ask`. The request is then understood again in what runs at that moment. Where something else
  would come of it, nothing is done, the proposal is shown as it is now, and `ask` ends with code 1. A proposal is carried out once.
- `ask --yes` is for scripts: it does a request as a whole or, with code 2, not at all.
- What is to be done without asking stands in `[agent.policy]` ([configuration.md](configuration.md)), for `ask` and `chat` apart, such as `chat = [\"pause\", \"resume\"]`; nothing is, where nothing stands there.
  The proposal is shown all the same, then `Confirmed by agent.policy.chat: pause.` (in JSON `confirmed`), then what was done. It counts only for your own words, as a whole, about one pipeline and with
  nothing to mind; whatever a model of language had a word in waits for a yes.
- What you say to a proposal that waits corrects it (`make it 30 seconds`, `no, for cars`, `only at night`), in the chat and over the agent's API: it is shown anew. What runs is not meant by it; a correction of which a word is not understood puts the proposal aside.
- What is missing is asked for. The chat waits for the answer; `ask` says it, with what could be answered, and ends with code 2. So does whatever was not understood.
- Zones and lines of pipelines that run are places with a name: a zone `loading_bay` on camera `dock` is \"the loading bay\". Two of the same name and different shape are not.
- A camera of which no picture was seen yet is opened for a moment where a request needs the size of its picture.
- What the rules do not understand goes to the model of language, where `[llm]` names one. First a small one puts it into words that the rules read; that is taken where nothing is left out.
  Else that call says by which blueprint ([blueprints.md](blueprints.md)) a model works on it with tools: a question is answered by one that can only look; to set something up a larger one looks at the
  cameras, writes a workflow, sees it drawn on the real picture, tries it on moving ones and proposes it. `ask --think`, and `/think` in the chat, go there at once, `ask --blueprint NAME` and `/think @NAME` to the one that you name; `--image FILE` and `/image FILE` give it a picture. What it does is shown while it works, with what it cost at the end.
- A model changes nothing. Its proposal is shown with its own sentence, with what the definition *really* is (made by the box), with the preview, what the dry run gave and the difference to
  what runs; it waits for the same yes, and `--yes` does not take it. Whatever keeps the model away is one sentence, and the rules go on. A command that was ended in the middle goes on
  where it was when the same words are said within an hour; nothing is done twice.
- Models of the box are taken in the order: `[models] default`, else `yolox-nano` where it is here; then other networks; then `motion`, which tells no classes apart. Where every source
  is the demo scene it is `motion`, for which its figures are drawn.
- \"remember …\" keeps a sentence of yours, as a preference where you speak of what you want, else as knowledge. Watches that were confirmed are noted too. The notes are Markdown files that you can
  edit; `/memory WORDS` in the chat finds them.

In the chat a line that ends in `\\` goes on in the next one, the tabulator completes commands and names, and the arrows go through what was typed before:

    /status   /streams   /stop PIPELINE   /pause PIPELINE   /resume PIPELINE   /events [COUNT]   /memory WORDS   /think [@NAME] TEXT   /image FILE   /plan   /cost   /trace [COUNT]   /help   /quit

With `--json` the chat reads a line and prints objects with a `type`: `proposal`, `confirmed` (with the key in `by`), `done`, `dropped`, `question`, `answer`, `cameras`, `pipelines`, `status`, `events`, `notes`, `remembered`,
`costs` (of `/cost`: spent and limit, the days, the calls; those of `ask` and `chat` are your own, the agent's are at `GET /v1/cost` of its API), `trace` (an entry of `/trace`),
`note`, `step` (what a model does: `thought`, `action`, `failure`, `plan`), `said` (its words beside a proposal), `failure` (with the exit code that `ask` would have).

`$XDG_STATE_HOME/watchkeeper` (`~/.local/state/watchkeeper`) holds the proposals that wait (16 at most), the notes, the previews of proposals (40 at most), your blueprints, requests that a model works on, the history of the chat and the trace: what was asked, proposed, confirmed
and done, without passwords, in two files of 1 MiB at most. `watchkeeper trace` prints it. Only its owner can look into the folder.
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
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ref/cli.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, document()).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == document(),
            "docs/ref/cli.md is out of date; UPDATE_DOCS=1 cargo test -p watchkeeper-agent document"
        );
    }
}
