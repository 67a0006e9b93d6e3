//! Controls of V4L2 devices (exposure, gain, focus, power-line frequency) in a specification.
//!
//! - They are written each time a device is opened, so that one that was unplugged gets them back.
//! - A value outside its range is refused before anything is written.
//! - A specification may name a device that is absent; its values are checked when it is there.

use std::collections::BTreeMap;
use std::path::Path;

use watchkeeper_board::camera::{self, ControlError, MAX_CONTROLS};
use watchkeeper_contract::source::LossCause;

use super::address::Address;
use super::feed::FeedError;

/// Why controls of a specification are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlsError {
    /// One sentence with the remedy.
    pub message: String,
    /// The part of `controls` that is wrong.
    pub found: String,
}

/// Checks the controls of a specification, also against the device if it can be opened.
///
/// # Errors
/// [`ControlsError`] for another kind of source, a malformed name, and a value out of range.
pub fn check(address: &Address, controls: &BTreeMap<String, i64>) -> Result<(), ControlsError> {
    let count = controls.len().to_string();
    let error = |message: String, found: &str| {
        let found = found.chars().take(80).collect();
        Err(ControlsError { message, found })
    };
    if controls.is_empty() {
        return Ok(());
    }
    let Address::V4l2 { device, .. } = address else {
        let message = "only a V4L2 device (/dev/video0) has controls; remove them".to_owned();
        let names: Vec<&str> = controls.keys().map(String::as_str).collect();
        return error(message, &names.join(", "));
    };
    if controls.len() > MAX_CONTROLS {
        let message = format!(
            "{} controls are too many; use {MAX_CONTROLS}",
            controls.len()
        );
        return error(message, &count);
    }
    if let Some(name) = controls.keys().find(|name| !camera::is_name(name)) {
        let message = "a control's name has 1 to 64 of a-z, 0-9 and _; \
                       `watchkeeper cameras show` lists them";
        return error(message.to_owned(), name);
    }
    match camera::check(device, controls) {
        // Absent, or not for this user: opening the source reports it.
        Ok(()) | Err(ControlError::Open { .. }) => Ok(()),
        Err(refused) => {
            let name = refused.control().unwrap_or_default();
            let value = controls.get(name).map(i64::to_string).unwrap_or_default();
            error(refused.to_string(), &format!("{name} = {value}"))
        }
    }
}

/// Writes the controls to the device.
///
/// An error is retried: the device may be another one after the next plug.
pub(super) fn apply(device: &Path, controls: &BTreeMap<String, i64>) -> Result<(), FeedError> {
    camera::apply(device, controls).map_err(|error| FeedError {
        cause: LossCause::Other,
        message: error.to_string(),
        is_retryable: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(uri: &str, name: &str) -> Option<String> {
        let address = Address::parse(uri).expect("an address");
        let controls = BTreeMap::from([(name.to_owned(), 1)]);
        check(&address, &controls).err().map(|error| error.message)
    }

    #[test]
    fn controls_of_network_camera_are_refused() {
        let message = refusal("rtsp://cam/live", "gain").expect("a refusal");
        assert!(message.contains("only a V4L2 device"), "{message}");
    }

    #[test]
    fn malformed_name_is_refused_without_device() {
        assert!(refusal("/dev/video250", "Gain, Auto\u{1b}").is_some());
        assert!(refusal("/dev/video250", &"a".repeat(65)).is_some());
    }

    #[test]
    fn controls_of_absent_device_are_accepted() {
        assert_eq!(refusal("/dev/video250", "gain"), None);
    }
}
