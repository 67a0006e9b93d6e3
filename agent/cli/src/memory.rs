//! `watchkeeper memory`: lists, searches and removes notes. Needs no daemon.
//!
//! Only a search loads an embedding model.

use std::path::Path;

use jiff::Timestamp;
use serde_json::json;
use watchkeeper_assistant::notes::Notes;
use watchkeeper_assistant::trace::TRACE_FOLDER;
use watchkeeper_memory::{Found, Kind, MemoryError, Query};

use super::args::{DEFAULT_NOTES, Global, MemoryAction, MemoryArgs, MemoryListArgs};
use super::configuration;
use super::exit::{Exit, Failure};
use super::output::{Output, fitted};
use super::state_folder::state_folder;

/// Maximum length of a note in the table, in characters; `--json` has all of it.
const MAX_SHOWN: usize = 100;

pub(super) fn run(args: MemoryArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    let home = match args.agent {
        true => configuration::read_without_broker(global)?
            .state_dir
            .join(TRACE_FOLDER),
        false => state_folder()?,
    };
    let action = args.action.unwrap_or_else(|| {
        MemoryAction::List(MemoryListArgs {
            limit: DEFAULT_NOTES,
            ..MemoryListArgs::default()
        })
    });
    let notes = match &action {
        MemoryAction::Search { .. } => {
            let config = configuration::read_without_broker(global)?;
            Notes::checked(&home, &config.memory)
        }
        MemoryAction::List(_) | MemoryAction::Forget { .. } => {
            Notes::new(&home, &Default::default())
        }
    };
    if !notes.exist() {
        out.line("no notes yet");
        return match action {
            MemoryAction::Forget { .. } => Err(Failure::input("there are no notes")),
            MemoryAction::List(_) | MemoryAction::Search { .. } => Ok(()),
        };
    }
    match action {
        MemoryAction::List(wanted) => list(&notes, wanted, out),
        MemoryAction::Search { words } => search(&notes, &words.join(" "), out),
        MemoryAction::Forget { place } => forget(&notes, &place.0, place.1, out),
    }
}

fn list(notes: &Notes, wanted: MemoryListArgs, out: &Output) -> Result<(), Failure> {
    let query = Query {
        camera: wanted.camera,
        kinds: wanted.kind.into_iter().map(Kind::from).collect(),
        since: wanted.since,
        until: wanted.until,
        limit: wanted.limit,
        ..Query::new("")
    };
    let mut memory = notes.open().map_err(Failure::failed)?;
    let found = memory.list(&query).map_err(memory_failure)?;
    memory
        .problems()
        .for_each(|problem| out.note(problem.to_string()));
    print(&found, out);
    Ok(())
}

fn search(notes: &Notes, words: &str, out: &Output) -> Result<(), Failure> {
    let query = Query {
        now: Some(Timestamp::now()),
        ..Query::new(words)
    };
    let mut memory = notes.open().map_err(Failure::failed)?;
    let found = memory.search(query).map_err(memory_failure)?;
    print(&found, out);
    Ok(())
}

fn forget(notes: &Notes, file: &Path, line: usize, out: &Output) -> Result<(), Failure> {
    let mut memory = notes.open().map_err(Failure::failed)?;
    let note = memory.note_at(file, line).map_err(memory_failure)?;
    memory.forget(file, line, &note).map_err(memory_failure)?;
    let done = json!({"forgotten": note, "file": file, "line": line});
    out.both(&done, || {
        format!("Removed: {}", one_line(note.words.as_str()))
    });
    Ok(())
}

fn print(found: &[Found], out: &Output) {
    found.iter().for_each(|found| out.object(found));
    if found.is_empty() {
        out.line("no such notes");
        return;
    }
    let rows = found.iter().map(|found| {
        let note = &found.note;
        vec![
            format!("{}:{}", found.file.display(), found.line),
            note.at.map(|at| at.to_string()).unwrap_or_default(),
            found.kind.name().to_owned(),
            note.camera
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            note.origin.to_string(),
            one_line(note.words.as_str()),
        ]
    });
    out.table(
        &["place", "time", "kind", "camera", "words of", "note"],
        rows,
    );
}

fn one_line(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    fitted(words.join(" "), MAX_SHOWN)
}

fn memory_failure(error: MemoryError) -> Failure {
    let exit = match error {
        MemoryError::NoNote { .. } => Exit::BadInput,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string())
}
