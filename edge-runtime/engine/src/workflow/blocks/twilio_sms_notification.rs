//! Sends text messages through Twilio.

use std::collections::BTreeMap;

use watchkeeper_contract::effect::{Effect, Sms};

use super::super::uql::Chain;
use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink;
use crate::workflow::blocks::common::sink::{Rest, Sent, Session, Sink, sealed, texts};
use crate::workflow::blocks::common::template;

const TWILIO_ACCOUNT_SID: Property =
    Property::value("twilio_account_sid", "id of the account", Shape::Text)
        .kinds(&[Kind::Text, Kind::Secret]);
const TWILIO_AUTH_TOKEN: Property =
    Property::value("twilio_auth_token", "token of the account", Shape::Text)
        .kinds(&[Kind::Text, Kind::Secret]);
const SENDER_NUMBER: Property = Property::value("sender_number", "sender number", Shape::Text);
const RECEIVER_NUMBER: Property =
    Property::value("receiver_number", "receiver number", Shape::Text);
const LENGTH_LIMIT: Property =
    Property::count("length_limit", "maximum characters of a message", 160);
const SMS_PROVIDER: Property = Property::literal(
    "sms_provider",
    "provider; the managed service needs a Roboflow account, so use Custom Twilio here",
    Shape::Choice(&["Roboflow Managed API Key", "Custom Twilio"]),
)
.or(Or::Text("Roboflow Managed API Key"));
const MEDIA_URL: Property =
    Property::value("media_url", "URLs of pictures to attach", TEXT_OR_TEXTS)
        .kinds(&[Kind::Text, Kind::ListOfValues, Kind::Image])
        .or(Or::Null);
const TWILIO_ACCOUNT_SID_V2: Property = TWILIO_ACCOUNT_SID.or(Or::Null);
const TWILIO_AUTH_TOKEN_V2: Property = TWILIO_AUTH_TOKEN.or(Or::Null);
const SENDER_NUMBER_V2: Property = SENDER_NUMBER.or(Or::Null);
const FIRST: &[Property] = &[
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
    LENGTH_LIMIT,
];
const SECOND: &[Property] = &[
    SMS_PROVIDER,
    RECEIVER_NUMBER,
    sink::MESSAGE,
    sink::MESSAGE_PARAMETERS,
    sink::MESSAGE_PARAMETERS_OPERATIONS,
    MEDIA_URL,
    TWILIO_ACCOUNT_SID_V2,
    TWILIO_AUTH_TOKEN_V2,
    SENDER_NUMBER_V2,
    sink::FIRE_AND_FORGET,
    sink::DISABLE_SINK,
    sink::COOLDOWN,
];
pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/twilio_sms_notification@v1",
        category: "sink",
        summary: "Sends a text message through Twilio, cut to a maximum length.",
        role: Role::Sink,
        properties: FIRST,
        outputs: sink::OUTPUTS,
        build: first,
        ..Manifest::BASE
    },
    Manifest {
        name: "roboflow_core/twilio_sms_notification@v2",
        category: "sink",
        summary: "Sends a text message through Twilio, with pictures by URL.",
        role: Role::Sink,
        properties: SECOND,
        outputs: sink::OUTPUTS,
        build: second,
        ..Manifest::BASE
    },
];

/// Maximum characters of a message; one longer than 160 is sent in parts.
const MAX_TEXT: usize = 1600;

fn first(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    Ok(stateful_instance(First {
        operations: setup.parse("message_parameters_operations")?,
    }))
}

fn second(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    Ok(stateful_instance(Second {
        operations: setup.parse("message_parameters_operations")?,
    }))
}

struct First {
    operations: BTreeMap<String, Chain>,
}

impl Sink for First {
    type State = ();

    fn send(&self, _: &mut Self::State, call: &mut Call<'_>) -> Result<Sent, String> {
        if call.boolean(arg!(FIRST, "disable_sink"), false)? {
            return Ok(Sent::Off);
        }
        let session = Session::new(call.text(arg!(FIRST, "cooldown_session_key"))?, "twilio");
        if session.rests(call, call.number(arg!(FIRST, "cooldown_seconds"), 5.0)?) {
            return Ok(Sent::Resting);
        }
        let most = usize::try_from(call.integer(arg!(FIRST, "length_limit"), 160)?).unwrap_or(0);
        let text = template::fill(
            call.text(arg!(FIRST, "message"))?,
            call.arg(arg!(FIRST, "message_parameters")),
            &self.operations,
            call.ids,
        )?;
        let sms = Sms {
            account: sealed(
                call.arg(arg!(FIRST, "twilio_account_sid")),
                "twilio_account_sid",
            )?,
            token: sealed(
                call.arg(arg!(FIRST, "twilio_auth_token")),
                "twilio_auth_token",
            )?,
            from: call.text(arg!(FIRST, "sender_number"))?.to_owned(),
            to: call.text(arg!(FIRST, "receiver_number"))?.to_owned(),
            text: template::cut(text, most),
            media: Vec::new(),
        };
        session.begin(call);
        Ok(Sent::by(call, Effect::Sms(sms)))
    }
}

struct Second {
    operations: BTreeMap<String, Chain>,
}

impl Sink for Second {
    type State = Rest;

    fn send(&self, rest: &mut Self::State, call: &mut Call<'_>) -> Result<Sent, String> {
        if call.boolean(arg!(SECOND, "disable_sink"), false)? {
            return Ok(Sent::Off);
        }
        if rest.applies(
            call.now,
            call.number(arg!(SECOND, "cooldown_seconds"), 5.0)?,
        ) {
            return Ok(Sent::Resting);
        }
        if call.text(arg!(SECOND, "sms_provider"))? != "Custom Twilio" {
            return Ok(Sent::Refused(
                "messages of the managed service need a Roboflow account; set sms_provider to \"Custom Twilio\" with \
                 twilio_account_sid, twilio_auth_token and sender_number"
                    .to_owned(),
            ));
        }
        let own = [
            arg!(SECOND, "twilio_account_sid"),
            arg!(SECOND, "twilio_auth_token"),
            arg!(SECOND, "sender_number"),
        ];
        if own.iter().any(|arg| call.arg(*arg).is_null()) {
            return Ok(Sent::Refused(
                "\"Custom Twilio\" needs twilio_account_sid, twilio_auth_token and sender_number"
                    .to_owned(),
            ));
        }
        let media = texts(call.arg(arg!(SECOND, "media_url")), "media_url").map_err(|why| {
            format!("{why}; Twilio fetches pictures from the web, so a picture of this machine needs a public URL")
        });
        let text = template::fill(
            call.text(arg!(SECOND, "message"))?,
            call.arg(arg!(SECOND, "message_parameters")),
            &self.operations,
            call.ids,
        )?;
        let sms = Sms {
            account: sealed(
                call.arg(arg!(SECOND, "twilio_account_sid")),
                "twilio_account_sid",
            )?,
            token: sealed(
                call.arg(arg!(SECOND, "twilio_auth_token")),
                "twilio_auth_token",
            )?,
            from: call.text(arg!(SECOND, "sender_number"))?.to_owned(),
            to: call.text(arg!(SECOND, "receiver_number"))?.to_owned(),
            text: template::cut(text, MAX_TEXT),
            media: media?,
        };
        rest.begin(call.now);
        Ok(Sent::by(call, Effect::Sms(sms)))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
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
