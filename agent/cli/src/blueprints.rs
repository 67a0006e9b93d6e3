//! `watchkeeper blueprints`: manages the blueprints of LLM jobs. Needs no daemon.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::args::{BlueprintAction, BlueprintArgs, Global};
use super::configuration;
use super::exit::Failure;
use super::output::{Output, fitted};
use super::state_folder::state_folder;
use super::user_file::read_text;
use watchkeeper_assistant::blueprint::store::{BlueprintEntry, BlueprintOrigin};
use watchkeeper_assistant::blueprint::{Blueprint, BlueprintName, BlueprintStore, MAX_BYTES};
use watchkeeper_assistant::llm::refused_model;
use watchkeeper_assistant::trace::TRACE_FOLDER;
use watchkeeper_config::LlmConfig;

/// Maximum length of a sentence in the table, in characters.
const MAX_SHOWN: usize = 70;

pub(super) fn run(args: BlueprintArgs, global: &Global, out: &Output) -> Result<(), Failure> {
    // An invalid configuration is reported by the commands that need it.
    let llm = configuration::read_usable(global).llm;
    let llm = llm.as_ref();
    let home = match args.agent {
        true => configuration::read_without_broker(global)?
            .state_dir
            .join(TRACE_FOLDER),
        false => state_folder()?,
    };
    let store = BlueprintStore::new(&home);
    match args.action.unwrap_or(BlueprintAction::List) {
        BlueprintAction::List => list(&store, llm, out),
        BlueprintAction::Show { name } => show(&store, &name, out),
        BlueprintAction::Create { name, from } => {
            let made = store.create(&name, &read_text(&from, MAX_BYTES)?)?;
            report_change(&made, "created", llm, out);
            Ok(())
        }
        BlueprintAction::Update { name, from } => {
            let made = match from {
                Some(from) => store.update(&name, &read_text(&from, MAX_BYTES)?)?,
                None if !std::io::stdin().is_terminal() => {
                    store.update(&name, &read_text(Path::new("-"), MAX_BYTES)?)?
                }
                None => edit(&store, &name, &editor()?)?,
            };
            report_change(&made, "updated", llm, out);
            Ok(())
        }
        BlueprintAction::Duplicate { name, new } => {
            let made = store.duplicate(&name, &new)?;
            report_change(&made, "created", llm, out);
            Ok(())
        }
        BlueprintAction::Delete { name } => {
            let is_built_in = store.delete(&name)?;
            let done = json!({"deleted": name, "built_in_serves": is_built_in});
            out.both(&done, || match is_built_in {
                true => {
                    format!("Deleted the file of {name}; the built-in blueprint is in use again")
                }
                false => format!("Deleted blueprint {name}"),
            });
            Ok(())
        }
    }
}

fn list(store: &BlueprintStore, llm: Option<&LlmConfig>, out: &Output) -> Result<(), Failure> {
    let (all, notes) = store.list()?;
    all.iter().for_each(|listed| out.object(&object(listed)));
    let rows = all.iter().map(|listed| {
        let (job, limits, when) = match &listed.serves {
            Some(b) => (
                b.job.name(),
                format!(
                    "{} calls, ${:.2}, {}",
                    b.steps,
                    b.cost.dollars(),
                    b.model_name()
                ),
                fitted(b.when.clone(), MAX_SHOWN),
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
        .chain(
            all.iter()
                .filter_map(|listed| refused_model(listed.serves.as_ref()?, llm)),
        )
    {
        out.note(note);
    }
    Ok(())
}

fn show(store: &BlueprintStore, name: &str, out: &Output) -> Result<(), Failure> {
    let listed = store.get(name)?;
    if let Some(trouble) = listed.trouble() {
        if listed.serves.is_none() {
            let lines = listed.flaws.iter().map(ToString::to_string);
            let file = store.folder().join(format!("{}.md", listed.name));
            let sentence = format!("blueprint {name} is invalid; correct {}", file.display());
            return Err(Failure::input(sentence).with(lines));
        }
        out.note(trouble);
    }
    let mut whole = object(&listed);
    whole["text"] = Value::from(listed.text.as_str());
    out.both(&whole, || listed.text.trim_end().to_owned());
    Ok(())
}

fn object(listed: &BlueprintEntry) -> Value {
    let mut object = json!({"blueprint": listed.name, "from": listed.origin});
    if let Some(b) = &listed.serves {
        object["job"] = json!(b.job);
        object["when"] = json!(b.when);
        object["tools"] = json!(b.tools);
        object["model"] = json!(b.model_name());
        object["plan_required"] = json!(b.plan_required);
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
        BlueprintOrigin::FileInPlace => "file, overrides the built-in",
        BlueprintOrigin::BuiltInForDamaged => "built in; its file is invalid",
        BlueprintOrigin::Damaged => "invalid file",
    }
}

/// Reports a change; `what` is the participle, such as `created`.
fn report_change(made: &Blueprint, what: &str, llm: Option<&LlmConfig>, out: &Output) {
    let done = json!({what: made.name, "job": made.job, "tools": made.tools});
    out.both(&done, || {
        format!(
            "{}: {what}. Job {}, {} tools; limits per request: {} calls of the model {}, ${:.2}",
            made.name,
            made.job.name(),
            made.tools.len(),
            made.steps,
            made.model_name(),
            made.cost.dollars()
        )
    });
    if let Some(why) = refused_model(made, llm) {
        out.note(why);
    }
}

/// Returns the user's editor command.
fn editor() -> Result<OsString, Failure> {
    let editor = ["VISUAL", "EDITOR"].iter().find_map(std::env::var_os);
    editor.filter(|editor| !editor.is_empty()).ok_or_else(|| {
        Failure::input(
            "no editor: set EDITOR, or pass the new text with --from FILE or on standard input",
        )
    })
}

/// Opens the text in an editor. A result that can't be stored stays in a file that the error names.
fn edit(
    store: &BlueprintStore,
    name: &BlueprintName,
    editor: &OsStr,
) -> Result<Blueprint, Failure> {
    let before = store.get(name.as_str())?.text;
    let failed = |e: std::io::Error| Failure::failed(format!("can't edit {name}: {e}"));
    let file = tempfile::Builder::new()
        .prefix(&format!("{name}-"))
        .suffix(".md")
        .tempfile()
        .map_err(failed)?;
    std::fs::write(file.path(), &before).map_err(failed)?;
    // Through a shell, as git does: the variable may hold arguments.
    let mut command = Command::new("sh");
    let script = format!("{} \"$1\"", editor.to_string_lossy());
    let ended = command
        .args(["-c", &script, "sh"])
        .arg(file.path())
        .status();
    let ended = ended.map_err(failed)?;
    if !ended.success() {
        return Err(Failure::failed(format!(
            "nothing was changed: the editor ended with {ended}"
        )));
    }
    let stored = read_text(file.path(), MAX_BYTES)
        .and_then(|after| store.update(name, &after).map_err(Failure::from));
    stored.map_err(|failure| match file.keep() {
        Ok((_, path)) => failure.with([format!(
            "your text is saved in {}; correct it and pass it with --from",
            path.display()
        )]),
        Err(_) => failure,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use watchkeeper_assistant::blueprint::{Job, built_in};

    /// Returns the text that a failed edit has saved, and removes its file.
    fn take_saved(failure: &Failure) -> String {
        let advice = failure.details.last().unwrap();
        let (_, named) = advice.split_once("saved in ").unwrap();
        let (path, _) = named.split_once(';').unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        std::fs::remove_file(path).unwrap();
        text
    }

    #[test]
    fn edited_blueprint_is_stored_and_an_invalid_one_saved_aside() {
        let home = tempfile::tempdir().unwrap();
        let (store, name) = (
            BlueprintStore::new(home.path()),
            BlueprintName::new("question").unwrap(),
        );
        let by = |script: &str| edit(&store, &name, OsStr::new(script));
        assert_eq!(by("sed -i 's/steps = 8/steps = 3/'").unwrap().steps, 3);
        assert_eq!(store.serving(Job::Question).unwrap().0.steps, 3);
        let broken = by("sed -i 's/steps = 3/steps = 300/'").unwrap_err();
        let text = broken.to_string();
        assert!(
            text.contains("limits.steps = 300") && text.contains("is saved in"),
            "{text}"
        );
        assert!(take_saved(&broken).contains("steps = 300"));
        let long = by(&format!("truncate -s {}", MAX_BYTES + 1)).unwrap_err();
        assert!(long.to_string().contains("write at most"), "{long}");
        assert_eq!(take_saved(&long).len(), MAX_BYTES + 1);
        assert!(
            by("false")
                .unwrap_err()
                .sentence
                .contains("nothing was changed")
        );
        assert_eq!(store.serving(Job::Question).unwrap().0.steps, 3);
        assert_ne!(
            store.get("question").unwrap().text,
            built_in::text(Job::Question)
        );
    }
}
