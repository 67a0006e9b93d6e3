//! Text messages by Twilio's API 2010-04-01: a form to `/Accounts/{sid}/Messages.json`, with the
//! account as HTTP basic login.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use watchkeeper_contract::effect::Sms;

use super::context::ConnectorContext;
use super::fault::Fault;
use super::http::{check_response, delivery_fault, form, read_start};
use super::secrets::EffectSecrets;

/// Error body of Twilio.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

/// Sends one text message.
///
/// # Errors
/// [`Fault`] of the connection or of the status, with Twilio's error message.
pub async fn send(
    context: &ConnectorContext,
    id: &str,
    sms: &Sms,
    secrets: &EffectSecrets,
) -> Result<(), Fault> {
    let account = secrets.text(&sms.account)?;
    let token = secrets.text(&sms.token)?;
    let base = context.config.twilio_url().map_err(Fault::permanent)?;
    context.config.admits_url(&base).map_err(Fault::permanent)?;
    let path = utf8_percent_encode(account, NON_ALPHANUMERIC);
    let url = base.join(&format!("2010-04-01/Accounts/{path}/Messages.json"));
    let url = url.map_err(|_| Fault::permanent("the Twilio account id is invalid"))?;
    let mut fields = vec![
        ("From".to_owned(), sms.from.clone()),
        ("To".to_owned(), sms.to.clone()),
        ("Body".to_owned(), sms.text.clone()),
    ];
    let media = sms.media.iter();
    fields.extend(media.map(|address| ("MediaUrl".to_owned(), address.clone())));
    let client = context.http.client().await?;
    let request = client
        .post(url.clone())
        .timeout(super::http::API_TIMEOUT)
        .basic_auth(account, Some(token))
        .header(super::http::IDEMPOTENCY_KEY, id);
    let response = form(request, &fields).send().await;
    let response = response.map_err(|error| delivery_fault(&url, &error))?;
    let Err(mut fault) = check_response(&url, &response) else {
        return Ok(());
    };
    if let Ok(refusal) = serde_json::from_slice::<Refusal>(&read_start(response).await) {
        fault.why = format!("{}: {}", fault.why, refusal.message);
    }
    Err(fault)
}
