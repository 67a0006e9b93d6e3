//! `watchkeeper cameras devices`, `show` and `set`: V4L2 devices of this machine.
//!
//! - Devices are read here; values are kept and written by the runtime.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use watchkeeper_board::camera::{self, Control, Detail, FormatModes, LocalCamera, SizeModes};
use watchkeeper_client::RuntimeClient;
use watchkeeper_config::address::Address;
use watchkeeper_contract::source::SourceStatus;

use super::args::SetArgs;
use super::exit::Failure;
use super::output::Output;

/// Maximum sizes in a line of text; `--json` has all.
const MAX_SIZES: usize = 12;

/// Maximum formats of a device in text; `--json` has all.
const MAX_FORMATS: usize = 12;

/// Lists the cameras of this machine.
pub(super) fn devices(out: &Output) {
    let cameras = camera::list(Path::new("/"), Detail::All);
    cameras.iter().for_each(|camera| out.object(camera));
    if cameras.is_empty() && !out.is_json() {
        out.line(
            "No USB camera on this machine. CSI camera: watchkeeper cameras add NAME csi://0. \
             Network cameras: watchkeeper cameras find",
        );
    }
    for camera in &cameras {
        describe(camera).iter().for_each(|line| out.line(line));
    }
}

/// Describes a camera, one line a format.
fn describe(camera: &LocalCamera) -> Vec<String> {
    let abilities = &camera.abilities;
    let card = camera.card.as_deref().unwrap_or("camera");
    let mut lines = vec![format!("{}: {card}", camera.device.display())];
    if let Some(problem) = &camera.problem {
        lines.push(format!("  {problem}"));
        return lines;
    }
    lines.push(format!("  address: {}", camera.address));
    let serial = camera
        .serial
        .iter()
        .map(|serial| format!(", serial number {serial}"));
    lines.push(format!(
        "  attached at {} ({}){}",
        abilities.bus,
        abilities.driver,
        serial.collect::<String>()
    ));
    let formats = abilities.formats.iter().take(MAX_FORMATS);
    lines.extend(formats.map(|format| format!("  {}", describe_format(format))));
    let more = abilities.formats.len().saturating_sub(MAX_FORMATS);
    if more > 0 {
        lines.push(format!("  and {more} formats more (--json)"));
    }
    lines
}

fn describe_format(format: &FormatModes) -> String {
    let size = |size: &SizeModes| {
        let fps: Vec<String> = size.fps.iter().map(|fps| format!("{fps}")).collect();
        let fps = if fps.is_empty() {
            String::new()
        } else {
            format!(" at {}", fps.join("/"))
        };
        format!("{}x{}{fps}", size.width, size.height)
    };
    let sizes: Vec<String> = format.sizes.iter().take(MAX_SIZES).map(size).collect();
    let between = if format.is_range { " to " } else { ", " };
    let more = format.sizes.len().saturating_sub(MAX_SIZES);
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    format!("{}  {}{more}", format.format, sizes.join(between))
}

/// Names the cameras of this machine that no source uses; nothing with `--json`.
pub(super) async fn print_unused(sources: &[SourceStatus], out: &Output) {
    if out.is_json() {
        return;
    }
    let used: Vec<PathBuf> = sources.iter().filter_map(device_of).collect();
    // A driver may take its time to answer.
    let listed = tokio::task::spawn_blocking(move || unused(&used)).await;
    for camera in listed.unwrap_or_default() {
        let card = camera.card.as_deref().unwrap_or("a camera");
        let (device, address) = (camera.device.display(), &camera.address);
        out.line(format!(
            "{device}: {card}, not added yet: watchkeeper cameras add NAME {address}"
        ));
    }
}

/// Lists the cameras without a problem that are not among the devices `used`.
fn unused(used: &[PathBuf]) -> Vec<LocalCamera> {
    let used: Vec<PathBuf> = used
        .iter()
        .filter_map(|device| fs::canonicalize(device).ok())
        .collect();
    let is_used = |camera: &LocalCamera| {
        fs::canonicalize(&camera.device).is_ok_and(|node| used.contains(&node))
    };
    let mut cameras = camera::list(Path::new("/"), Detail::Formats);
    cameras.retain(|camera| camera.problem.is_none() && !is_used(camera));
    cameras
}

fn device_of(source: &SourceStatus) -> Option<PathBuf> {
    match Address::parse(&source.spec.uri) {
        Ok(Address::V4l2 { device, .. }) => Some(device),
        _ => None,
    }
}

/// Prints the controls of a camera; as JSON with the camera.
///
/// # Errors
/// [`Failure`] when the device can't be opened.
pub(super) fn show(source: &SourceStatus, out: &Output) -> Result<(), Failure> {
    let controls = match device_of(source) {
        Some(device) => camera::controls(&device).map_err(|e| Failure::input(e.to_string())),
        None => Ok(Vec::new()),
    };
    let listed = controls.as_deref().unwrap_or_default();
    out.object(&json!({"camera": source, "controls": listed}));
    if !listed.is_empty() {
        let wanted = &source.spec.controls;
        out.table(
            &["control", "value", "kept", "allowed", "default"],
            listed.iter().map(|c| control_row(c, wanted.get(&c.name))),
        );
    }
    controls.map(drop)
}

fn control_row(control: &Control, kept: Option<&i64>) -> Vec<String> {
    let number = |n: Option<i64>| n.map_or_else(|| "–".to_owned(), |n| n.to_string());
    let note = match (control.is_read_only, control.is_inactive) {
        (true, _) => " (read only)",
        (false, true) => " (inactive)",
        (false, false) => "",
    };
    vec![
        format!("{}{note}", control.name),
        number(control.value),
        number(kept.copied()),
        control.allowed(),
        control.default.to_string(),
    ]
}

/// Sets controls of a camera.
///
/// # Errors
/// [`Failure`] for an unknown camera, and for a name or value that its device does not accept.
pub(super) async fn set(
    args: SetArgs,
    client: &RuntimeClient,
    out: &Output,
) -> Result<(), Failure> {
    let source = client.source(&args.id).await?;
    let Some(device) = device_of(&source) else {
        return Err(Failure::input(format!(
            "camera {} is no V4L2 device; only those have controls",
            args.id
        )));
    };
    let mut spec = source.spec;
    spec.controls.extend(args.settings);
    let status = client.put_source(&spec).await?;
    out.both(&status, || {
        let all = status.spec.controls.iter();
        let all: Vec<String> = all.map(|(name, value)| format!("{name}={value}")).collect();
        format!("Camera {}: {}", spec.id, all.join(", "))
    });
    if let Err(error) = fs::metadata(&device) {
        out.note(unchecked(&device, &error));
    }
    Ok(())
}

/// Formats the sentence that nothing was written to a device.
fn unchecked(device: &Path, error: &std::io::Error) -> String {
    format!(
        "{} is not there now ({error}): the controls are kept, and checked and set when it is \
         plugged in; `watchkeeper status` then says whether it has them",
        device.display()
    )
}

#[cfg(test)]
mod tests {
    use watchkeeper_board::camera::Abilities;

    use super::*;

    fn webcam() -> LocalCamera {
        LocalCamera {
            device: "/dev/video0".into(),
            stable: Some("/dev/v4l/by-id/usb-046d_C920-video-index0".into()),
            address: "v4l2:/dev/v4l/by-id/usb-046d_C920-video-index0".to_owned(),
            card: Some("HD Pro Webcam C920".to_owned()),
            serial: Some("8F3A".to_owned()),
            problem: None,
            abilities: Abilities {
                driver: "uvcvideo".to_owned(),
                bus: "usb-0000:00:14.0-2".to_owned(),
                formats: vec![FormatModes {
                    format: "YUYV".to_owned(),
                    is_range: false,
                    sizes: vec![SizeModes {
                        width: 640,
                        height: 480,
                        fps: vec![30.0, 7.5],
                    }],
                }],
                controls: Vec::new(),
            },
        }
    }

    #[test]
    fn device_is_described_with_its_stable_address() {
        let lines = describe(&webcam()).join("\n");
        assert_eq!(
            lines,
            "/dev/video0: HD Pro Webcam C920\n  \
             address: v4l2:/dev/v4l/by-id/usb-046d_C920-video-index0\n  \
             attached at usb-0000:00:14.0-2 (uvcvideo), serial number 8F3A\n  \
             YUYV  640x480 at 30/7.5"
        );
    }

    #[test]
    fn device_without_permission_shows_the_remedy_only() {
        let mut camera = webcam();
        camera.problem = Some("permission denied".to_owned());
        assert_eq!(
            describe(&camera),
            ["/dev/video0: HD Pro Webcam C920", "  permission denied"]
        );
    }
}
