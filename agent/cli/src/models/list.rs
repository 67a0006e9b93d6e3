//! `watchkeeper models list`.

use serde_json::json;
use watchkeeper_contract::model::{ModelInfo, ModelState};
use watchkeeper_models::Zoo;

use crate::output::Output;

pub(super) fn list(zoo: &Zoo, out: &Output) {
    let models = zoo.list();
    let source = |model: &ModelInfo| zoo.manifest(&model.name).and_then(|m| m.url());
    for model in &models {
        let mut value = json!(model);
        if let Some(url) = source(model) {
            value["source"] = json!(url);
        }
        out.object(&value);
    }
    let rows = models.iter().map(|model| {
        let state = match &model.state {
            ModelState::Builtin => "built in".to_owned(),
            ModelState::Present { path } => path.clone(),
            ModelState::Absent => "not installed".to_owned(),
        };
        let input = model
            .input
            .map_or_else(|| "any".to_owned(), |[w, h]| format!("{w}x{h}"));
        vec![
            model.name.clone(),
            input,
            match model.labels.len() {
                0 => "–".to_owned(),
                classes => classes.to_string(),
            },
            model.licence.clone().unwrap_or_else(|| "–".to_owned()),
            source(model).map_or_else(|| "–".to_owned(), |url| host(&url)),
            state,
        ]
    });
    out.table(
        &[
            "model",
            "input",
            "classes",
            "weights licence",
            "source",
            "file",
        ],
        rows,
    );
}

/// Returns the host of an address, without port and path.
fn host(address: &str) -> String {
    let url = reqwest::Url::parse(address).ok();
    let host = url.and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| address.to_owned())
}
