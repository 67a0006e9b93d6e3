//! Writes text to an S3-compatible store.

use watchkeeper_contract::effect::{Effect, S3Write};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink;
use crate::workflow::blocks::common::sink::{Log, Sent, sealed};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/s3_sink@v1",
    summary: "Writes text, such as a table or JSON, to objects of an S3-compatible store.",
    properties: &[
        sink::CONTENT,
        sink::FILE_TYPE,
        sink::OUTPUT_MODE,
        Property::value("bucket_name", Shape::Text).about("name of the bucket"),
        Property::text("s3_prefix", "").about("prefix of object keys"),
        sink::FILE_NAME_PREFIX,
        sink::MAX_ENTRIES,
        Property::optional("aws_access_key_id", Shape::Text)
            .about("id of the access key")
            .kinds(&[Kind::Secret, Kind::Text]),
        Property::optional("aws_secret_access_key", Shape::Text)
            .about("the access key")
            .kinds(&[Kind::Secret, Kind::Text]),
        Property::optional("aws_region", Shape::Text).about("region of the bucket"),
    ],
    outputs: sink::PLAIN_OUTPUTS,
    build: |_| Ok(stateful(run)),
    ..sink::BASE
}];

/// Maximum bytes of a growing object; it is sent whole with each content, so a new one is started
/// then.
const MAX_BYTES: usize = 4 << 20;

#[derive(Default, Serialize, Deserialize)]
struct OpenObject {
    log: Log,
    whole: String,
}

fn run(object: &mut OpenObject, call: &mut Call<'_>) -> Result<(), String> {
    let sent = object.send(call)?;
    sent.put_plainly(call)
}

impl OpenObject {
    fn send(&mut self, call: &mut Call<'_>) -> Result<Sent, String> {
        let (id, secret) = (arg!("aws_access_key_id"), arg!("aws_secret_access_key"));
        if [id, secret].iter().any(|key| call.arg(*key).is_null()) {
            return Err("aws_access_key_id and aws_secret_access_key are required".to_owned());
        }
        let whole = &mut self.whole;
        self.log.send(call, whole.len() > MAX_BYTES, |call, entry| {
            let folder = call.text(arg!("s3_prefix"))?.trim_end_matches('/');
            let name = call.text(arg!("file_name_prefix"))?;
            let name = name.trim_end_matches('/');
            let content = match entry.append {
                true => format!("{whole}{}", entry.content),
                false => entry.content,
            };
            let write = S3Write {
                bucket: call.text(arg!("bucket_name"))?.to_owned(),
                prefix: if folder.is_empty() {
                    name.to_owned()
                } else {
                    format!("{folder}/{name}")
                },
                extension: entry.extension.to_owned(),
                content: content.clone(),
                replace: entry.append,
                region: call.arg(arg!("aws_region")).as_str().map(str::to_owned),
                access_key_id: Some(sealed(call, id)?),
                secret_access_key: Some(sealed(call, secret)?),
            };
            let sent = Sent::by(call, Effect::S3(write));
            if sent == Sent::Queued {
                *whole = content;
            }
            Ok(sent)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::Bench;
    use super::{Effect, Kind};

    #[test]
    fn growing_object_is_sent_whole() {
        let step = json!({
            "type": "roboflow_core/s3_sink@v1", "content": "$inputs.text", "output_mode": "append_log",
            "bucket_name": "b", "s3_prefix": "logs/", "aws_access_key_id": "id", "aws_secret_access_key": "key"
        });
        let mut bench = Bench::new(step, &[("text", Kind::Text)]);
        for _ in 0..2 {
            bench.feed(&[("text", "a\n1".into())]).unwrap();
        }
        let [_, Effect::S3(second)] = bench.effects() else {
            panic!("two objects expected");
        };
        assert_eq!((&*second.content, second.replace), ("a\n1\n1\n", true));
        assert_eq!(second.prefix, "logs/workflow_output");
    }

    #[test]
    fn object_after_a_refused_one_replaces_nothing() {
        let step = json!({
            "type": "roboflow_core/s3_sink@v1", "content": "$inputs.text", "output_mode": "append_log",
            "bucket_name": "b", "aws_access_key_id": "id", "aws_secret_access_key": "key"
        });
        let mut bench = Bench::new(step, &[("text", Kind::Text)]);
        for (accept, text) in [
            (false, "a\n1"),
            (true, "a\n2"),
            (false, "a\n3"),
            (true, "a\n4"),
        ] {
            bench.accept_effects(accept);
            bench.feed(&[("text", text.into())]).unwrap();
        }
        let sent = bench.effects().iter().map(|effect| match effect {
            Effect::S3(object) => (&*object.content, object.replace),
            other => panic!("{other:?}"),
        });
        assert!(sent.eq([("a\n2\n", false), ("a\n2\n4\n", true)]));
    }
}
