//! Lines of input: with editing, history and completion on a terminal, plain from anything else.
//!
//! - A backslash at the end continues a line; a pasted text is one line.
//! - No line is longer than [`MAX_LINE`].
//! - Passwords and keys are redacted before they enter the history, in memory and on disk.

use std::io::{BufRead, IsTerminal as _, Read as _, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Context, Editor, ExternalPrinter, Helper};
use watchkeeper_config::redact;

use watchkeeper_assistant::proposal::chat_command;
use watchkeeper_store::private_folder::make_private;

/// Maximum length of a line in bytes. A request has at most 2,000 characters.
const MAX_LINE: u64 = 64 * 1024;
const MAX_HISTORY_LINES: usize = 500;

#[derive(Debug)]
pub(super) enum Line {
    Text(String),
    /// The user pressed Ctrl-C.
    Interrupted,
    End,
    /// The input failed, with the reason.
    Unreadable(String),
}

pub(super) enum Lines {
    Terminal(Box<Terminal>),
    Plain,
}

pub(super) struct Terminal {
    editor: Editor<ChatHelper, FileHistory>,
    history: Option<PathBuf>,
    /// Whether a line is being typed.
    is_typing: Arc<AtomicBool>,
}

/// Prints above the line that is being typed.
pub(super) struct AlertPrinter {
    printer: Box<dyn ExternalPrinter + Send>,
    is_typing: Arc<AtomicBool>,
}

impl AlertPrinter {
    pub(super) fn is_typing(&self) -> bool {
        self.is_typing.load(Ordering::Acquire)
    }

    /// Prints a line. Waits while the editor has not shown the one before.
    pub(super) fn print(&mut self, line: String) {
        // The terminal is gone, and the chat ends.
        self.printer.print(line).ok();
    }
}

impl Lines {
    /// Opens the terminal, if input and output are one and the output is text; else standard input.
    pub(super) fn open(history: Option<PathBuf>, json: bool) -> Self {
        if json || !stdin().is_terminal() || !stdout().is_terminal() {
            return Self::Plain;
        }
        let config = rustyline::Config::builder()
            .completion_type(CompletionType::List)
            // `remember` adds redacted lines.
            .auto_add_history(false)
            .history_ignore_space(true)
            .max_history_size(MAX_HISTORY_LINES);
        let editor = config.and_then(|config| Editor::with_config(config.build()));
        let Ok(mut editor) = editor else {
            return Self::Plain;
        };
        editor.set_helper(Some(ChatHelper::default()));
        if let Some(path) = &history {
            // The first chat has no history file.
            editor.load_history(path).ok();
        }
        Self::Terminal(Box::new(Terminal {
            editor,
            history,
            is_typing: Arc::default(),
        }))
    }

    /// Returns what prints above the line; `None` without a terminal.
    pub(super) fn alert_printer(&mut self) -> Option<AlertPrinter> {
        let Self::Terminal(terminal) = self else {
            return None;
        };
        let printer = terminal.editor.create_external_printer().ok()?;
        Some(AlertPrinter {
            printer: Box::new(printer),
            is_typing: Arc::clone(&terminal.is_typing),
        })
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// Replaces the names for completion; `None` keeps the old ones.
    pub(super) fn set_names(&mut self, names: Option<Vec<String>>) {
        if let (Self::Terminal(terminal), Some(names)) = (self, names)
            && let Some(helper) = terminal.editor.helper_mut()
        {
            helper.names = names;
        }
    }

    pub(super) fn next(&mut self, prompt: &str) -> Line {
        match self {
            Self::Terminal(terminal) => {
                terminal.is_typing.store(true, Ordering::Release);
                let read = terminal.editor.readline(prompt);
                terminal.is_typing.store(false, Ordering::Release);
                match read {
                    Ok(text) => {
                        remember(terminal.editor.history_mut(), &text);
                        Line::Text(joined(&text))
                    }
                    Err(ReadlineError::Interrupted) => Line::Interrupted,
                    Err(ReadlineError::Eof) => Line::End,
                    Err(error) => Line::Unreadable(format!("can't read the terminal: {error}")),
                }
            }
            Self::Plain => read_text(&mut stdin().lock()),
        }
    }

    /// Saves the history, ignoring failures.
    pub(super) fn close(self) {
        if let Self::Terminal(mut terminal) = self
            && let Some(path) = terminal.history.take()
            && path
                .parent()
                .is_some_and(|folder| make_private(folder).is_ok())
        {
            terminal.editor.save_history(&path).ok();
        }
    }
}

/// Adds a line to the history, with passwords and keys redacted; ignores failures.
fn remember(history: &mut impl History, line: &str) {
    let hidden = redact::message(line);
    history.add(hidden.as_deref().unwrap_or(line)).ok();
}

/// Reads a text, joining lines that end in a backslash.
fn read_text(reader: &mut impl BufRead) -> Line {
    let mut text = String::new();
    loop {
        let room = MAX_LINE.saturating_sub(text.len() as u64);
        match reader.take(room).read_line(&mut text) {
            Ok(0) if text.is_empty() => return Line::End,
            Ok(0) if room == 0 => {
                return Line::Unreadable(format!("the line is longer than {MAX_LINE} bytes"));
            }
            Ok(0) => return Line::Text(joined(&text)),
            Ok(_) if text.ends_with("\\\n") => {}
            Ok(_) if text.ends_with('\n') => return Line::Text(joined(&text)),
            // The input or the room ended; the next read returns 0.
            Ok(_) => {}
            Err(error) => return Line::Unreadable(format!("can't read standard input: {error}")),
        }
    }
}

fn joined(text: &str) -> String {
    text.replace("\\\n", " ").trim().to_owned()
}

/// Completion of commands and names; validation of continued lines.
#[derive(Debug, Default)]
pub(super) struct ChatHelper {
    names: Vec<String>,
}

impl ChatHelper {
    /// Returns the start of the word before `end`, and its completions.
    fn completed(&self, line: &str, end: usize) -> (usize, Vec<String>) {
        let before = line.get(..end).unwrap_or(line);
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let word = before.get(start..).unwrap_or_default();
        if word.is_empty() {
            return (start, Vec::new());
        }
        let commands = chat_command::names().filter(|_| start == 0);
        let names = self.names.iter().cloned();
        let mut fits: Vec<String> = commands
            .map(str::to_owned)
            .chain(names)
            .filter(|known| known.starts_with(word))
            .collect();
        fits.sort();
        fits.dedup();
        (start, fits)
    }
}

impl Completer for ChatHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.completed(line, pos))
    }
}

impl Validator for ChatHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Hinter for ChatHelper {
    type Hint = String;
}

impl Highlighter for ChatHelper {}

impl Helper for ChatHelper {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    fn texts(input: &str) -> Vec<String> {
        let mut reader = input.as_bytes();
        let mut texts = Vec::new();
        loop {
            match read_text(&mut reader) {
                Line::Text(text) => texts.push(text),
                Line::End => return texts,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn backslash_at_the_end_continues_the_line() {
        assert_eq!(
            texts("count people \\\non gate\nyes"),
            ["count people  on gate", "yes"]
        );
        assert_eq!(texts("\n\nyes\\"), ["", "", "yes\\"]);
    }

    #[test]
    fn history_has_lines_without_passwords_and_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chat.history");
        let mut history = FileHistory::new();
        remember(&mut history, "count people on gate");
        remember(&mut history, "watch rtsp://admin:hunter2@10.0.0.9/x");
        remember(&mut history, "password=hunter3");
        history.save(&path).unwrap();
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept.contains("count people on gate") && kept.contains("rtsp://***@10.0.0.9/x"));
        assert!(!kept.contains("hunter"), "{kept}");
    }

    #[test]
    fn endless_line_is_refused() {
        let mut endless = std::io::BufReader::new(std::io::repeat(b'a'));
        assert!(matches!(read_text(&mut endless), Line::Unreadable(_)));
    }

    #[test]
    fn commands_complete_at_the_start_and_names_everywhere() {
        let words = ChatHelper {
            names: vec![
                "gate".to_owned(),
                "gate-people".to_owned(),
                "dock".to_owned(),
            ],
        };
        assert_eq!(
            words.completed("/st", 3),
            (0, vec!["/status".into(), "/stop".into(), "/streams".into()])
        );
        let (start, fits) = words.completed("count cars on ga", 16);
        assert_eq!(
            (start, fits),
            (14, vec!["gate".to_owned(), "gate-people".to_owned()])
        );
        assert_eq!(words.completed("say /st", 7).1.len(), 0);
        assert_eq!(words.completed("gate ", 5).1.len(), 0);
    }
}
