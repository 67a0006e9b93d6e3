//! Files with one pipeline, as `watchkeeper pipelines` reads them.

use std::path::Path;

use watchkeeper_config::bounded;
use watchkeeper_contract::pipeline::PipelineSpec;
use watchkeeper_http::MAX_DEFINITION_BODY;

use super::exit::Failure;
use super::user_file::unread;

pub(super) fn read_definition(file: &Path) -> Result<PipelineSpec, Failure> {
    let text = bounded::read_up_to(file, MAX_DEFINITION_BODY as u64).map_err(unread(file))?;
    read_pipeline(bounded::without_mark(&text)).map_err(|why| {
        let file = file.display();
        Failure::input(format!("{file} is not a pipeline definition: {why}"))
    })
}

/// Reads a pipeline; the error names the field.
fn read_pipeline(text: &[u8]) -> Result<PipelineSpec, String> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let spec = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let why = error.inner();
        match error.path().iter().next() {
            Some(_) => format!("{}: {why}", error.path()),
            None => why.to_string(),
        }
    })?;
    json.end().map_err(|error| error.to_string())?;
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_in_a_pipeline_names_its_field() {
        let text = br#"{"id": "p", "source": "s", "workflow": {}, "priority": "urgent"}"#;
        let why = read_pipeline(text).err().unwrap_or_default();
        assert!(why.starts_with("priority: unknown variant"), "{why}");
        assert!(read_pipeline(br#"{"id": "p"}"#).is_err_and(|why| why.contains("source")));
        assert!(read_pipeline(br#"{"id": "p", "source": "s", "workflow": {}} x"#).is_err());
    }
}
