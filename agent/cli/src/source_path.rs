//! Addresses of sources that name a file or a device of this machine.

use watchkeeper_config::address::Address;

use super::exit::Failure;
use super::output::Output;

/// Makes the path of a file absolute, because the runtime has another working folder.
pub(super) fn absolute_uri(uri: String, out: &Output) -> Result<String, Failure> {
    match Address::parse(&uri) {
        Ok(Address::Path(path)) => match path.canonicalize() {
            Ok(whole) => Ok(whole.display().to_string()),
            Err(error) if path.is_relative() => Err(Failure::input(format!(
                "can't find {uri} from this folder: {error}"
            ))),
            Err(error) => {
                out.note(format!(
                    "{}: {error}; put it there and add the camera again, or its pipelines fail",
                    path.display()
                ));
                Ok(uri)
            }
        },
        Ok(Address::V4l2 { device, .. }) => {
            if let Err(error) = device.metadata() {
                out.note(format!(
                    "{}: {error}; retried until the device is connected",
                    device.display()
                ));
            }
            Ok(uri)
        }
        // The runtime reports invalid addresses.
        Ok(
            Address::Rtsp { .. } | Address::Http { .. } | Address::Csi { .. } | Address::Demo(_),
        )
        | Err(_) => Ok(uri),
    }
}
