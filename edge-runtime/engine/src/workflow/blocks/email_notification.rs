//! Sends e-mails.

use watchkeeper_contract::effect::{Attachment, Effect, Email, EmailBody};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink::{self, EffectOrRefusal, attachments, sealed, texts};
use crate::workflow::blocks::common::template::Template;
use crate::workflow::values::codec;

const SUBJECT: Property = Property::literal("subject", Shape::Text).about("subject of the e-mail");
const SENDER_EMAIL: Property = Property::value("sender_email", Shape::Text)
    .about("sender address, also the user name at the server");
const RECEIVER_EMAIL: Property = Property::value("receiver_email", TEXT_OR_TEXTS)
    .about("receivers")
    .kinds(&[Kind::Text, Kind::ListOfValues]);
const CC_RECEIVER_EMAIL: Property = Property::optional("cc_receiver_email", TEXT_OR_TEXTS)
    .about("receivers of a copy")
    .kinds(&[Kind::Text, Kind::ListOfValues]);
const BCC_RECEIVER_EMAIL: Property = Property::optional("bcc_receiver_email", TEXT_OR_TEXTS)
    .about("receivers of a blind copy")
    .kinds(&[Kind::Text, Kind::ListOfValues]);
const SMTP_SERVER: Property =
    Property::value("smtp_server", Shape::Text).about("host name of the server");
const SENDER_EMAIL_PASSWORD: Property =
    Property::secret("sender_email_password").about("password of the sender");
const SMTP_PORT: Property = Property::integer("smtp_port", 465)
    .about("port of the server, which must use TLS")
    .literal_only();
pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/email_notification@v1",
        summary: "Sends an e-mail in plain text through an SMTP server.",
        properties: &[
            SUBJECT,
            SENDER_EMAIL,
            RECEIVER_EMAIL,
            sink::MESSAGE,
            sink::MESSAGE_PARAMETERS,
            sink::MESSAGE_PARAMETERS_OPERATIONS,
            CC_RECEIVER_EMAIL,
            BCC_RECEIVER_EMAIL,
            sink::ATTACHMENTS,
            SMTP_SERVER,
            SENDER_EMAIL_PASSWORD,
            SMTP_PORT,
            sink::FIRE_AND_FORGET,
            sink::DISABLE_SINK,
            sink::COOLDOWN,
        ],
        build,
        ..sink::BASE
    },
    Manifest {
        name: "roboflow_core/email_notification@v2",
        summary: "Sends an e-mail with pictures through an SMTP server.",
        properties: &[
            Property::literal_one_of(
                "email_provider",
                &["Roboflow Managed API Key", "Custom SMTP"],
            )
            .about(
                "provider; the managed service needs a Roboflow account, so use Custom SMTP here",
            ),
            SUBJECT,
            RECEIVER_EMAIL,
            sink::MESSAGE,
            sink::MESSAGE_PARAMETERS,
            sink::MESSAGE_PARAMETERS_OPERATIONS,
            SENDER_EMAIL.or(Or::Null),
            SMTP_SERVER.or(Or::Null),
            SENDER_EMAIL_PASSWORD.or(Or::Null),
            CC_RECEIVER_EMAIL,
            BCC_RECEIVER_EMAIL,
            SMTP_PORT,
            sink::attached(&[Kind::Text, Kind::Bytes, Kind::Image]),
            sink::FIRE_AND_FORGET,
            sink::DISABLE_SINK,
            sink::COOLDOWN,
        ],
        build,
        ..sink::BASE
    },
];

fn build(setup: &Setup<'_>) -> Result<Box<dyn Instance>, String> {
    let receivers = setup.literals.get("receiver_email");
    if receivers
        .and_then(|r| r.as_array())
        .is_some_and(Vec::is_empty)
    {
        return Err("receiver_email needs at least one receiver".to_owned());
    }
    sink::messenger(setup, "e-mail", email)
}

fn email(message: &Template, call: &Call<'_>) -> Result<EffectOrRefusal, String> {
    // The first version has no provider.
    let provider = call.named("email_provider");
    let is_first = call.arg(provider).is_null();
    let account = ["smtp_server", "sender_email", "sender_email_password"];
    if let Err(why) = sink::check_provider(call, provider, "Custom SMTP", &account) {
        return Ok(Err(why));
    }
    let body = if is_first {
        let text = message.fill(call)?;
        EmailBody::Plain { text }
    } else {
        html(message, call)?
    };
    let receivers = |name| texts(call, call.named(name));
    Ok(Ok(Effect::Email(Email {
        server: call.text(call.named("smtp_server"))?.to_owned(),
        port: call.integer_in(call.named("smtp_port"), 1..=u16::MAX.into())?,
        from: call.text(call.named("sender_email"))?.to_owned(),
        password: sealed(call, call.named("sender_email_password"))?,
        to: receivers("receiver_email")?,
        cc: receivers("cc_receiver_email")?,
        bcc: receivers("bcc_receiver_email")?,
        subject: call.text(call.named("subject"))?.to_owned(),
        body,
        attachments: attachments(call.arg(call.named("attachments")))?,
    })))
}

/// The message as HTML: parameters are text, pictures are separate parts.
fn html(message: &Template, call: &Call<'_>) -> Result<EmailBody, String> {
    let mut images = Vec::new();
    let filled = message.fill_with(call, |name, value| match value {
        Value::Image(image) => {
            images.push(Attachment {
                name: format!("image_{name}"),
                bytes: codec::jpeg(&image.pixels.rgb(), codec::QUALITY)?,
            });
            Ok(format!(
                "<img src=\"cid:image_{name}\" alt=\"{name}\" style=\"max-width: 600px; height: \
                 auto;\">"
            ))
        }
        other => Ok(escaped(&other.python_str())),
    })?;
    Ok(EmailBody::Html {
        html: filled.replace('\n', "<br>\n"),
        images,
    })
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::{Effect, EmailBody, Kind};

    fn step(version: &str, more: &Json) -> Json {
        let mut step = json!({
            "type": format!("roboflow_core/email_notification@{version}"), "subject": "door",
            "receiver_email": ["a@box", "b@box"], "message": "{{ $parameters.who }}\n{{ $parameters.frame }}",
            "message_parameters": {"who": "<script>", "frame": "$inputs.image"},
            "message_parameters_operations": {}, "sender_email": "box@box", "smtp_server": "mail.box",
            "sender_email_password": "hush", "attachments": {"frame": "$inputs.image"}
        });
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        step
    }

    fn bench(version: &str, more: &Json) -> Bench {
        Bench::new(step(version, more), &[("image", Kind::Image)])
    }

    #[test]
    fn email_has_its_pictures_and_escapes_values() {
        let mut bench = bench("v2", &json!({"email_provider": "Custom SMTP"}));
        let frame = picture(1, [4, 2], |_, _| [9, 9, 9]);
        let out = bench.feed(&[("image", frame)]).unwrap();
        assert_eq!(out["error_status"], false);
        let [Effect::Email(email)] = bench.effects() else {
            panic!("one e-mail expected");
        };
        assert_eq!(email.to, ["a@box", "b@box"]);
        assert_eq!(email.attachments[0].name, "frame.jpg");
        let EmailBody::Html { html, images } = &email.body else {
            panic!("HTML expected");
        };
        assert!(
            html.starts_with("&lt;script&gt;<br>\n<img src=\"cid:image_frame\""),
            "{html}"
        );
        assert_eq!(images[0].name, "image_frame");
        assert!(images[0].bytes.starts_with(&[0xff, 0xd8]));
        assert!(!format!("{email:?}").contains("hush"));
    }

    #[test]
    fn managed_service_is_refused_with_the_remedy() {
        let frame = || picture(1, [4, 2], |_, _| [9, 9, 9]);
        let out = bench("v2", &json!({})).feed(&[("image", frame())]).unwrap();
        assert_eq!(out["error_status"], true);
        assert!(
            out["message"].as_str().unwrap().contains("Custom SMTP"),
            "{out}"
        );
    }
}
