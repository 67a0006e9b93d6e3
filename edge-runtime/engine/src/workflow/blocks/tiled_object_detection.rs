//! Detects objects in pictures and in overlapping tiles of them.
//!
//! - The host cuts the tiles and merges what is found: one object is one box.

use watchkeeper_vision::tiles::{InvalidTiles, Tiles};

use super::object_detection_model::{AGNOSTIC, CONFIDENCE, Model, NO_MODE, outputs_v2, properties};
use crate::workflow::block_api::prelude::*;

const TILES: Property = Property::literal(
    "tiles",
    Shape::Grammar(Grammar {
        what: "auto, or columns and rows such as 2x2",
        json: "string",
        check: |json| tiles(Some(json)).map(drop),
    }),
)
.about("tiles besides the whole picture: auto, or columns and rows such as 2x2")
.or(Or::Text("auto"));

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "watchkeeper/tiled_object_detection@v1",
    summary: "Detects objects in pictures and in overlapping tiles of them, so that small ones are \
              found.",
    role: Role::Detector(Task::Boxes),
    properties: &properties::<12>(CONFIDENCE, AGNOSTIC.nullable(), &[NO_MODE, TILES]),
    outputs: &outputs_v2(Output::new("predictions", &[Kind::ObjectDetection])),
    build: |setup| {
        let tiles = tiles(setup.literals.get(TILES.name))?;
        Ok(Box::new(Model::for_task(Task::Boxes).with_tiles(tiles)))
    },
    batch: &["images"],
    keeps_classes: true,
    many_pictures: true,
    ..Manifest::of("model")
}];

fn tiles(written: Option<&Json>) -> Result<Tiles, String> {
    match written {
        None | Some(Json::Null) => Ok(Tiles::default()),
        Some(Json::String(text)) => text.parse().map_err(|e: InvalidTiles| e.to_string()),
        Some(other) => Err(format!("tiles are a text, not {other}")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use serde_json::{Value as Json, json};
    use watchkeeper_vision::detections::Detections;
    use watchkeeper_vision::tiles::Tiles;

    use super::super::super::tests::bench::Bench;
    use super::super::super::tests::frame;
    use super::super::super::{DetectRequest, Host, compile};

    fn step(tiles: &Json) -> Json {
        json!({"type": "watchkeeper/tiled_object_detection@v1", "name": "detect",
               "images": "$inputs.image", "model_id": "m", "tiles": tiles})
    }

    /// Keeps the tiles of the last request.
    struct Asked(Option<Tiles>);

    impl Host for Asked {
        fn detect(&mut self, request: &DetectRequest<'_>) -> Result<Detections, String> {
            self.0 = request.tiles;
            Ok(Detections::none(request.image.size()))
        }
    }

    #[test]
    fn host_is_asked_for_the_tiles_of_the_step() {
        for (written, expected) in [(json!("auto"), "auto"), (json!("3x2"), "3x2")] {
            let definition = json!({
                "version": "1.0",
                "inputs": [{"type": "WorkflowImage", "name": "image"}],
                "steps": [step(&written)],
                "outputs": [{"type": "JsonField", "name": "found", "selector": "$steps.detect.predictions"}],
            });
            let mut run = compile(&definition, &BTreeMap::new())
                .unwrap()
                .instantiate();
            let mut host = Asked(None);
            let report = run.run(frame(1, [640, 480]), &[], Duration::ZERO, &mut host);
            assert_eq!(report.errors, []);
            assert_eq!(host.0, Some(expected.parse().unwrap()));
        }
    }

    #[test]
    fn tiles_that_are_no_grid_are_refused_before_the_run() {
        for wrong in [json!("2"), json!("9x9"), json!(2)] {
            let refusal = Bench::refusal(step(&wrong));
            assert!(refusal.contains("2x2"), "{refusal}");
        }
    }
}
