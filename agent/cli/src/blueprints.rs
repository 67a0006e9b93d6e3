//! `watchkeeper blueprints`: which jobs a model of language has, and what each may use and spend. Needs no daemon.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{IsTerminal as _, Read as _};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::args::{BlueprintAction, BlueprintArgs, Global};
use super::configuration;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::state_folder::state_folder;
use watchkeeper_assistant::blueprint::store::{
    BlueprintEntry, BlueprintOrigin, BlueprintStoreError,
};
use watchkeeper_assistant::blueprint::{Blueprint, BlueprintName, BlueprintStore, MAX_BYTES};
use watchkeeper_assistant::trace::TRACE_FOLDER;
use watchkeeper_assistant::wording::cut;

/// Longest sentence of the table, in characters.
const SHOWN: usize = 70;

/// Carries out the command.
pub(super) fn run(args: BlueprintArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    let home = match args.agent {
        true => configuration::read_without_broker(global)?
            .state_dir
            .join(TRACE_FOLDER),
        false => state_folder()?,
    };
    let shelf = BlueprintStore::new(&home);
    match args.action.unwrap_or(BlueprintAction::List) {
        BlueprintAction::List => list(&shelf, out),
        BlueprintAction::Show { name } => show(&shelf, &name, out),
        BlueprintAction::Create { name, from } => {
            let made = shelf.create(&name, &read(&from)?)?;
            changed(&made, "created", out);
            Ok(())
        }
        BlueprintAction::Update { name, from } => {
            let made = match from {
                Some(from) => shelf.update(&name, &read(&from)?)?,
                None if !std::io::stdin().is_terminal() => {
                    shelf.update(&name, &read(Path::new("-"))?)?
                }
                None => edit(&shelf, &name, &editor()?)?,
            };
            changed(&made, "updated", out);
            Ok(())
        }
        BlueprintAction::Duplicate { name, new } => {
            let made = shelf.duplicate(&name, &new)?;
            changed(&made, "created", out);
            Ok(())
        }
        BlueprintAction::Delete { name } => {
            let serves_again = shelf.delete(&name)?;
            let done = json!({"deleted": name, "built_in_serves": serves_again});
            out.both(&done, || match serves_again {
                true => format!("{name}: the file is deleted, the built-in blueprint serves again"),
                false => format!("{name} is deleted"),
            });
            Ok(())
        }
    }
}

fn list(shelf: &BlueprintStore, out: &Output) -> Result<(), Failure> {
    let (all, notes) = shelf.list()?;
    all.iter().for_each(|listed| out.object(&object(listed)));
    let rows = all.iter().map(|listed| {
        let (job, limits, when) = match &listed.serves {
            Some(b) => (
                b.job.name(),
                format!(
                    "{} calls, ${:.2}, {}",
                    b.steps,
                    b.cost.dollars(),
                    b.model.name()
                ),
                cut(b.when.clone(), SHOWN),
            ),
            None => ("–", String::new(), String::new()),
        };
        vec![
            listed.name.to_string(),
            job.to_owned(),
            from(listed.origin).to_owned(),
            limits,
            when,
        ]
    });
    out.table(&["blueprint", "job", "from", "limits", "when"], rows);
    for note in notes
        .into_iter()
        .chain(all.iter().filter_map(BlueprintEntry::trouble))
    {
        out.note(note);
    }
    Ok(())
}

fn show(shelf: &BlueprintStore, name: &str, out: &Output) -> Result<(), Failure> {
    let listed = shelf.get(name)?;
    if let Some(trouble) = listed.trouble() {
        if listed.serves.is_none() {
            let lines = listed.flaws.iter().map(ToString::to_string);
            let file = shelf.folder().join(format!("{}.md", listed.name));
            let sentence = format!(
                "the blueprint {name} can't be used; mend {}",
                file.display()
            );
            return Err(Failure::input(sentence).with(lines));
        }
        out.note(trouble);
    }
    let mut whole = object(&listed);
    whole["text"] = Value::from(listed.text.as_str());
    out.both(&whole, || listed.text.trim_end().to_owned());
    Ok(())
}

/// A blueprint as programs get it.
fn object(listed: &BlueprintEntry) -> Value {
    let mut object = json!({"blueprint": listed.name, "from": listed.origin});
    if let Some(b) = &listed.serves {
        object["job"] = json!(b.job);
        object["when"] = json!(b.when);
        object["tools"] = json!(b.tools);
        object["model"] = json!(b.model);
        object["limits"] = json!({"steps": b.steps, "cost_usd": b.cost.dollars()});
    }
    if !listed.flaws.is_empty() {
        object["flaws"] = json!(listed.flaws);
    }
    object
}

const fn from(origin: BlueprintOrigin) -> &'static str {
    match origin {
        BlueprintOrigin::BuiltIn => "built in",
        BlueprintOrigin::File => "file",
        BlueprintOrigin::FileInPlace => "file in place of the built-in one",
        BlueprintOrigin::BuiltInForDamaged => "built in; its file is damaged",
        BlueprintOrigin::Damaged => "damaged file",
    }
}

fn changed(made: &Blueprint, what: &str, out: &Output) {
    let done = json!({what: made.name, "job": made.job, "tools": made.tools});
    out.both(&done, || {
        format!(
            "{} is {what}: job {}, {} tools, at most {} calls of a {} model and ${:.2} for one request",
            made.name,
            made.job.name(),
            made.tools.len(),
            made.steps,
            made.model.name(),
            made.cost.dollars()
        )
    });
}

/// The text of a file, or of standard input for `-`; of what is too long, as much as shows it.
fn read(from: &Path) -> Result<String, Failure> {
    let failed = |why: String| Failure::input(format!("can't read {}: {why}", from.display()));
    let mut text = String::new();
    let most = MAX_BYTES as u64 + 1;
    let read = match from == Path::new("-") {
        true => std::io::stdin().take(most).read_to_string(&mut text),
        false => File::open(from).and_then(|file| file.take(most).read_to_string(&mut text)),
    };
    read.map_err(|e| failed(e.to_string()))?;
    Ok(text)
}

/// The person's editor.
fn editor() -> Result<OsString, Failure> {
    let named = ["VISUAL", "EDITOR"].iter().find_map(std::env::var_os);
    named.filter(|editor| !editor.is_empty()).ok_or_else(|| {
        Failure::input("no editor is named: set EDITOR, or give the new text by --from FILE or on standard input")
    })
}

/// Has an editor change the text. What is no blueprint afterwards is kept in a file, which is told.
fn edit(
    shelf: &BlueprintStore,
    name: &BlueprintName,
    editor: &OsStr,
) -> Result<Blueprint, Failure> {
    let before = shelf.get(name.as_str())?.text;
    let failed = |e: std::io::Error| Failure::new(Exit::Failed, format!("can't edit {name}: {e}"));
    let file = tempfile::Builder::new()
        .prefix(&format!("{name}-"))
        .suffix(".md")
        .tempfile()
        .map_err(failed)?;
    std::fs::write(file.path(), &before).map_err(failed)?;
    // By a shell, as git does: an editor may be named with arguments.
    let mut command = Command::new("sh");
    let script = format!("{} \"$1\"", editor.to_string_lossy());
    let ended = command
        .args(["-c", &script, "sh"])
        .arg(file.path())
        .status();
    let ended = ended.map_err(failed)?;
    if !ended.success() {
        return Err(Failure::new(
            Exit::Failed,
            format!("the editor ended with {ended}; nothing was changed"),
        ));
    }
    let after = read(file.path())?;
    shelf.update(name, &after).map_err(|error| {
        let failure = Failure::from(error);
        match file.keep() {
            Ok((_, path)) => failure.with([format!(
                "what you wrote is kept in {}; mend it and give it by --from",
                path.display()
            )]),
            Err(_) => failure,
        }
    })
}

impl From<BlueprintStoreError> for Failure {
    fn from(error: BlueprintStoreError) -> Self {
        match error {
            BlueprintStoreError::Io { .. } | BlueprintStoreError::Foreign { .. } => {
                Self::new(Exit::Failed, error.to_string())
            }
            BlueprintStoreError::Invalid(flaws) => {
                let lines = flaws.iter().map(ToString::to_string);
                Self::input("this is no blueprint").with(lines)
            }
            BlueprintStoreError::Unknown { .. }
            | BlueprintStoreError::Taken { .. }
            | BlueprintStoreError::BuiltIn(_)
            | BlueprintStoreError::Full => Self::input(error.to_string()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use watchkeeper_assistant::blueprint::{Job, built_in};

    #[test]
    fn an_editor_changes_one_and_what_it_broke_is_kept_elsewhere() {
        let home = tempfile::tempdir().unwrap();
        let (shelf, name) = (
            BlueprintStore::new(home.path()),
            BlueprintName::new("question").unwrap(),
        );
        let by = |script: &str| edit(&shelf, &name, OsStr::new(script));
        assert_eq!(by("sed -i 's/steps = 8/steps = 3/'").unwrap().steps, 3);
        assert_eq!(shelf.serving(Job::Question).unwrap().0.steps, 3);
        let broken = by("sed -i 's/steps = 3/steps = 300/'").unwrap_err();
        let told = broken.to_string();
        assert!(
            told.contains("limits.steps = 300") && told.contains("is kept in"),
            "{told}"
        );
        let kept = broken.details.last().unwrap();
        let path = kept
            .split_once("kept in ")
            .unwrap()
            .1
            .split_once(';')
            .unwrap()
            .0;
        assert!(
            std::fs::read_to_string(path)
                .unwrap()
                .contains("steps = 300")
        );
        std::fs::remove_file(path).unwrap();
        assert!(
            by("false")
                .unwrap_err()
                .sentence
                .contains("nothing was changed")
        );
        assert_eq!(shelf.serving(Job::Question).unwrap().0.steps, 3);
        assert_ne!(
            shelf.get("question").unwrap().text,
            built_in::text(Job::Question)
        );
    }
}
