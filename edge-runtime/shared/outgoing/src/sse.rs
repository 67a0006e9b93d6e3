//! Parser of server-sent events (WHATWG HTML, "Server-sent events", 9.2.6). Sans-IO.
//!
//! - The events do not depend on how the bytes were split; an incomplete event is not given.
//! - A line and an event have a maximum size, and the cost is linear in the bytes.

/// Maximum bytes of an event. A record of the journal has a few thousand, a whole answer of a
/// language model in one event a few hundred thousand.
const MAX_EVENT: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SseEvent {
    /// Name; may be empty.
    pub name: String,
    /// Last `id` of the stream; may be empty.
    pub id: String,
    /// Data lines, joined by a line feed.
    pub data: String,
}

/// Why a stream is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("a line of the stream is not UTF-8")]
    Utf8,
    #[error("an event of the stream is larger than 16 MiB")]
    TooLarge,
}

#[derive(Debug, Default)]
pub struct SseParser {
    line: Vec<u8>,
    event: SseEvent,
    id: String,
    has_data: bool,
    /// The last byte was a carriage return; a line feed after it belongs to it.
    after_cr: bool,
    /// A line was read: no byte order mark can follow.
    has_started: bool,
}

impl SseParser {
    /// Takes bytes and adds the completed events to `events`, also those before an error.
    pub fn feed(&mut self, bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        for byte in bytes {
            let follows_cr = std::mem::take(&mut self.after_cr);
            match byte {
                b'\n' if follows_cr => {}
                b'\n' | b'\r' => {
                    self.after_cr = *byte == b'\r';
                    events.extend(self.end_line()?);
                }
                byte => {
                    if self.line.len() + self.event.data.len() >= MAX_EVENT {
                        return Err(SseError::TooLarge);
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(())
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&line).map_err(|_| SseError::Utf8)?;
        if !std::mem::replace(&mut self.has_started, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let mut event = std::mem::take(&mut self.event);
            self.id.clone_into(&mut event.id);
            let has_data = std::mem::take(&mut self.has_data);
            return Ok(has_data.then_some(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "id" => value.clone_into(&mut self.id),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            // Comments have an empty field; the caller decides when to connect again.
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for piece in pieces {
            parser.feed(piece, &mut events).expect("sound");
        }
        events
    }

    fn event(id: &str, name: &str, data: &str) -> SseEvent {
        SseEvent {
            name: name.to_owned(),
            id: id.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn names_data_comments_and_all_line_ends_are_read() {
        let text = "\u{feff}event: a\ndata: 1\ndata:2\n\n: note\r\nid: 7\ndata: x\r\n\r\nevent: empty\rdata\r\rretry: 5\n\nevent: none\n\n";
        assert_eq!(
            read(&[text.as_bytes()]),
            [
                event("", "a", "1\n2"),
                event("7", "", "x"),
                event("7", "empty", "")
            ]
        );
    }

    #[test]
    fn incomplete_event_is_not_given() {
        assert_eq!(read(&[b"data: half\n"]), []);
    }

    #[test]
    fn endless_line_is_rejected() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 1 << 20];
        let mut events = Vec::new();
        let all: Result<(), _> = (0..17).try_for_each(|_| parser.feed(&piece, &mut events));
        assert_eq!(all, Err(SseError::TooLarge));
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_how_bytes_were_split(
            lines in prop::collection::vec("(data: |event: |: |id:|)[a-zäß€ :]{0,6}(\n|\r\n|\r|\n\n)", 0..20),
            cuts in prop::collection::vec(1_usize..9, 1..50),
        ) {
            let bytes = lines.concat().into_bytes();
            let mut pieces = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break }
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(read(&pieces), read(&[&bytes]));
        }
    }
}
