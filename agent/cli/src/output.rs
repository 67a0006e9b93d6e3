//! The terminal: results on standard output, everything else on standard error.
//!
//! - With `--json`, standard output holds one object a line and nothing else. A command that fails
//!   before it printed its result prints an object with the failure.
//! - A closed reader (`| head`) is not a failure: [`Output::is_closed`] stops long-running
//!   commands.
//! - Text passes through [`printable`], so outside data can not send escape sequences to a
//!   terminal.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use comfy_table::{ContentArrangement, Table};
use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde::Serialize;

use super::exit::Failure;
use watchkeeper_assistant::session::progress::ProgressStep;
use watchkeeper_assistant::wording::{cut, printable};

/// Writer of the command's results and notes. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Output(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    json: bool,
    closed: AtomicBool,
    /// Whether a result was printed.
    has_result: AtomicBool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Output {
    /// Creates an output of JSON objects, or of text.
    pub(crate) fn new(json: bool) -> Self {
        Self(Arc::new(Inner {
            json,
            closed: AtomicBool::new(false),
            has_result: AtomicBool::new(false),
            bar: Mutex::new(None),
        }))
    }

    pub(crate) fn is_json(&self) -> bool {
        self.0.json
    }

    /// Returns true once a write to standard output failed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    /// Prints a line of result; nothing with `--json`.
    pub(crate) fn line(&self, text: impl AsRef<str>) {
        if !self.0.json {
            self.write(&printable(text.as_ref()));
        }
    }

    /// Prints a line of result; on a terminal that is narrower, the end of it is cut.
    pub(crate) fn line_that_fits(&self, text: String) {
        // The width is known on a terminal only.
        let width = Table::new().width().map(usize::from);
        self.line(match width {
            Some(width) if text.chars().count() > width => cut(text, width.saturating_sub(1)),
            _ => text,
        });
    }

    /// Prints text for another program unchanged, such as a shell script, also with `--json`.
    pub(crate) fn page(&self, text: &str) {
        self.set_has_result();
        self.write(text);
    }

    /// Prints an object of result; nothing without `--json`.
    pub(crate) fn object(&self, value: &impl Serialize) {
        if self.0.json {
            self.set_has_result();
            self.write_json(value);
        }
    }

    /// Notes that a result was printed, by a program that this one started.
    pub(crate) fn set_has_result(&self) {
        self.0.has_result.store(true, Ordering::Relaxed);
    }

    fn write_json(&self, value: &impl Serialize) {
        // All values here are maps with text keys, which always serialise.
        self.write(&serde_json::to_string(value).unwrap_or_default());
    }

    /// Prints a result as object with `--json`, else as text.
    pub(crate) fn both(&self, value: &impl Serialize, text: impl FnOnce() -> String) {
        if self.0.json {
            self.object(value);
        } else {
            self.write(&printable(&text()));
        }
    }

    /// Prints a table; nothing with `--json`.
    pub(crate) fn table(&self, headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        if !self.0.json {
            self.write(&printable(&table(headers, rows)));
        }
    }

    /// Prints a note: an object with `--json`, else a line on standard error.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        let text = text.as_ref();
        if self.0.json {
            self.write_json(&serde_json::json!({"type": "note", "message": text}));
        } else {
            self.aside(&format!("note: {text}"));
        }
    }

    /// Prints a step of an LLM on standard error, coloured on a terminal.
    pub(crate) fn step(&self, step: ProgressStep, text: &str) {
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

    /// Prints the failure that ends the command on standard error; with `--json` also as object, if
    /// there is no result.
    pub(crate) fn failure(&self, failure: &Failure) {
        if !self.0.has_result.load(Ordering::Relaxed) {
            self.failure_object(failure);
        }
        self.aside(&format!("watchkeeper: {failure}"));
    }

    /// Prints a failure as object with `--json`, and nowhere else.
    pub(crate) fn failure_object(&self, failure: &Failure) {
        if self.0.json {
            self.write_json(&serde_json::json!({
                "type": "failure", "message": failure.sentence, "details": failure.details,
                "exit": failure.exit.code(),
            }));
        }
    }

    /// Prints lines on standard error.
    pub(crate) fn aside(&self, text: &str) {
        self.around_bar(|| {
            // A failed write to standard error can not be reported anywhere.
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

    fn around_bar(&self, write: impl FnOnce()) {
        match self.0.bar.lock().as_ref() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Starts a live line on standard error if that is a terminal; other lines appear above it.
    pub(crate) fn live_line(&self) -> ProgressBar {
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new_spinner()
        } else {
            ProgressBar::hidden()
        };
        // `wide_msg` cuts at the terminal's width: a wrapped line can't be redrawn.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        *self.0.bar.lock() = Some(bar.clone());
        bar
    }

    /// Replaces the live line by one that shows `activity`.
    pub(crate) fn busy(&self, activity: impl Into<String>) {
        self.end_live_line();
        let activity: String = activity.into();
        self.live_line()
            .set_message(printable(&activity).replace('\n', " "));
    }

    /// Starts a progress bar over `total` bytes on a terminal; a byte counter without a total.
    pub(crate) fn byte_bar(&self, total: Option<u64>) -> ProgressBar {
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
    pub(crate) fn end_live_line(&self) {
        let bar = self.0.bar.lock().take();
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

/// Returns the parameter of the SGR sequence of ECMA-48: dim, cyan, yellow or blue.
const fn colour(step: ProgressStep) -> &'static str {
    match step {
        ProgressStep::Thought => "2",
        ProgressStep::Action => "36",
        ProgressStep::Failure => "33",
        ProgressStep::Plan => "34",
    }
}

/// Cuts a text to `max` characters on a terminal; without one nothing is cut.
pub(crate) fn fitted(text: String, max: usize) -> String {
    match Table::new().width() {
        Some(_) => cut(text, max),
        None => text,
    }
}

/// Average columns that a cell needs; narrower cells break words.
const MIN_CELL_WIDTH: usize = 12;

/// Formats a table without borders.
///
/// On a terminal that is too narrow it folds cells, or lists records if folding would break words.
pub(crate) fn table(headers: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns = Table::new().width().map(usize::from);
    // Some terminals report 0 columns.
    table_within(headers, rows, columns.filter(|columns| *columns > 0))
}

/// Formats a table in at most `columns`; `None` is unlimited.
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
    if columns < headers.len() * MIN_CELL_WIDTH {
        return records(headers, &rows);
    }
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(columns).unwrap_or(u16::MAX));
    trimmed(&table)
}

/// Formats one line per cell, with an empty line between rows; the terminal wraps longer cells.
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
    fn narrow_terminal_gets_a_list_without_broken_words() {
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
    fn almost_wide_enough_terminal_gets_folded_cells() {
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
    fn table_without_a_terminal_is_not_folded() {
        let text = table_within(&HEADERS, models(), None);
        assert_eq!(text.lines().count(), 3, "{text}");
    }
}
