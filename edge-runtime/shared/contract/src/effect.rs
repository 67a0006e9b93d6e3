//! Effects: what a workflow wants done outside, as data.
//!
//! A step that sends an e-mail or writes a file hands an [`Effect`] to the program around the
//! workflow. That program executes it later, with its own rights.
//!
//! - An effect holds everything that is sent, so it can be kept over a restart and retried.
//! - A secret is in it by name only. `Debug` shows no text that may be a password.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use utoipa::ToSchema;

/// Something to be done outside the workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Sends an e-mail.
    Email(Email),
    /// Makes an HTTP request and ignores the answer.
    Http(HttpCall),
    /// Writes to a file on the box.
    File(FileWrite),
    /// Packs several files into one on the box.
    Bundle(FileBundle),
    /// Writes an object to a store that speaks S3.
    S3(S3Write),
    /// Posts a message in a Slack channel.
    Slack(SlackMessage),
    /// Sends a text message by Twilio.
    Sms(Sms),
    /// Publishes a message at an MQTT broker.
    Mqtt(MqttMessage),
}

impl Effect {
    /// Returns a short name of the effect for messages.
    pub const fn what(&self) -> &'static str {
        match self {
            Self::Email(_) => "an e-mail",
            Self::Http(_) => "an HTTP request",
            Self::File(_) => "a file",
            Self::Bundle(_) => "a packed file",
            Self::S3(_) => "an object in S3",
            Self::Slack(_) => "a Slack message",
            Self::Sms(_) => "a text message",
            Self::Mqtt(_) => "an MQTT message",
        }
    }

    /// Returns every part that may be a secret.
    pub fn sealed(&self) -> impl Iterator<Item = &Sealed> {
        let (some, headers): (Vec<&Sealed>, _) = match self {
            Self::Email(email) => (vec![&email.password], None),
            Self::Http(call) => (Vec::new(), Some(call.headers.values())),
            Self::File(_) | Self::Bundle(_) => (Vec::new(), None),
            Self::S3(write) => {
                let keys = [&write.access_key_id, &write.secret_access_key];
                (keys.into_iter().flatten().collect(), None)
            }
            Self::Slack(message) => (vec![&message.token], None),
            Self::Sms(sms) => (vec![&sms.account, &sms.token], None),
            Self::Mqtt(message) => (message.password.iter().collect(), None),
        };
        some.into_iter().chain(headers.into_iter().flatten())
    }
}

/// Text that may be a secret: the text itself, or the name of a secret that the host keeps.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sealed {
    /// The text itself.
    Text(String),
    /// Name of a secret.
    Secret(String),
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(…)"),
            Self::Secret(name) => write!(f, "Secret({name})"),
        }
    }
}

/// A file sent along with a message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attachment {
    /// Name of the file, or of the form field; in an archive, its path there.
    pub name: String,
    /// Contents of the file, in base64.
    #[serde(with = "as_base64")]
    #[schema(value_type = String)]
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.name, self.bytes.len())
    }
}

/// An e-mail, by SMTP over TLS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Email {
    /// Host name of the server.
    pub server: String,
    /// Port of the server.
    pub port: u16,
    /// Sender, who is also the user of the server.
    pub from: String,
    /// Password of that user.
    pub password: Sealed,
    pub to: Vec<String>,
    /// Recipients of a copy.
    pub cc: Vec<String>,
    /// Recipients of a blind copy.
    pub bcc: Vec<String>,
    pub subject: String,
    /// Text of the e-mail.
    pub body: EmailBody,
    /// Files sent along.
    pub attachments: Vec<Attachment>,
}

/// Text of an e-mail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "format", rename_all = "snake_case")]
pub enum EmailBody {
    Plain {
        text: String,
    },
    /// HTML, with pictures as separate parts.
    Html {
        /// The HTML document.
        html: String,
        /// JPEG pictures, each under the content id that the document names.
        images: Vec<Attachment>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HttpCall {
    /// Address without the query.
    pub url: String,
    pub method: HttpMethod,
    /// Pairs of the query, in order.
    pub query: Vec<(String, String)>,
    pub headers: BTreeMap<String, Sealed>,
    pub body: HttpBody,
    /// Seconds after which the request has failed.
    pub timeout_s: f64,
}

/// Method of an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    Get,
    Post,
    Put,
}

/// Body of an HTTP request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "format", rename_all = "snake_case")]
pub enum HttpBody {
    Empty,
    Json {
        #[schema(value_type = Object)]
        document: Json,
    },
    /// A form; one with files is sent as `multipart/form-data`.
    Form {
        /// Pairs of field and text, in order.
        fields: Vec<(String, String)>,
        /// Files by the names of their fields.
        files: Vec<Attachment>,
    },
}

/// Text for a file. The host names it by prefix, time and extension.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileWrite {
    /// Folder; the host decides which folders are allowed.
    pub directory: String,
    /// Beginning of the file's name.
    pub prefix: String,
    /// End of the file's name, without the dot.
    pub extension: String,
    /// The text; it ends in a line break.
    pub content: String,
    /// Whether the text is appended to the file that this step started last.
    pub append: bool,
}

/// Files packed into a `tar` archive compressed by `gzip`. It gets its name once all of it is on
/// disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileBundle {
    /// Folder; the host decides which folders are allowed.
    pub directory: String,
    /// Name of the archive.
    pub name: String,
    /// Files in it, by their paths there.
    pub members: Vec<Attachment>,
}

/// Text for an object in a store that speaks S3.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct S3Write {
    /// Name of the bucket.
    pub bucket: String,
    /// Beginning of the key; the host adds time and extension.
    pub prefix: String,
    /// End of the key, without the dot.
    pub extension: String,
    /// The whole text of the object; it ends in a line break.
    pub content: String,
    /// Whether it replaces the object that this step wrote last.
    pub replace: bool,
    /// Region of the bucket.
    pub region: Option<String>,
    /// Id of the access key; absent: the host's own credentials.
    pub access_key_id: Option<Sealed>,
    /// The access key; absent: the host's own credentials.
    pub secret_access_key: Option<Sealed>,
}

/// A message in a Slack channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SlackMessage {
    /// Token of the application that posts it.
    pub token: Sealed,
    /// Name or id of the channel.
    pub channel: String,
    pub text: String,
    /// Files sent along.
    pub files: Vec<Attachment>,
}

/// A text message by Twilio.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sms {
    /// Id of the account.
    pub account: Sealed,
    /// Token of the account.
    pub token: Sealed,
    /// Number it is sent from.
    pub from: String,
    /// Number it is sent to.
    pub to: String,
    pub text: String,
    /// Addresses of pictures sent along.
    pub media: Vec<String>,
}

/// Longest [`MqttMessage::payload`] in bytes.
pub const MAX_MQTT_PAYLOAD: usize = 256 * 1024;
/// Longest [`MqttMessage::topic`] in bytes.
pub const MAX_MQTT_TOPIC: usize = 1024;

/// A message for an MQTT broker that the workflow names, over a separate session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MqttMessage {
    /// Host name or address of the broker.
    pub host: String,
    /// Port of the broker.
    pub port: u16,
    /// Whether the connection is TLS.
    pub tls: bool,
    /// User of the broker; absent: no login.
    pub username: Option<String>,
    /// Password of that user.
    pub password: Option<Sealed>,
    /// Topic, without wildcards.
    pub topic: String,
    pub payload: String,
    /// Quality of service.
    pub qos: MqttQos,
    /// Whether the broker keeps it for later subscribers.
    pub retain: bool,
    /// Seconds that the broker has to answer.
    pub timeout_s: f64,
}

impl MqttMessage {
    /// Refuses what no broker would take, before anything is kept or sent.
    ///
    /// # Errors
    /// One sentence that names the property and its bounds.
    pub fn check(&self) -> Result<(), String> {
        let topic = &self.topic;
        let is_topic =
            !topic.is_empty() && topic.len() <= MAX_MQTT_TOPIC && !topic.contains(['#', '+', '\0']);
        if !is_topic {
            return Err(format!(
                "topic {topic:?} can't be published to; use 1 to {MAX_MQTT_TOPIC} bytes without + and #"
            ));
        }
        if topic.starts_with('$') {
            return Err(format!(
                "topic is {topic:?}; topics that begin with $ are the broker's own"
            ));
        }
        let bytes = self.payload.len();
        if bytes > MAX_MQTT_PAYLOAD {
            return Err(format!(
                "message has {bytes} bytes; at most {MAX_MQTT_PAYLOAD} are sent"
            ));
        }
        if self.password.is_some() && self.username.is_none() {
            return Err("password is given without username; give both or neither".to_owned());
        }
        Ok(())
    }
}

/// Quality of service of an MQTT message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MqttQos {
    /// QoS 0: done when handed to the network.
    AtMostOnce,
    /// QoS 1: done when the broker acknowledged it.
    AtLeastOnce,
    /// QoS 2: done when the broker completed it. After a crash of the agent it may still come
    /// twice.
    ExactlyOnce,
}

impl MqttQos {
    /// Returns the level with this number, if there is one.
    pub const fn from_number(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}

mod as_base64 {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failing test may panic")]
mod tests {
    use super::{
        Attachment, Effect, MAX_MQTT_PAYLOAD, MAX_MQTT_TOPIC, MqttMessage, MqttQos, Sealed,
        SlackMessage,
    };

    fn message() -> Effect {
        Effect::Slack(SlackMessage {
            token: Sealed::Text("xoxb-hush".to_owned()),
            channel: "yard".to_owned(),
            text: "somebody is here".to_owned(),
            files: vec![Attachment {
                name: "frame.jpg".to_owned(),
                bytes: vec![0, 255, 7],
            }],
        })
    }

    #[test]
    fn an_effect_comes_back_as_it_was_written() {
        let text = serde_json::to_string(&message()).unwrap();
        assert_eq!(serde_json::from_str::<Effect>(&text).unwrap(), message());
    }

    #[test]
    fn a_token_is_not_shown() {
        let shown = format!("{:?}", message());
        assert!(!shown.contains("hush"), "{shown}");
    }

    fn publication(topic: &str, payload: String) -> MqttMessage {
        MqttMessage {
            host: "broker.example".to_owned(),
            port: 1883,
            tls: false,
            username: Some("gate".to_owned()),
            password: Some(Sealed::Text("hush".to_owned())),
            topic: topic.to_owned(),
            payload,
            qos: MqttQos::AtLeastOnce,
            retain: false,
            timeout_s: 0.5,
        }
    }

    #[test]
    fn message_no_broker_takes_is_refused_with_property() {
        let good = publication("yard/count", "x".repeat(MAX_MQTT_PAYLOAD));
        assert_eq!(good.check(), Ok(()));
        let long = "t".repeat(MAX_MQTT_TOPIC + 1);
        for topic in ["", "yard/#", "yard/+/count", "$SYS/broker", "a\0b", &long] {
            let why = publication(topic, String::new()).check().unwrap_err();
            assert!(why.starts_with("topic"), "{why}");
        }
        let why = publication("yard", "x".repeat(MAX_MQTT_PAYLOAD + 1)).check();
        assert!(why.unwrap_err().starts_with("message"));
        let mut nobody = good;
        nobody.username = None;
        assert!(nobody.check().unwrap_err().starts_with("password"));
        assert!(!format!("{nobody:?}").contains("hush"));
    }
}
