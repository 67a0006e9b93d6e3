//! A bundle as the body of a response.

use axum::response::Response;
use tokio::sync::OwnedSemaphorePermit;
use watchkeeper_bundle::write::Bundle;
use watchkeeper_http::{Refusal, pieces, refusal};

use crate::api::app::{App, MAX_BUNDLES};

/// Takes the permit for one bundle.
///
/// # Errors
/// When [`MAX_BUNDLES`] are made or sent.
pub(super) fn permit(app: &App) -> Result<OwnedSemaphorePermit, Refusal> {
    let permit = app.shared.bundles.clone().try_acquire_owned();
    permit.map_err(|_| {
        refusal::full(format!(
            "{MAX_BUNDLES} bundles are being made; try again in a moment"
        ))
    })
}

/// Builds the response and starts the thread that writes it and holds `permit`.
pub(super) fn send(bundle: Bundle, permit: OwnedSemaphorePermit) -> Response {
    let length = bundle.length();
    pieces::respond("application/x-tar", length, permit, |out| bundle.write(out))
}
