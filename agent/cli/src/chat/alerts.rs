//! Shows alerts in a chat, from a separate thread: reading a line blocks the chat's.
//!
//! - While a line is being typed, the editor prints the alert above it.
//! - The thread ends with the process.

use watchkeeper_assistant::alerts::{Alert, follow};
use watchkeeper_assistant::proposal::llm_proposal::words;
use watchkeeper_assistant::wording::counted;
use watchkeeper_client::RuntimeClient;
use watchkeeper_config::Config;

use super::lines::{AlertPrinter, Lines};
use crate::event_loop;
use crate::events::{self, Clock};
use crate::output::Output;

/// Starts to show alerts: on a terminal always, with `--json` where a program `wants` them. A
/// failure to start is a note.
pub(super) fn start(config: &Config, wants: bool, lines: &mut Lines, out: &Output) {
    let printer = lines.alert_printer();
    if printer.is_none() && !(wants && out.is_json()) {
        return;
    }
    let (socket, alerts_out) = (config.runtime_socket.clone(), out.clone());
    let started = std::thread::Builder::new()
        .name("alerts".to_owned())
        .spawn(move || {
            // A connection belongs to one event loop.
            let (runtime, client) = match (event_loop::new(), RuntimeClient::new(&socket)) {
                (Ok(runtime), Ok(client)) => (runtime, client),
                (Err(error), _) => return alerts_out.note(no_alerts(&error)),
                (_, Err(error)) => return alerts_out.note(no_alerts(&error)),
            };
            let mut printer = printer;
            runtime.block_on(follow(client, |alert| {
                show(&alert, printer.as_mut(), &alerts_out);
            }));
        });
    if let Err(error) = started {
        out.note(no_alerts(&error));
    }
}

fn no_alerts(error: &impl std::fmt::Display) -> String {
    format!("no alerts in this chat: {error}")
}

fn show(alert: &Alert<'_>, printer: Option<&mut AlertPrinter>, out: &Output) {
    if out.is_json() {
        out.object(&alert.to_json());
        return;
    }
    let line = line(alert);
    match printer {
        Some(printer) if printer.is_typing() => printer.print(line),
        Some(_) | None => out.line(line),
    }
}

/// Formats an alert as one line without control characters.
fn line(alert: &Alert<'_>) -> String {
    match alert {
        Alert::Event(event) => words(&events::alert_line(event, Clock::Wall)),
        Alert::LeftOut(count) => format!(
            "{} left out; `/events` shows them",
            counted(*count, "more alert")
        ),
    }
}
