//! `watchkeeper cameras find`: ONVIF cameras on the local network, by WS-Discovery.
//!
//! - One search of a few seconds; nothing is remembered and no camera is logged in to.
//! - A camera does not say its stream's path or password here, so none is guessed.

mod message;
mod probe;

use std::net::SocketAddr;
use std::time::Duration;

use self::message::FoundCamera;
pub use self::message::read_answer;
use super::args::FindArgs;
use super::exit::Failure;
use super::output::Output;

/// Searches and prints the cameras.
///
/// # Errors
/// [`Exit::Failed`](crate::exit::Exit) when no network interface could be asked.
pub(super) fn run(args: &FindArgs, out: &Output) -> Result<(), Failure> {
    let to = match args.at {
        Some(host) => SocketAddr::new(host, args.port),
        None => SocketAddr::new(probe::GROUP.ip(), args.port),
    };
    out.busy(format!("waiting {} s for answers", args.seconds));
    let searched = probe::search(to, Duration::from_secs_f64(args.seconds));
    out.end_live_line();
    let found =
        searched.map_err(|e| Failure::failed(format!("can't list the network interfaces: {e}")))?;
    if found.asked == 0 {
        let why = found
            .problems
            .first()
            .map_or("it has no IPv4 address", String::as_str);
        let whom = match args.at {
            Some(host) => host.to_string(),
            None => "the network".to_owned(),
        };
        return Err(Failure::failed(format!("can't ask {whom}: {why}")));
    }
    for problem in &found.problems {
        out.note(problem);
    }
    for camera in found.cameras.values() {
        out.object(camera);
    }
    if out.is_json() {
        return Ok(());
    }
    if found.cameras.is_empty() {
        out.line(nothing_found(args));
        return Ok(());
    }
    out.table(
        &["name", "hardware", "location", "address"],
        found.cameras.values().map(row),
    );
    out.line(next_step(
        found.cameras.values().find_map(FoundCamera::host),
    ));
    Ok(())
}

/// Formats what no answer means: of one address, or of the local network.
fn nothing_found(args: &FindArgs) -> String {
    let off = "many cameras have ONVIF switched off: look in the camera's web page";
    match args.at {
        Some(host) => format!(
            "Nothing answered at {host}, UDP port {}: {off}. Otherwise check the address; a router \
             or firewall between must let the port through.",
            args.port
        ),
        None => format!(
            "No camera answered: {off}. Only this network segment is asked; a camera elsewhere: \
             --at ADDRESS."
        ),
    }
}

fn row(camera: &FoundCamera) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let address = match camera.xaddrs.first() {
        Some(first) => first.clone(),
        None => camera.endpoint.clone(),
    };
    vec![
        text(&camera.name),
        text(&camera.hardware),
        text(&camera.location),
        address,
    ]
}

fn next_step(host: Option<String>) -> String {
    let host = host.unwrap_or_else(|| "HOST".to_owned());
    format!(
        "Next: watchkeeper cameras add NAME rtsp://USER:PASSWORD@{host}/PATH (the path is in the \
         camera's manual or web page, under RTSP)"
    )
}
