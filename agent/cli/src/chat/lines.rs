//! What a person types, line by line: edited, with history and completion, on a terminal; as it comes from anything else.
//!
//! A line that ends in a backslash goes on in the next one, and a text that is pasted stays one. Invariants: no line is longer than [`MAX_LINE`]; no password
//! and no key is in the history, neither in the file nor while the chat goes on.

use std::io::{BufRead, IsTerminal as _, Read as _, stdin, stdout};
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Context, Editor, Helper};
use watchkeeper_config::redact;

use watchkeeper_assistant::proposal::chat_command;
use watchkeeper_store::private_folder::make_private;

/// Longest line that is read, in bytes. A request has at most 2,000 characters.
const MAX_LINE: u64 = 64 * 1024;
/// Lines that the history keeps.
const HISTORY: usize = 500;

/// What came.
#[derive(Debug)]
pub(super) enum Line {
    /// A text.
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// The end.
    End,
    /// It can't be gone on with, and why.
    Broken(String),
}

/// Where lines come from.
pub(super) enum Lines {
    Terminal(Box<Editor<Words, FileHistory>>, Option<PathBuf>),
    Plain,
}

impl Lines {
    /// The terminal where a person sits at both ends and reads words, else standard input as it is.
    pub(super) fn open(history: Option<PathBuf>, json: bool) -> Self {
        if json || !stdin().is_terminal() || !stdout().is_terminal() {
            return Self::Plain;
        }
        let config = rustyline::Config::builder()
            .completion_type(CompletionType::List)
            // Added below, without passwords and keys.
            .auto_add_history(false)
            .history_ignore_space(true)
            .max_history_size(HISTORY);
        let editor = config.and_then(|config| Editor::with_config(config.build()));
        let Ok(mut editor) = editor else {
            return Self::Plain;
        };
        editor.set_helper(Some(Words::default()));
        if let Some(path) = &history {
            // A history that is not there yet is none.
            editor.load_history(path).ok();
        }
        Self::Terminal(Box::new(editor), history)
    }

    /// Whether a person sits there.
    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal(..))
    }

    /// Names that are completed from now on; none: those of before.
    pub(super) fn names(&mut self, names: Option<Vec<String>>) {
        if let (Self::Terminal(editor, _), Some(names)) = (self, names)
            && let Some(helper) = editor.helper_mut()
        {
            helper.names = names;
        }
    }

    /// The next line.
    pub(super) fn next(&mut self, prompt: &str) -> Line {
        match self {
            Self::Terminal(editor, _) => match editor.readline(prompt) {
                Ok(text) => {
                    remember(editor.history_mut(), &text);
                    Line::Text(joined(&text))
                }
                Err(ReadlineError::Interrupted) => Line::Interrupted,
                Err(ReadlineError::Eof) => Line::End,
                Err(error) => Line::Broken(format!("the terminal can't be read: {error}")),
            },
            Self::Plain => next_of(&mut stdin().lock()),
        }
    }

    /// Keeps the history. That it can't be kept is no failure of a conversation that is over.
    pub(super) fn close(self) {
        if let Self::Terminal(mut editor, Some(path)) = self
            && path
                .parent()
                .is_some_and(|folder| make_private(folder).is_ok())
        {
            editor.save_history(&path).ok();
        }
    }
}

/// Adds a line to the history without the passwords and keys in it. That it can't be added is no reason to stop.
fn remember(history: &mut impl History, line: &str) {
    let hidden = redact::said(line);
    history.add(hidden.as_deref().unwrap_or(line)).ok();
}

/// The next text of a reader, over as many lines as end in a backslash.
fn next_of(reader: &mut impl BufRead) -> Line {
    let mut text = String::new();
    loop {
        let room = MAX_LINE.saturating_sub(text.len() as u64);
        match reader.take(room).read_line(&mut text) {
            Ok(0) if text.is_empty() => return Line::End,
            Ok(0) if room == 0 => {
                return Line::Broken(format!("a line is longer than {MAX_LINE} bytes"));
            }
            Ok(0) => return Line::Text(joined(&text)),
            Ok(_) if text.ends_with("\\\n") => {}
            Ok(_) if text.ends_with('\n') => return Line::Text(joined(&text)),
            // The end of the input, or of what a line may have.
            Ok(_) => {}
            Err(error) => return Line::Broken(format!("what comes in can't be read: {error}")),
        }
    }
}

/// One text of several lines.
fn joined(text: &str) -> String {
    text.replace("\\\n", " ").trim().to_owned()
}

/// What completion knows, and when a line is whole.
#[derive(Debug, Default)]
pub(super) struct Words {
    names: Vec<String>,
}

impl Words {
    /// What the word before `end` could become, and where it begins.
    fn completed(&self, line: &str, end: usize) -> (usize, Vec<String>) {
        let before = line.get(..end).unwrap_or(line);
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let word = before.get(start..).unwrap_or_default();
        if word.is_empty() {
            return (start, Vec::new());
        }
        let commands = chat_command::ALL
            .iter()
            .map(|(name, ..)| *name)
            .filter(|_| start == 0);
        let names = self.names.iter().map(String::as_str);
        let mut fits: Vec<String> = commands
            .chain(names)
            .filter(|known| known.starts_with(word))
            .map(str::to_owned)
            .collect();
        fits.sort();
        fits.dedup();
        (start, fits)
    }
}

impl Completer for Words {
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

impl Validator for Words {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if context.input().ends_with('\\') {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}

impl Helper for Words {}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::*;

    fn texts(input: &str) -> Vec<String> {
        let mut reader = input.as_bytes();
        let mut texts = Vec::new();
        loop {
            match next_of(&mut reader) {
                Line::Text(text) => texts.push(text),
                Line::End => return texts,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_backslash_at_the_end_goes_on_in_the_next_line() {
        assert_eq!(
            texts("count people \\\non gate\nyes"),
            ["count people  on gate", "yes"]
        );
        assert_eq!(texts("\n\nyes\\"), ["", "", "yes\\"]);
    }

    #[test]
    fn the_history_has_what_was_typed_without_passwords_and_keys() {
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
    fn a_line_without_end_is_not_read_into_memory() {
        let mut endless = std::io::BufReader::new(std::io::repeat(b'a'));
        assert!(matches!(next_of(&mut endless), Line::Broken(_)));
    }

    #[test]
    fn commands_are_completed_at_the_beginning_and_names_everywhere() {
        let words = Words {
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
