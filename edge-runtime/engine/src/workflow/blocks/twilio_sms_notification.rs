//! Sends text messages through Twilio.

use watchkeeper_contract::effect::{Effect, Sms};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink::{self, EffectOrRefusal, sealed, texts};
use crate::workflow::blocks::common::template::{self, Template};

const TWILIO_ACCOUNT_SID: Property =
    Property::secret("twilio_account_sid").about("id of the account");
const TWILIO_AUTH_TOKEN: Property =
    Property::secret("twilio_auth_token").about("token of the account");
const SENDER_NUMBER: Property =
    Property::value("sender_number", Shape::Text).about("sender number");
const RECEIVER_NUMBER: Property =
    Property::value("receiver_number", Shape::Text).about("receiver number");
pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/twilio_sms_notification@v1",
        summary: "Sends a text message through Twilio, cut to a maximum length.",
        properties: &[
            TWILIO_ACCOUNT_SID,
            TWILIO_AUTH_TOKEN,
            SENDER_NUMBER,
            RECEIVER_NUMBER,
            sink::MESSAGE,
            sink::MESSAGE_PARAMETERS,
            sink::MESSAGE_PARAMETERS_OPERATIONS,
            sink::FIRE_AND_FORGET,
            sink::DISABLE_SINK,
            sink::SHARED_COOLDOWN,
            sink::COOLDOWN_SESSION_KEY,
            Property::count("length_limit", 160).about("maximum characters of a message"),
        ],
        build: |setup| sink::messenger(setup, "twilio", sms),
        ..sink::BASE
    },
    Manifest {
        name: "roboflow_core/twilio_sms_notification@v2",
        summary: "Sends a text message through Twilio, with pictures by URL.",
        properties: &[
            Property::literal_one_of(
                "sms_provider",
                &["Roboflow Managed API Key", "Custom Twilio"],
            )
            .about(
                "provider; the managed service needs a Roboflow account, so use Custom Twilio here",
            ),
            RECEIVER_NUMBER,
            sink::MESSAGE,
            sink::MESSAGE_PARAMETERS,
            sink::MESSAGE_PARAMETERS_OPERATIONS,
            Property::optional("media_url", TEXT_OR_TEXTS)
                .about("URLs of pictures to attach")
                .kinds(&[Kind::Text, Kind::ListOfValues, Kind::Image]),
            TWILIO_ACCOUNT_SID.or(Or::Null),
            TWILIO_AUTH_TOKEN.or(Or::Null),
            SENDER_NUMBER.or(Or::Null),
            sink::FIRE_AND_FORGET,
            sink::DISABLE_SINK,
            sink::COOLDOWN,
        ],
        build: |setup| sink::messenger(setup, "twilio", sms),
        ..sink::BASE
    },
];

/// Maximum characters of a message; one longer than 160 is sent in parts.
const MAX_TEXT: i64 = 1600;

fn sms(message: &Template, call: &Call<'_>) -> Result<EffectOrRefusal, String> {
    const ACCOUNT: [&str; 3] = ["twilio_account_sid", "twilio_auth_token", "sender_number"];
    // The first version has no provider.
    let provider = call.named("sms_provider");
    if let Err(why) = sink::check_provider(call, provider, "Custom Twilio", &ACCOUNT) {
        return Ok(Err(why));
    }
    let media = texts(call, call.named("media_url")).map_err(|why| {
        format!(
            "{why}; Twilio fetches pictures from the web, so a picture of this machine needs a \
             public URL"
        )
    })?;
    // The second version has no limit of its own.
    let limit = call.named("length_limit");
    let most = if call.has(limit) {
        call.clamped(limit, 0..=MAX_TEXT)?
    } else {
        MAX_TEXT
    };
    let [account, token, from] = ACCOUNT;
    Ok(Ok(Effect::Sms(Sms {
        account: sealed(call, call.named(account))?,
        token: sealed(call, call.named(token))?,
        from: call.text(call.named(from))?.to_owned(),
        to: call.text(call.named("receiver_number"))?.to_owned(),
        text: template::cut(message.fill(call)?, usize::try_from(most).unwrap_or(0)),
        media,
    })))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::Bench;
    use super::Effect;

    fn sent(more: &Json) -> (Json, Vec<Effect>) {
        let mut step = json!({
            "twilio_account_sid": "AC1", "twilio_auth_token": "t", "sender_number": "+1", "receiver_number": "+2",
            "message": "somebody has been at the door for a while"
        });
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        let mut bench = Bench::new(step, &[]);
        let out = bench.feed(&[]).unwrap();
        (out, bench.effects().to_vec())
    }

    #[test]
    fn message_is_cut_to_its_limit() {
        let (out, effects) = sent(&json!({
            "type": "roboflow_core/twilio_sms_notification@v1", "cooldown_session_key": "a", "length_limit": 20
        }));
        assert_eq!(out["error_status"], false);
        let Effect::Sms(sms) = &effects[0] else {
            panic!("{effects:?}")
        };
        assert_eq!(sms.text, "somebody has b [...]");
    }

    #[test]
    fn limit_beyond_that_of_the_service_is_lowered() {
        let (_, effects) = sent(&json!({
            "type": "roboflow_core/twilio_sms_notification@v1", "cooldown_session_key": "a",
            "length_limit": 100_000, "message": "m".repeat(2000)
        }));
        let Effect::Sms(sms) = &effects[0] else {
            panic!("{effects:?}")
        };
        assert_eq!(sms.text.chars().count(), 1600);
    }

    #[test]
    fn managed_service_is_refused_and_own_account_is_used() {
        let v2 = "roboflow_core/twilio_sms_notification@v2";
        let (out, effects) = sent(&json!({"type": v2}));
        assert!(effects.is_empty() && out["error_status"] == true);
        let own =
            json!({"type": v2, "sms_provider": "Custom Twilio", "media_url": "https://host/a.jpg"});
        let (_, effects) = sent(&own);
        let Effect::Sms(sms) = &effects[0] else {
            panic!("{effects:?}")
        };
        assert_eq!(sms.media, ["https://host/a.jpg"]);
    }
}
