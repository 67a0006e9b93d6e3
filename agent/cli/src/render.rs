//! Prints the progress of a session: as text, or with `--json` as objects without signs of life.

use jiff::tz::TimeZone;
use watchkeeper_contract::pipeline::PipelineStatus;
use watchkeeper_contract::source::SourceStatus;

use super::events::{self, Clock};
use super::output::Output;
use super::{remote, trace};
use watchkeeper_assistant::operations::proposed_action::ProposedActions;
use watchkeeper_assistant::past::PastAnswer;
use watchkeeper_assistant::proposal::counts::{counts_present, format_counts};
use watchkeeper_assistant::proposal::llm_proposal::words;
use watchkeeper_assistant::session::progress::{ProgressEvent, ProgressSink};
use watchkeeper_assistant::session::user_session::Session;

impl ProgressSink for Output {
    fn report(&self, event: ProgressEvent<'_>) {
        match &event {
            ProgressEvent::Busy(text) => self.busy(*text),
            ProgressEvent::Idle => self.end_live_line(),
            // One line per LLM call would bury its steps; the end has the total.
            ProgressEvent::Spent(_) => {}
            ProgressEvent::Note(text) => self.note(text),
            ProgressEvent::StillPending => self.line("The proposal is still pending: yes or no?"),
            told if self.is_json() => self.object(&told.to_json()),
            told => show(told, self),
        }
    }
}

/// Prints an event as text; `tell` handles the signs of life.
fn show(event: &ProgressEvent<'_>, out: &Output) {
    match event {
        ProgressEvent::Busy(_)
        | ProgressEvent::Idle
        | ProgressEvent::Spent(_)
        | ProgressEvent::Note(_)
        | ProgressEvent::StillPending => {}
        ProgressEvent::Step(step, line, _) => out.step(*step, line),
        ProgressEvent::LlmComment(line, _)
        | ProgressEvent::Done(line, _)
        | ProgressEvent::Text(line) => out.line(line),
        ProgressEvent::Proposal(offer, _, hint) => {
            for line in offer.lines() {
                out.line(line);
            }
            if !hint.is_empty() {
                out.line(hint);
            }
        }
        ProgressEvent::Actions(made, id) => show_actions(made, *id, out),
        ProgressEvent::Operation(step) => out.line(words(&step.result)),
        ProgressEvent::Question(question, here) => {
            out.line(Session::question_error(question, here).to_string())
        }
        ProgressEvent::Confirmed(permit) => out.line(format!(
            "Confirmed by {}: {}.",
            permit.key(),
            permit.kind().name()
        )),
        ProgressEvent::Dropped => out.line("Discarded. Nothing was changed."),
        ProgressEvent::Answer(text) => {
            let lines: Vec<String> = text.lines().map(words).collect();
            out.line(lines.join("\n"));
        }
        ProgressEvent::NoteSaved(kind, file) => out.line(format!(
            "Saved as {} in {file}; edit it there.",
            kind.name()
        )),
        ProgressEvent::Notes(found) => notes(found, out),
        ProgressEvent::Cameras([]) => {
            out.line("No cameras yet. To add one: watchkeeper cameras add ID ADDRESS")
        }
        ProgressEvent::Cameras(sources) => remote::source_table(sources, out),
        ProgressEvent::Pipelines([], otherwise) => out.line(otherwise),
        ProgressEvent::Pipelines(pipelines, _) => remote::pipeline_table(pipelines, out),
        ProgressEvent::Status(here) => {
            print_counts(&here.pipelines, &here.sources, out);
            remote::show_status(&here.health, &here.sources, &here.pipelines, out);
        }
        ProgressEvent::Camera(sources, name, pipelines) => {
            show_camera(sources, name, pipelines, out);
        }
        ProgressEvent::Events(answer, understood) => show_events(answer, understood, out),
        ProgressEvent::Picture(_, file) => out.line(format!("Saved {}", file.display())),
        ProgressEvent::Record(record) => events::show_record(record, Clock::Wall, out),
        ProgressEvent::Cost(cost) => out.line(cost.lines().join("\n")),
        ProgressEvent::TraceEntry(entry) => out.line(trace::line(entry)),
        ProgressEvent::Failure(failure) => out.line(failure.to_string()),
    }
}

/// Prints actions that wait for a yes, and the model that proposes them.
fn show_actions(made: &ProposedActions, id: Option<&str>, out: &Output) {
    let by = made.model.as_ref();
    let by = by.map_or_else(String::new, |model| {
        format!(" (proposed by {})", words(model))
    });
    for action in &made.actions {
        out.line(format!("To confirm{by}: {}", words(&action.describe())));
    }
    out.line(match id {
        Some(id) => {
            format!("Nothing is done yet. To do it (valid 1 h): watchkeeper ask --confirm {id}")
        }
        None => "Nothing is done yet. Do it? yes or no".to_owned(),
    });
}

/// Prints a camera, called `name`, and its pipelines.
fn show_camera(sources: &[SourceStatus], name: &str, pipelines: &[PipelineStatus], out: &Output) {
    print_counts(pipelines, sources, out);
    remote::source_table(sources, out);
    if pipelines.is_empty() {
        out.line(format!("No watch runs on {name}."));
    } else {
        out.line("");
        remote::pipeline_table(pipelines, out);
    }
}

/// Prints the counts of pipelines, which may be the answer, before what follows. The totals of a
/// line are not how many are there now.
fn print_counts(pipelines: &[PipelineStatus], sources: &[SourceStatus], out: &Output) {
    let counts = pipelines.iter().filter_map(|p| format_counts(p, sources));
    let lines: Vec<String> = counts.collect();
    if lines.is_empty() {
        return;
    }
    if !pipelines.iter().any(counts_present) {
        out.line("No watch here counts who is there now.");
    }
    lines.iter().for_each(|line| out.line(line));
    out.line("");
}

fn show_events(answer: &PastAnswer, understood: &str, out: &Output) {
    out.line(answer.text(understood, &TimeZone::system()));
    let lines = answer.found.events.iter();
    for line in lines.filter_map(|event| events::line(event, Clock::Wall)) {
        out.line(line);
    }
}

fn notes(found: &[watchkeeper_memory::Found], out: &Output) {
    if found.is_empty() {
        out.line("No matching notes.");
    }
    for note in found {
        let at = note.note.at.map(|at| at.to_zoned(TimeZone::system()));
        let at = at.map_or_else(|| "–".to_owned(), |at| at.strftime("%F %R").to_string());
        let origin = if note.trusted {
            ""
        } else {
            " (not written by a user)"
        };
        out.line(format!(
            "{at}  {}{origin}: {}",
            note.kind.name(),
            note.note.words
        ));
    }
}
