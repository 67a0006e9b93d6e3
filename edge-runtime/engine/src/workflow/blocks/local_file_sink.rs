//! Writes text files.

use watchkeeper_contract::effect::{Effect, FileWrite};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::sink;
use crate::workflow::blocks::common::sink::{Log, Sent};

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/local_file_sink@v1",
    summary: "Writes text, such as a table or JSON, to files on this machine.",
    properties: &[
        sink::CONTENT,
        sink::FILE_TYPE,
        sink::OUTPUT_MODE,
        Property::value("target_directory", Shape::Text)
            .about("folder of the files, within the folder configured for workflows"),
        sink::FILE_NAME_PREFIX,
        sink::MAX_ENTRIES,
    ],
    outputs: sink::PLAIN_OUTPUTS,
    build: |_| Ok(stateful(run)),
    ..sink::BASE
}];

fn run(log: &mut Log, call: &mut Call<'_>) -> Result<(), String> {
    let sent = log.send(call, false, |call, entry| {
        let write = FileWrite {
            directory: call.text(arg!("target_directory"))?.to_owned(),
            prefix: call.text(arg!("file_name_prefix"))?.to_owned(),
            extension: entry.extension.to_owned(),
            content: entry.content,
            append: entry.append,
        };
        Ok(Sent::by(call, Effect::File(write)))
    })?;
    sent.put_plainly(call)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::bench::Bench;
    use super::Effect;
    use crate::workflow::language::kinds::Kind;

    #[test]
    fn log_fills_one_file_before_the_next() {
        let step = json!({
            "type": "roboflow_core/local_file_sink@v1", "content": "$inputs.text", "output_mode": "append_log",
            "target_directory": "logs", "max_entries_per_file": 2
        });
        let mut bench = Bench::new(step, &[("text", Kind::Text)]);
        for _ in 0..3 {
            let out = bench.feed(&[("text", "a\n1".into())]).unwrap();
            assert_eq!(out["error_status"], false);
        }
        let written: Vec<(bool, &str)> = bench
            .effects()
            .iter()
            .map(|effect| match effect {
                Effect::File(file) => (file.append, &*file.content),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            written,
            [(false, "a\n1\n"), (true, "1\n"), (false, "a\n1\n")]
        );
    }

    #[test]
    fn refused_content_leaves_the_log_as_it_was() {
        let step = json!({
            "type": "roboflow_core/local_file_sink@v1", "content": "$inputs.text", "output_mode": "append_log",
            "target_directory": "logs", "max_entries_per_file": 2
        });
        let mut bench = Bench::new(step, &[("text", Kind::Text)]);
        for accept in [false, true, false, true, false, true] {
            bench.accept_effects(accept);
            let out = bench.feed(&[("text", "a\n1".into())]).unwrap();
            assert_eq!(out["error_status"], !accept);
        }
        let written = bench.effects().iter().map(|effect| match effect {
            Effect::File(file) => (file.append, &*file.content),
            other => panic!("{other:?}"),
        });
        let wanted = [(false, "a\n1\n"), (true, "1\n"), (false, "a\n1\n")];
        assert!(written.eq(wanted));
    }

    #[test]
    fn step_reports_that_no_files_are_written() {
        let step = json!({
            "type": "roboflow_core/local_file_sink@v1", "content": "$inputs.text", "output_mode": "separate_files",
            "target_directory": "logs"
        });
        let mut bench = Bench::new(step, &[("text", Kind::Text)]).without_effects();
        let out = bench.feed(&[("text", "a".into())]).unwrap();
        assert_eq!(out["error_status"], true);
        assert!(out["message"].as_str().unwrap().contains("a file"), "{out}");
    }
}
