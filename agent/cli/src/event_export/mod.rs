//! `watchkeeper events export`: events as a folder that a person understands.
//!
//! - A folder for each event, named after time, camera and rule, and one page.
//! - The folder gets its name when all of it is written; an existing one is never changed.
//! - A picture or clip is compared with the hash of its record. What is gone is stated.

mod page;
mod select;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use serde_json::json;
use watchkeeper_assistant::reviews::describe_record;
use watchkeeper_assistant::wording::{counted, format_local};
use watchkeeper_client::RuntimeClient;
use watchkeeper_contract::event::{Event, EventBody, MediaKind, Phase};
use watchkeeper_pictures::album::{PAGE, file_name, unique};
use watchkeeper_store::chain::Hash;
use watchkeeper_store::durable::sync_folder;

use super::args::EventExportArgs;
use super::exit::Failure;
use super::output::Output;
use super::user_file::{exists, folder_of, new_folder, unwritten};
use page::Section;

/// File with the records of an event.
const RECORDS: &str = "event.json";

pub(super) async fn run(
    args: &EventExportArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let output = &args.output;
    if output.symlink_metadata().is_ok() {
        return Err(exists(output, "folder"));
    }
    let unwritten = unwritten::<io::Error>(output);
    out.busy("reading the journal");
    let events = select::records(args, client).await?;
    let new = new_folder(output).map_err(unwritten)?;
    let mut taken = HashSet::from([PAGE.to_owned()]);
    let mut sections = Vec::new();
    for (n, records) in events.iter().enumerate() {
        out.busy(format!("event {} of {}", n + 1, events.len()));
        sections.extend(export_one(records, new.path(), &mut taken, client).await?);
    }
    let title = format!(
        "{} of {}",
        counted(sections.len() as u64, "event"),
        cameras(&sections)
    );
    write(
        &new.path().join(PAGE),
        page::page(&title, &sections).as_bytes(),
    )
    .map_err(unwritten)?;
    sync_folder(new.path()).map_err(unwritten)?;
    // Fails if a folder with contents was created there meanwhile.
    fs::rename(new.path(), output).map_err(unwritten)?;
    drop(new.keep());
    sync_folder(folder_of(output)).map_err(unwritten)?;
    report(&sections, output, out);
    Ok(())
}

fn cameras(sections: &[Section]) -> String {
    let mut cameras: Vec<&str> = sections
        .iter()
        .map(|section| section.camera.as_str())
        .collect();
    cameras.sort_unstable();
    cameras.dedup();
    cameras.join(", ")
}

fn report(sections: &[Section], output: &Path, out: &Output) {
    let pictures = sections
        .iter()
        .map(|section| section.pictures.len())
        .sum::<usize>();
    let clips = sections
        .iter()
        .filter(|section| section.clip.is_some())
        .count();
    let missing: Vec<String> = sections
        .iter()
        .flat_map(|section| {
            section
                .missing
                .iter()
                .map(|part| format!("{}: {part}", section.folder))
        })
        .collect();
    let object = json!({
        "type": "exported", "folder": output, "events": sections.len(), "pictures": pictures,
        "clips": clips, "missing": missing,
    });
    out.both(&object, || {
        format!(
            "Saved {} in {}: {}, {}; open {}",
            counted(sections.len() as u64, "event"),
            output.display(),
            counted(pictures as u64, "picture"),
            counted(clips as u64, "clip"),
            output.join(PAGE).display()
        )
    });
    for missing in missing {
        out.note(format!("missing: {missing}"));
    }
}

/// Writes the folder of an event; `None` without records.
async fn export_one(
    records: &[Event],
    above: &Path,
    taken: &mut HashSet<String>,
    client: &RuntimeClient,
) -> Result<Option<Section>, Failure> {
    let Some(first) = records.first() else {
        return Ok(None);
    };
    let (rule, reason) = match &first.body {
        EventBody::Rule(rule) => (rule.rule.clone(), rule.reason.clone()),
        _ => ("box".to_owned(), first.decision.reason.clone()),
    };
    let camera = first
        .source
        .as_ref()
        .map_or("box", |source| source.as_str());
    let time = format_local(first.at.unix_ms, "%F %H.%M.%S");
    let folder = unique(&file_name(&format!("{time} {camera} {rule}")), taken);
    let mut section = Section {
        at: first.at,
        camera: camera.to_owned(),
        rule,
        reason,
        decisions: decisions(records),
        pictures: Vec::new(),
        clip: None,
        missing: Vec::new(),
        folder,
    };
    let path = above.join(&section.folder);
    let unwritten = unwritten::<io::Error>(&path);
    fs::create_dir(&path).map_err(unwritten)?;
    download(records, &path, &mut section, client).await?;
    let text = json!({"records": records, "missing": section.missing});
    let text = serde_json::to_vec_pretty(&text).unwrap_or_default();
    write(&path.join(RECORDS), &text).map_err(unwritten)?;
    sync_folder(&path).map_err(unwritten)?;
    Ok(Some(section))
}

/// The first decision of the box, and each assessment.
fn decisions(records: &[Event]) -> Vec<String> {
    let first = records.first().map(|event| {
        let verdict = event.decision.verdict.name();
        let percent = event.decision.percent();
        format!("{verdict}, {percent} %: {}", event.decision.reason)
    });
    let later = records
        .iter()
        .filter(|event| event.phase == Phase::Assessed);
    first
        .into_iter()
        .chain(later.map(describe_record))
        .collect()
}

/// Downloads pictures and clip into the folder of an event.
async fn download(
    records: &[Event],
    folder: &Path,
    section: &mut Section,
    client: &RuntimeClient,
) -> Result<(), Failure> {
    let mut taken = HashSet::from([RECORDS.to_owned()]);
    let mut seen = HashSet::new();
    for media in records.iter().flat_map(|record| &record.media) {
        if !seen.insert(&media.id) {
            continue;
        }
        let name = unique(
            match media.kind {
                MediaKind::Clean => "picture.jpg",
                MediaKind::Annotated => "marked.jpg",
            },
            &mut taken,
        );
        match fetch(client, &media.id, &media.sha256, &folder.join(&name)).await? {
            None => section.pictures.push(name),
            Some(why) => section.missing.push(format!("{name}: {why}")),
        }
    }
    let mut clips = records.iter().filter_map(|record| record.clip.as_ref());
    let Some(clip) = clips.next_back() else {
        return Ok(());
    };
    let why = match clip.state.file() {
        Err(why) => Some(why),
        Ok((content_type, sha256)) => {
            let name = match content_type {
                "video/webm" => "clip.webm",
                _ => "clip.mp4",
            };
            let why = fetch(client, &clip.id, sha256, &folder.join(name)).await?;
            section.clip = why.is_none().then(|| name.to_owned());
            why
        }
    };
    section
        .missing
        .extend(why.map(|why| format!("clip: {why}")));
    Ok(())
}

/// Downloads a picture or clip to a new file. Returns why it is missing, if it is.
async fn fetch(
    client: &RuntimeClient,
    id: &str,
    sha256: &str,
    path: &Path,
) -> Result<Option<String>, Failure> {
    let unwritten = unwritten::<io::Error>(path);
    let file = File::create_new(path).map_err(unwritten)?;
    let mut out = tokio::fs::File::from_std(file);
    let copied = client.copy_media(id, &mut out).await;
    let why = match copied {
        Ok(()) => {
            out.sync_all().await.map_err(unwritten)?;
            let found = File::open(path).and_then(|mut file| Hash::of_all(&mut file));
            let is_damaged = found.map_err(unwritten)?.to_string() != sha256;
            is_damaged.then(|| "the file is damaged: it has not the hash of its record".to_owned())
        }
        Err(error) if error.is_not_found() => Some(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    if why.is_some() {
        fs::remove_file(path).map_err(unwritten)?;
    }
    Ok(why)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    io::Write::write_all(&mut file, bytes)?;
    file.sync_all()
}
