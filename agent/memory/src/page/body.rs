//! The words below a heading: quoted, or plain with escaped marks.
//!
//! Invariant: no line of [`quote`] and [`escape`] begins a note, and [`read`] reverses both.

/// Puts `>` before every line.
pub(super) fn quote(text: &str) -> String {
    let lines = text.split('\n').map(|line| match line {
        "" => ">\n".to_owned(),
        line => format!("> {line}\n"),
    });
    lines.collect()
}

/// Puts a backslash before every line that looks like a mark.
pub(super) fn escape(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let backslash = if has_mark(line) { "\\" } else { "" };
        format!("{backslash}{line}\n")
    });
    lines.collect()
}

/// Returns whether a line, without its backslashes, is a heading or a quotation.
fn has_mark(line: &str) -> bool {
    line.trim_start_matches('\\').starts_with(['#', '>'])
}

/// Returns the text of `lines`, and whether all of it is quoted.
pub(super) fn read(lines: &[&str]) -> (String, bool) {
    let mut visible = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .peekable();
    let is_quoted = visible.peek().is_some() && visible.all(|line| line.starts_with('>'));
    let text: Vec<&str> = lines
        .iter()
        .map(|line| {
            if is_quoted {
                let line = line.strip_prefix('>').unwrap_or(line);
                line.strip_prefix(' ').unwrap_or(line)
            } else if has_mark(line) {
                line.strip_prefix('\\').unwrap_or(line)
            } else {
                line
            }
        })
        .collect();
    (text.join("\n"), is_quoted)
}
