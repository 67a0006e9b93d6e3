//! Makes HTTP requests.

use std::collections::BTreeMap;

use watchkeeper_contract::effect::{Effect, HttpBody, HttpCall, HttpMethod, Sealed};

use super::super::uql::{Chain, apply_alone, named_operations};
use crate::workflow::block_api::call::IdCounter;
use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink::{self, attachments};
use crate::workflow::values::json::{Pictures, Writer};

const METHODS: [(&str, HttpMethod); 3] = [
    ("GET", HttpMethod::Get),
    ("POST", HttpMethod::Post),
    ("PUT", HttpMethod::Put),
];

/// Kinds of values in a query or a header.
const PLAIN: &[Kind] = &[
    Kind::Text,
    Kind::Integer,
    Kind::Float,
    Kind::RoboflowModelId,
    Kind::RoboflowProject,
    Kind::RoboflowApiKey,
    Kind::FloatZeroToOne,
    Kind::Boolean,
    Kind::TopClass,
];

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/webhook_sink@v1",
    summary: "Sends an HTTP request with values of the workflow: as query, JSON, form or files.",
    properties: &[
        Property::value("url", Shape::Text).about("address of the request"),
        Property::literal("method", Shape::Choice(&names_of(&METHODS)))
            .about("method of the request"),
        Property::dict("query_parameters")
            .about("parameters of the query")
            .kinds(PLAIN)
            .and_kind(Kind::ListOfValues),
        Property::dict("headers")
            .about("headers of the request, which may be secrets")
            .kinds(PLAIN)
            // An extension of the peer's block: a token may be a secret.
            .and_kind(Kind::Secret),
        Property::dict("json_payload").about("values to send as JSON"),
        named_operations(
            "json_payload_operations",
            "operations to apply to the JSON values first",
        ),
        Property::dict("multi_part_encoded_files").about("files to send, by field name"),
        named_operations(
            "multi_part_encoded_files_operations",
            "operations to apply to files first",
        ),
        Property::dict("form_data").about("fields of a form"),
        named_operations(
            "form_data_operations",
            "operations to apply to fields first",
        ),
        Property::integer("request_timeout", 2).about("timeout of the request in seconds"),
        sink::FIRE_AND_FORGET,
        sink::DISABLE_SINK,
        sink::COOLDOWN,
    ],
    build: |setup| {
        Ok(stateful_instance(Webhook {
            json_operations: setup.parse("json_payload_operations")?,
            file_operations: setup.parse("multi_part_encoded_files_operations")?,
            form_operations: setup.parse("form_data_operations")?,
        }))
    },
    ..sink::BASE
}];

struct Webhook {
    json_operations: BTreeMap<String, Chain>,
    file_operations: BTreeMap<String, Chain>,
    form_operations: BTreeMap<String, Chain>,
}

impl Stateful for Webhook {
    type State = sink::LastSent;

    fn run(&self, last: &mut Self::State, call: &mut Call<'_>) -> Result<(), String> {
        let sent = sink::send(call, last, "webhooks", |call| {
            Ok(Ok(Effect::Http(self.request(call)?)))
        })?;
        sent.put(call)
    }
}

impl Webhook {
    fn request(&self, call: &Call<'_>) -> Result<HttpCall, String> {
        let url = call.text(arg!("url"))?;
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return Err(format!(
                "url is {url:?} and has to start with http:// or https://"
            ));
        }
        let headers = call.arg(arg!("headers")).entries().map(|(name, value)| {
            let value = match value {
                Value::Secret(name) => Sealed::Secret(name.to_string()),
                plain => Sealed::Text(plain.python_str()),
            };
            (name.to_string(), value)
        });
        Ok(HttpCall {
            url: url.to_owned(),
            method: call.choice(arg!("method"), &METHODS)?,
            query: pairs(call.arg(arg!("query_parameters"))),
            headers: headers.collect(),
            body: self.body(call)?,
            timeout_s: call.number(arg!("request_timeout"))?,
        })
    }

    /// Files and fields make a form; without any, the payload is sent as JSON.
    fn body(&self, call: &Call<'_>) -> Result<HttpBody, String> {
        let done = |arg: Arg, operations| changed(call.arg(arg), operations, call.ids);
        let files = attachments(&done(
            arg!("multi_part_encoded_files"),
            &self.file_operations,
        )?)?;
        let fields = pairs(&done(arg!("form_data"), &self.form_operations)?);
        if !(files.is_empty() && fields.is_empty()) {
            return Ok(HttpBody::Form { fields, files });
        }
        let payload = done(arg!("json_payload"), &self.json_operations)?;
        let writer = Writer {
            pictures: Pictures::Jpeg,
            ..Writer::default()
        };
        Ok(HttpBody::Json {
            document: writer.value(&payload),
        })
    }
}

/// Entries of a dictionary as text: one pair per item of a list, none for null.
fn pairs(value: &Value) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (name, value) in value.entries() {
        match value {
            Value::Null => {}
            Value::List(items) => {
                pairs.extend(items.iter().map(|v| (name.to_string(), v.python_str())));
            }
            one => pairs.push((name.to_string(), one.python_str())),
        }
    }
    pairs
}

/// Returns the dictionary with the operations applied to its entries.
fn changed(
    value: &Value,
    operations: &BTreeMap<String, Chain>,
    ids: &IdCounter,
) -> Result<Value, String> {
    let changed = value.entries().map(|(name, value)| {
        let value = match operations.get(&**name) {
            Some(chain) => apply_alone(chain, value.clone(), ids)?,
            None => value.clone(),
        };
        Ok((Arc::clone(name), value))
    });
    Ok(Value::Dict(Arc::new(
        changed.collect::<Result<_, String>>()?,
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, boxes, picture};
    use super::{Effect, HttpBody, HttpCall, Kind};

    fn sent(more: &Json) -> HttpCall {
        let mut step = json!({"type": "roboflow_core/webhook_sink@v1", "url": "https://host/in", "method": "POST"});
        for (key, value) in more.as_object().unwrap() {
            step[key] = value.clone();
        }
        let kinds = [
            ("image", Kind::Image),
            ("boxes", Kind::ObjectDetection),
            ("text", Kind::Any),
        ];
        let mut bench = Bench::new(step, &kinds);
        let row = json!({"x": 5.0, "y": 6.0, "width": 2.0, "height": 2.0});
        let out = bench
            .feed(&[
                ("image", picture(1, [4, 2], |_, _| [9, 9, 9])),
                ("boxes", boxes([10, 10], &[row])),
                ("text", "yard".into()),
            ])
            .unwrap();
        assert_eq!(out["error_status"], false, "{out}");
        match bench.effects() {
            [Effect::Http(http)] => http.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn payload_is_sent_as_json_with_full_detections() {
        let http = sent(&json!({
            "json_payload": {"boxes": "$inputs.boxes", "many": "$inputs.boxes", "where": "$inputs.text"},
            "json_payload_operations": {"many": [{"type": "SequenceLength"}], "other": []},
            "query_parameters": {"n": 1, "list": "$inputs.text"}, "headers": {"X-Box": true}
        }));
        let HttpBody::Json { document } = &http.body else {
            panic!("{:?}", http.body);
        };
        assert_eq!(document["boxes"]["predictions"][0]["x"], 5.0);
        assert_eq!(
            (&document["many"], &document["where"]),
            (&json!(1), &json!("yard"))
        );
        assert_eq!(http.query[1], ("n".to_owned(), "1".to_owned()));
        assert!(http.headers.contains_key("X-Box"));
    }

    #[test]
    fn files_and_fields_make_a_form() {
        let http = sent(&json!({
            "multi_part_encoded_files": {"frame": "$inputs.image"},
            "multi_part_encoded_files_operations": {"frame": [{"type": "ConvertImageToJPEG"}]},
            "form_data": {"where": "$inputs.text"}
        }));
        let HttpBody::Form { fields, files } = &http.body else {
            panic!("{:?}", http.body);
        };
        assert_eq!(fields[0], ("where".to_owned(), "yard".to_owned()));
        assert!(files[0].name == "frame" && files[0].bytes.starts_with(&[0xff, 0xd8]));
    }

    #[test]
    fn non_http_url_is_refused() {
        let step = json!({"type": "roboflow_core/webhook_sink@v1", "url": "file:///etc/passwd", "method": "GET"});
        let why = Bench::new(step, &[]).feed(&[]).unwrap_err();
        assert!(why.contains("http://"), "{why}");
    }
}
