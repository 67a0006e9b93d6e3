//! The one place that writes to the terminal.
//!
//! Results go to standard output, everything else to standard error. With `--json` standard output holds one object a
//! line and nothing else.
//!
//! Invariants: a reader that went away (`| head`) is no failure; it is remembered, and long-running commands stop. What people read can do nothing to their
//! terminal, whoever wrote it ([`printable`]): the only sequences are those that are made here.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::exit::Failure;
use watchkeeper_assistant::session::progress::ProgressStep;
use watchkeeper_assistant::wording::printable;

/// Where the command writes. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Output(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    json: bool,
    closed: AtomicBool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Output {
    /// An output for people, or for programs.
    #[must_use]
    pub fn new(json: bool) -> Self {
        Self(Arc::new(Inner {
            json,
            closed: AtomicBool::new(false),
            bar: Mutex::new(None),
        }))
    }

    /// Whether programs read it.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.0.json
    }

    /// Whether nobody reads it any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    /// One line of result for people; nothing with `--json`.
    pub fn line(&self, text: impl AsRef<str>) {
        if !self.0.json {
            self.write(&printable(text.as_ref()));
        }
    }

    /// What is meant for another program as it stands, such as a script for a shell: `--json` changes nothing about it.
    pub fn page(&self, text: &str) {
        self.write(text);
    }

    /// One object of result for programs; nothing without `--json`.
    pub fn object(&self, value: &impl Serialize) {
        if self.0.json {
            // Every value written here is made of maps with text keys, which always serialise.
            self.write(&serde_json::to_string(value).unwrap_or_default());
        }
    }

    /// A result in both forms.
    pub fn both(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        if self.0.json {
            self.object(value);
        } else {
            self.write(&printable(&text()));
        }
    }

    /// A table for people; nothing with `--json`.
    pub fn table(&self, headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        if !self.0.json {
            self.write(&printable(&table(headers, rows)));
        }
    }

    /// Something worth knowing that is not the result.
    pub fn note(&self, text: impl AsRef<str>) {
        let text = text.as_ref();
        if self.0.json {
            self.object(&serde_json::json!({"type": "note", "message": text}));
        } else {
            self.aside(&format!("note: {text}"));
        }
    }

    /// Something that a model thinks or does while it works, for a person: on standard error, in a colour of its own where that is a terminal.
    pub fn step(&self, step: ProgressStep, text: &str) {
        if std::io::stderr().is_terminal() {
            self.around_bar(|| {
                let text = printable(text);
                let (colour, mark) = (colour(step), mark(step));
                writeln!(std::io::stderr(), "\u{1b}[{colour}m{mark} {text}\u{1b}[0m").ok();
            });
        } else {
            self.aside(&format!("{} {text}", mark(step)));
        }
    }

    /// The failure that ends the command.
    pub fn failure(&self, failure: &Failure) {
        self.aside(&format!("watchkeeper: {failure}"));
    }

    /// Lines on standard error.
    pub fn aside(&self, text: &str) {
        self.around_bar(|| {
            // Nothing can be told to anybody when standard error is gone.
            writeln!(std::io::stderr(), "{}", printable(text)).ok();
        });
    }

    fn write(&self, text: &str) {
        self.around_bar(|| {
            let mut out = std::io::stdout().lock();
            if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
                self.0.closed.store(true, Ordering::Relaxed);
            }
        });
    }

    fn bar(&self) -> std::sync::MutexGuard<'_, Option<ProgressBar>> {
        self.0.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn around_bar(&self, write: impl FnOnce()) {
        match self.bar().as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Begins a live line on standard error, where that is a terminal. Other lines are written above it.
    #[must_use]
    pub fn live_line(&self) -> ProgressBar {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        // What is wider than the terminal is cut: a line that wraps can't be drawn over.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        *self.bar() = Some(bar.clone());
        bar
    }

    /// A live line that says what is waited for, in the place of the one before; it goes with [`Self::end_live_line`] or the command's end.
    pub fn busy(&self, with: impl Into<String>) {
        self.end_live_line();
        let with: String = with.into();
        self.live_line()
            .set_message(printable(&with).replace('\n', " "));
    }

    /// Begins a progress bar over `total` bytes on standard error, where that is a terminal; a line that moves when the
    /// total is not known.
    #[must_use]
    pub fn byte_bar(&self, total: Option<u64>) -> ProgressBar {
        let bar = self.live_line();
        if let Some(total) = total {
            bar.set_length(total);
            let template = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style.progress_chars("=> "));
            }
        } else if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {bytes}") {
            bar.set_style(style);
        }
        bar
    }

    /// Removes the live line or bar.
    pub fn end_live_line(&self) {
        let bar = self.bar().take();
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }
}

const fn mark(step: ProgressStep) -> &'static str {
    match step {
        ProgressStep::Thought => "…",
        ProgressStep::Action => ">",
        ProgressStep::Failure => "!",
        ProgressStep::Plan => "#",
    }
}

/// Parameter of the SGR sequence of ECMA-48: dim, cyan, yellow, blue.
const fn colour(step: ProgressStep) -> &'static str {
    match step {
        ProgressStep::Thought => "2",
        ProgressStep::Action => "36",
        ProgressStep::Failure => "33",
        ProgressStep::Plan => "34",
    }
}

/// Columns that a cell needs on average: below that, words are broken to pieces.
const CELL: usize = 12;

/// A table as text, without frames around the cells: as wide as it is, with folded cells where the terminal is narrower, and
/// as a list of records where folding would break every word.
#[must_use]
pub fn table(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns = Table::new().width().map(usize::from);
    // Some terminals say that they have no columns at all.
    table_within(headers, rows, columns.filter(|columns| *columns > 0))
}

/// As [`table`], in so many columns of a terminal; as many as it takes where there is none.
fn table_within(
    headers: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
    columns: Option<usize>,
) -> String {
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headers.iter().map(|h| h.to_uppercase()))
        .add_rows(&rows);
    let natural = trimmed(&table);
    let Some(columns) = columns else {
        return natural;
    };
    let width = natural.lines().map(|line| line.chars().count()).max();
    if width.unwrap_or(0) <= columns {
        return natural;
    }
    if columns < headers.len() * CELL {
        return records(headers, &rows);
    }
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(columns).unwrap_or(u16::MAX));
    trimmed(&table)
}

/// One line for each cell, with an empty line between rows. Longer cells are the terminal's to wrap.
fn records(headers: &[&str], rows: &[Vec<String>]) -> String {
    let record = |row: &Vec<String>| {
        let cells = headers.iter().zip(row);
        let lines: Vec<String> = cells
            .map(|(header, cell)| format!("{header}: {cell}"))
            .collect();
        lines.join("\n")
    };
    let records: Vec<String> = rows.iter().map(record).collect();
    records.join("\n\n")
}

fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_header_and_no_frame() {
        let text = table(
            &["name", "count"],
            [vec!["door".to_owned(), "3".to_owned()]],
        );
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("NAME"), "{text}");
        assert!(lines[1].starts_with("door"), "{text}");
    }

    fn models() -> Vec<Vec<String>> {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        vec![
            row([
                "yolox-nano",
                "416x416",
                "Apache-2.0",
                "/var/lib/watchkeeper/models/yolox-nano.onnx",
            ]),
            row(["motion", "any", "–", "built in"]),
        ]
    }

    const HEADERS: [&str; 4] = ["model", "input", "licence", "file"];

    #[test]
    fn on_a_narrow_terminal_a_table_is_a_list_in_which_no_word_is_broken() {
        let text = table_within(&HEADERS, models(), Some(20));
        let records: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(records.len(), 2, "{text}");
        assert_eq!(
            records[1].lines().collect::<Vec<_>>(),
            [
                "model: motion",
                "input: any",
                "licence: –",
                "file: built in"
            ]
        );
        assert!(
            text.contains("file: /var/lib/watchkeeper/models/yolox-nano.onnx"),
            "{text}"
        );
    }

    #[test]
    fn a_small_table_stays_a_table_on_a_narrow_terminal() {
        let row = ["people".to_owned(), "2".to_owned(), "1".to_owned()];
        let text = table_within(&["line", "in", "out"], [row.to_vec()], Some(20));
        assert!(text.lines().count() == 2 && text.contains("LINE"), "{text}");
    }

    #[test]
    fn on_a_terminal_that_is_almost_wide_enough_cells_are_folded() {
        let text = table_within(&HEADERS, models(), Some(60));
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
        assert!(
            text.lines().count() > 3 && text.contains("yolox-nano"),
            "{text}"
        );
    }

    #[test]
    fn where_no_terminal_reads_it_nothing_is_folded() {
        let text = table_within(&HEADERS, models(), None);
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}
