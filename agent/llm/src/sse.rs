//! Server-sent events out of bytes that come in any pieces.
//!
//! Source: WHATWG HTML, "Server-sent events", 9.2.6. Sans-IO and bounded: a line and an event have a largest size, and the cost is linear
//! in the bytes. (`eventsource-stream`, which reads our own runtime's stream, is neither, and panics on a byte order mark.)
//!
//! Invariant: the events do not depend on how the bytes were cut. An event that the stream ends within is not given.

/// Largest event, in bytes. A piece of an answer has a few hundred; a whole answer in one event a few hundred thousand.
const MAX_EVENT: usize = 4 << 20;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SseEvent {
    /// Its name; empty when it has none.
    pub(crate) name: String,
    /// Its data; lines joined by a line feed.
    pub(crate) data: String,
}

/// Why a stream can't be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SseError {
    #[error("a line of the stream is not UTF-8")]
    Utf8,
    #[error("an event of the stream is larger than 4 MiB")]
    TooLarge,
}

/// Takes bytes, gives events.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    event: SseEvent,
    has_data: bool,
    /// The last byte was a carriage return: a line feed after it belongs to it.
    after_cr: bool,
    /// A line has been read: no byte order mark can come any more.
    begun: bool,
}

impl SseParser {
    /// Adds bytes, and to `events` those that are complete with them. When it fails, the events before that are there.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        events: &mut Vec<SseEvent>,
    ) -> Result<(), SseError> {
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
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let has_data = std::mem::take(&mut self.has_data);
            return Ok(has_data.then_some(event));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.has_data = true;
                self.event.data.push_str(value);
            }
            // Comments have an empty field; `id` and `retry` mean nothing to a stream that is not resumed.
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

    fn event(name: &str, data: &str) -> SseEvent {
        SseEvent {
            name: name.to_owned(),
            data: data.to_owned(),
        }
    }

    #[test]
    fn names_data_comments_and_all_three_line_ends_are_read() {
        let text = "\u{feff}event: a\ndata: 1\ndata:2\n\n: note\r\ndata: x\r\n\r\nevent: empty\rdata\r\rretry: 5\n\nevent: none\n\n";
        assert_eq!(
            read(&[text.as_bytes()]),
            [event("a", "1\n2"), event("", "x"), event("empty", "")]
        );
    }

    #[test]
    fn an_event_that_the_stream_ends_within_is_not_given() {
        assert_eq!(read(&[b"data: half\n"]), []);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 1 << 20];
        let mut events = Vec::new();
        let all: Result<(), _> = (0..5).try_for_each(|_| parser.feed(&piece, &mut events));
        assert_eq!(all, Err(SseError::TooLarge));
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_how_the_bytes_were_cut(
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
