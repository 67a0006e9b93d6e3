//! The page of an export: one section for each event, with its pictures and clip.
//!
//! It loads files of the export only, by relative paths; there is no script.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use watchkeeper_assistant::wording::local_time;
use watchkeeper_contract::time::{TimeQuality, Wall};

/// Characters of a path that stand for themselves in a link.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

const STYLE: &str = "body{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:60rem;\
    background:#fafafa;color:#222;padding:0 1rem}section{margin-bottom:2.5rem}\
    img,video{max-width:100%;height:auto;background:#000}.row{display:flex;flex-wrap:wrap;gap:.75rem}\
    .row img{width:18rem}p{margin:.3rem 0}.note{color:#666}";

#[derive(Debug)]
pub(super) struct Section {
    pub(super) folder: String,
    pub(super) at: Wall,
    pub(super) camera: String,
    pub(super) rule: String,
    pub(super) reason: String,
    /// Decisions of the box and answers of people.
    pub(super) decisions: Vec<String>,
    /// Names of files in the folder.
    pub(super) pictures: Vec<String>,
    pub(super) clip: Option<String>,
    /// Media that the box no longer has, each with its reason.
    pub(super) missing: Vec<String>,
}

pub(super) fn page(title: &str, sections: &[Section]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                @for section in sections { (show(section)) }
            }
        }
    };
    page.into_string()
}

fn show(section: &Section) -> Markup {
    let link = |file: &str| {
        let path = format!("{}/{file}", section.folder);
        utf8_percent_encode(&path, PATH).to_string()
    };
    let is_sure = section.at.quality == TimeQuality::Synced;
    html! {
        section {
            h2 { (local_time(section.at.unix_ms)) " · " (section.camera) " · " (section.rule) }
            p { (section.reason) }
            @if !is_sure {
                p.note { "The clock of the box was not synchronised; the time is an estimate." }
            }
            @for decision in &section.decisions { p.note { (decision) } }
            @if let Some(clip) = &section.clip {
                video controls preload="metadata" src=(link(clip)) {}
            }
            div.row {
                @for picture in &section.pictures {
                    a href=(link(picture)) { img src=(link(picture)) alt=(picture) loading="lazy"; }
                }
            }
            @for missing in &section.missing { p.note { "Missing: " (missing) } }
            p.note { a href=(link("event.json")) { "event.json" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_an_event_is_no_markup_and_links_are_relative() {
        let section = Section {
            folder: "2026-11-28 05.07.13 dock ä#1".to_owned(),
            at: Wall {
                unix_ms: 0,
                quality: TimeQuality::Unsynced,
            },
            camera: "dock".to_owned(),
            rule: "<script>".to_owned(),
            reason: "\"><img src=http://x>".to_owned(),
            decisions: vec!["& more".to_owned()],
            pictures: vec!["picture.jpg".to_owned()],
            clip: Some("clip.mp4".to_owned()),
            missing: vec!["clip: <b>".to_owned()],
        };
        let page = page("Events", &[section]);
        assert!(
            !page.contains("<script>") && !page.contains("<b>"),
            "{page}"
        );
        assert!(!page.contains("<img src=http"), "{page}");
        let link =
            "2026%2D11%2D28".replace("%2D", "-") + "%2005.07.13%20dock%20%C3%A4%231/clip.mp4";
        assert!(page.contains(&link), "{page}");
        assert!(
            page.contains("clock of the box was not synchronised"),
            "{page}"
        );
    }
}
