//! E-mails by SMTP over TLS.
//!
//! TLS is implicit (RFC 8314), except at ports 25 and 587, where `STARTTLS` is required.
//! Invariant: login and message are only sent over TLS, to a server with a valid certificate.

use std::path::Path;
use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor};
use watchkeeper_contract::effect::{Attachment as File, Email, EmailBody};

use super::fault::{Fault, blocking};
use super::secrets::EffectSecrets;
use watchkeeper_client::error_chain::one_line;

/// Timeout of one SMTP command.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of a whole delivery.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(120);
/// Ports that use `STARTTLS`.
const STARTTLS_PORTS: [u16; 2] = [25, 587];

/// Sends one e-mail with `id` in its `Message-ID`.
///
/// # Errors
/// [`Fault`]; permanent for an invalid message and for a 5xx reply of the server.
pub async fn send(
    id: &str,
    email: &Email,
    ca_file: Option<&Path>,
    secrets: &EffectSecrets,
) -> Result<(), Fault> {
    let message = message(id, email)?;
    let (server, ca_file) = (email.server.clone(), ca_file.map(Path::to_path_buf));
    let tls = blocking(move || tls(server, ca_file.as_deref())).await?;
    let tls = match STARTTLS_PORTS.contains(&email.port) {
        true => Tls::Required(tls),
        false => Tls::Wrapper(tls),
    };
    let login = Credentials::new(
        email.from.clone(),
        secrets.text(&email.password)?.to_owned(),
    );
    let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(email.server.as_str())
        .port(email.port)
        .tls(tls)
        .credentials(login)
        .timeout(Some(STEP_TIMEOUT))
        .build();
    let server = format!("{}:{}", email.server, email.port);
    match tokio::time::timeout(TOTAL_TIMEOUT, transport.send(message)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => {
            let why = format!("{server}: {}", one_line(&error));
            // Only a 5xx reply is permanent: a certificate may be replaced, a network return.
            Err(match error.is_permanent() {
                true => Fault::permanent(why),
                false => Fault::transient(why),
            })
        }
        Err(_) => Err(Fault::transient(format!("{server} did not answer in time"))),
    }
}

/// Returns parameters that trust the authorities in `ca_file`, or else those of the system.
fn tls(server: String, ca_file: Option<&Path>) -> Result<TlsParameters, Fault> {
    let mut tls = TlsParameters::builder(server);
    if let Some(path) = ca_file {
        let ca_fault =
            |why: String| Fault::transient(format!("sinks.ca_file {}: {why}", path.display()));
        let pem = std::fs::read(path).map_err(|error| ca_fault(error.to_string()))?;
        let certificate =
            Certificate::from_pem(&pem).map_err(|error| ca_fault(one_line(&error)))?;
        tls = tls
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate);
    }
    tls.build_rustls()
        .map_err(|error| Fault::transient(format!("TLS can't be set up: {}", one_line(&error))))
}

/// MIME message: inline images in `multipart/related`, attachments in `multipart/mixed`.
fn message(id: &str, email: &Email) -> Result<Message, Fault> {
    let from = mailbox(&email.from)?;
    let domain = from.email.domain().to_owned();
    let mut builder = Message::builder()
        .from(from)
        .subject(&email.subject)
        .message_id(Some(format!("<{id}@{domain}>")));
    for to in &email.to {
        builder = builder.to(mailbox(to)?);
    }
    for cc in &email.cc {
        builder = builder.cc(mailbox(cc)?);
    }
    for bcc in &email.bcc {
        builder = builder.bcc(mailbox(bcc)?);
    }
    let mut parts = match &email.body {
        EmailBody::Plain { text } => MultiPart::mixed().singlepart(SinglePart::plain(text.clone())),
        EmailBody::Html { html, images } => {
            let mut related = MultiPart::related().singlepart(SinglePart::html(html.clone()));
            for image in images {
                let part = Attachment::new_inline(image.name.clone());
                related = related.singlepart(part.body(image.bytes.clone(), content_type(image)?));
            }
            MultiPart::mixed().multipart(related)
        }
    };
    for file in &email.attachments {
        let part = Attachment::new(file.name.clone());
        parts = parts.singlepart(part.body(file.bytes.clone(), content_type(file)?));
    }
    builder.multipart(parts).map_err(|error| {
        Fault::permanent(format!("the e-mail can't be built: {}", one_line(&error)))
    })
}

fn mailbox(address: &str) -> Result<Mailbox, Fault> {
    address.parse().map_err(|error| {
        Fault::permanent(format!("e-mail address {address:?} is invalid: {error}"))
    })
}

/// Content type of a file, from its bytes.
fn content_type(file: &File) -> Result<ContentType, Fault> {
    let name = if file.bytes.starts_with(&[0xff, 0xd8]) {
        "image/jpeg"
    } else if std::str::from_utf8(&file.bytes).is_ok() {
        "text/plain; charset=utf-8"
    } else {
        "application/octet-stream"
    };
    ContentType::parse(name).map_err(|error| Fault::permanent(error.to_string()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use watchkeeper_contract::effect::Sealed;

    use super::*;

    fn email(body: EmailBody) -> Email {
        Email {
            server: "mail.example".to_owned(),
            port: 465,
            from: "box@yard.example".to_owned(),
            password: Sealed::Text("hush".to_owned()),
            to: vec!["guard@yard.example".to_owned()],
            cc: Vec::new(),
            bcc: vec!["chief@yard.example".to_owned()],
            subject: "Somebody \u{e9} is here".to_owned(),
            body,
            attachments: vec![File {
                name: "frame.jpg".to_owned(),
                bytes: vec![0xff, 0xd8, 1],
            }],
        }
    }

    #[test]
    fn email_has_inline_images_and_hides_its_bcc() {
        let html = EmailBody::Html {
            html: "<img src=\"cid:image_frame\">".to_owned(),
            images: vec![File {
                name: "image_frame".to_owned(),
                bytes: vec![0xff, 0xd8],
            }],
        };
        let message = message("01J", &email(html)).unwrap();
        let to: Vec<String> = message
            .envelope()
            .to()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(to, ["guard@yard.example", "chief@yard.example"]);
        let text = String::from_utf8(message.formatted()).unwrap();
        assert!(!text.contains("chief@"), "{text}");
        for part in [
            "Message-ID: <01J@yard.example>",
            "multipart/related",
            "Content-ID: <image_frame>",
            "filename=\"frame.jpg\"",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn line_break_in_subject_or_address_adds_no_header() {
        let mut email = email(EmailBody::Plain {
            text: "x".to_owned(),
        });
        email.subject = "a\r\nBcc: evil@evil.example".to_owned();
        if let Ok(message) = message("01J", &email) {
            let text = String::from_utf8(message.formatted()).unwrap();
            assert!(!text.contains("\nBcc: evil"), "{text}");
        }
        email.subject = "a".to_owned();
        email.to = vec!["guard@yard.example\r\nBcc: evil@evil.example".to_owned()];
        assert!(message("01J", &email).is_err());
    }
}
