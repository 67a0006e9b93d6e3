//! The words under a heading: quoted, or plain with what would be a mark escaped.
//!
//! Invariant: no line of what [`quote`] or [`escape`] make begins a note, and [`read`] gives back what they were given.

/// `text` with `>` before every line.
pub(super) fn quote(text: &str) -> String {
    let lines = text.split('\n').map(|line| match line {
        "" => ">\n".to_owned(),
        line => format!("> {line}\n"),
    });
    lines.collect()
}

/// `text` as plain lines.
pub(super) fn escape(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let backslash = if has_mark(line) { "\\" } else { "" };
        format!("{backslash}{line}\n")
    });
    lines.collect()
}

/// A line that would be a heading or a quotation but for backslashes.
fn has_mark(line: &str) -> bool {
    line.trim_start_matches('\\').starts_with(['#', '>'])
}

/// The text of `lines`, and whether all of it is quoted.
pub(super) fn read(lines: &[&str]) -> (String, bool) {
    let mut seen = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .peekable();
    let quoted = seen.peek().is_some() && seen.all(|line| line.starts_with('>'));
    let text: Vec<&str> = lines
        .iter()
        .map(|line| {
            if quoted {
                let line = line.strip_prefix('>').unwrap_or(line);
                line.strip_prefix(' ').unwrap_or(line)
            } else if has_mark(line) {
                line.strip_prefix('\\').unwrap_or(line)
            } else {
                line
            }
        })
        .collect();
    (text.join("\n"), quoted)
}
