//! Parses boxes from the answer of a vision-language model.

use md5::{Digest, Md5};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::llm_json;
use crate::workflow::blocks::common::sink::texts;

const CLASSES: Property = Property::value("classes", Shape::Texts(0))
    .about("the possible classes, in the order of their ids; florence-2 needs none")
    .nullable();
const TASK_TYPE: Property = Property::literal(
    "task_type",
    Shape::Choice(&[
        "object-detection",
        "ocr-with-text-detection",
        "region-proposal",
        "open-vocabulary-object-detection",
        "phrase-grounded-object-detection",
        "object-detection-and-caption",
    ]),
)
.about("the task given to the model");
const V1: Manifest = Manifest {
    name: "roboflow_core/vlm_as_detector@v1",
    summary: "Parses boxes from the JSON answer of a vision-language model, in the notation of \
              that model.",
    properties: &[
        llm_json::IMAGE,
        llm_json::VLM_OUTPUT,
        CLASSES,
        Property::literal(
            "model_type",
            Shape::Choice(&["google-gemini", "anthropic-claude", "florence-2"]),
        )
        .about("the model, which defines the notation of boxes"),
        TASK_TYPE,
    ],
    outputs: &[
        Output::new("error_status", &[Kind::Boolean]),
        Output::new("predictions", &[Kind::ObjectDetection]),
        Output::new("inference_id", &[Kind::Text]),
    ],
    build: |setup| build(setup, true),
    ..Manifest::of("formatter")
};
pub(super) const BLOCKS: &[Manifest] = &[
    V1,
    Manifest {
        name: "roboflow_core/vlm_as_detector@v2",
        properties: &[
            llm_json::IMAGE,
            llm_json::VLM_OUTPUT,
            CLASSES,
            Property::literal(
                "model_type",
                Shape::Choice(&[
                    "openai",
                    "google-gemini",
                    "anthropic-claude",
                    "spacexai",
                    "qwen",
                    "muse",
                    "zai",
                    "zai-flash",
                    "florence-2",
                ]),
            )
            .about("the model, which defines the notation of boxes"),
            TASK_TYPE,
        ],
        outputs: &[
            Output::new("error_status", &[Kind::Boolean]),
            Output::new("predictions", &[Kind::ObjectDetection]),
            Output::new("inference_id", &[Kind::InferenceId]),
        ],
        build: |setup| build(setup, false),
        ..V1
    },
];

fn build(setup: &Setup<'_>, first: bool) -> Result<Box<dyn Instance>, String> {
    let text = |name: &str| {
        setup
            .literals
            .get(name)
            .and_then(Json::as_str)
            .unwrap_or_default()
    };
    let (model, task) = (text("model_type"), text("task_type"));
    if model != "florence-2" {
        if task != "object-detection" {
            return Err(format!(
                "task_type is {task}, but for {model} only object-detection is supported"
            ));
        }
        if setup.literals.get("classes").is_none_or(Json::is_null) {
            return Err(format!("classes has to be a list for model_type {model}"));
        }
    }
    Ok(Box::new(Read {
        notation: Notation::for_model(model, first),
        task: task.to_owned(),
    }))
}

/// Notation of boxes of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// Sides in shares of the picture, or `box_2d` as y, x, y, x in thousandths.
    Gemini,
    /// `box_2d` in pixels of the uploaded picture, otherwise sides in shares.
    Pixels(Upload),
    /// `box_2d` in hundredths.
    Percent,
    /// `box_2d` or `bbox_2d` in thousandths; entries without one are skipped.
    Qwen,
    /// Sides in thousandths; incomplete entries are skipped.
    Muse,
    /// Florence's own: separate lists of boxes and labels, in pixels.
    Florence,
}

/// How a picture is scaled down for the upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upload {
    /// To at most 2048 pixels a side.
    OpenAi,
    /// To at most 2576 pixels a side and 4784 tiles of 28 pixels.
    Claude,
}

impl Notation {
    fn for_model(model: &str, first_version: bool) -> Self {
        match model {
            "openai" => Self::Pixels(Upload::OpenAi),
            "anthropic-claude" if !first_version => Self::Pixels(Upload::Claude),
            "spacexai" => Self::Percent,
            "qwen" | "zai" | "zai-flash" => Self::Qwen,
            "muse" => Self::Muse,
            "florence-2" => Self::Florence,
            _ => Self::Gemini,
        }
    }
}

struct Read {
    notation: Notation,
    task: String,
}

/// A parsed box: corners in pixels, class, id of the class, score.
struct ParsedBox {
    corners: [f64; 4],
    class: String,
    class_id: i64,
    confidence: f64,
}

impl Block for Read {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(arg!("image"))?;
        let classes = texts(call, arg!("classes"))?;
        let text = call.text(arg!("vlm_output"))?;
        let id = detection_id(&call.new_id());
        let mut said = llm_json::payload(text);
        if said.is_none() && self.notation == Notation::Muse {
            let entries = llm_json::entries_with(text, &SIDES);
            said = (!entries.is_empty()).then_some(Json::Array(entries));
        }
        let found = said.and_then(|said| self.read(&said, image.size(), &classes));
        call.put(0, found.is_none());
        if let Some(found) = found {
            let mut all = Detections::none(image.size());
            for f in found {
                let [x1, y1, x2, y2] = f.corners;
                all.boxes.push(Detection::new(
                    BBox::new(x1, y1, x2, y2),
                    f.confidence,
                    f.class_id,
                    f.class,
                    call.new_id(),
                ));
            }
            image.stamp(&mut all);
            call.put(1, all);
        }
        call.put(2, id);
        Ok(())
    }
}

const SIDES: [&str; 4] = ["x_min", "y_min", "x_max", "y_max"];
/// Members with a list of corners, as Qwen writes them.
const BOXES: [&str; 2] = ["box_2d", "bbox_2d"];

impl Read {
    /// Parses the boxes; `None` if anything does not fit the notation.
    fn read(&self, said: &Json, size: [u32; 2], classes: &[String]) -> Option<Vec<ParsedBox>> {
        if self.notation == Notation::Florence {
            return florence(said, &self.task, classes);
        }
        let entries: Vec<&Json> = match (said, said.get("detections")) {
            (Json::Array(items), _) | (_, Some(Json::Array(items))) => items.iter().collect(),
            // A single box.
            (Json::Object(box_of), None) => match self.notation {
                Notation::Qwen if BOXES.iter().any(|key| box_of.contains_key(*key)) => vec![said],
                Notation::Muse if SIDES.iter().all(|key| box_of.contains_key(*key)) => vec![said],
                _ => return None,
            },
            _ => return None,
        };
        let wrapped = said.is_object();
        let mut found = Vec::new();
        for entry in entries {
            let corners = match self.corners(entry, size, wrapped) {
                Corners::At(corners) => corners,
                Corners::PassedOver => continue,
                Corners::Wrong => return None,
            };
            let class = self.class(entry);
            let place = classes.iter().rposition(|c| *c == class);
            let confidence = match self.notation {
                Notation::Qwen | Notation::Muse => 1.0,
                _ => entry
                    .get("confidence")
                    .map_or(Some(1.0), llm_json::confidence)?,
            };
            found.push(ParsedBox {
                corners: corners.map(f64::round_ties_even),
                class,
                class_id: place.and_then(|i| i64::try_from(i).ok()).unwrap_or(-1),
                confidence,
            });
        }
        Some(found)
    }

    fn class(&self, entry: &Json) -> String {
        let keys: &[&str] = match self.notation {
            Notation::Qwen => &["label", "description", "class_name", "class"],
            Notation::Muse => &["label"],
            _ => &["class_name", "label", "class"],
        };
        let label = keys
            .iter()
            .find_map(|key| entry.get(key).filter(|v| !v.is_null()));
        label.map_or_else(
            || "unknown".to_owned(),
            |v| Value::from(v.clone()).python_str(),
        )
    }

    fn corners(&self, entry: &Json, size: [u32; 2], wrapped: bool) -> Corners {
        let [width, height] = size.map(f64::from);
        let sides = || numbers(SIDES.map(|side| entry.get(side)));
        let list = |key: &str| {
            let list = entry.get(key)?.as_array()?;
            let at = |i: usize| list.get(i).filter(|_| list.len() == 4);
            numbers([at(0), at(1), at(2), at(3)])
        };
        // Corners from parts of the whole to pixels, limited to the picture.
        let scaled = |[x1, y1, x2, y2]: [f64; 4], [w, h]: [f64; 2]| {
            let part = |n: f64, of: f64, pixels: f64| n.clamp(0.0, of) * (pixels / of);
            Corners::At([
                part(x1, w, width),
                part(y1, h, height),
                part(x2, w, width),
                part(y2, h, height),
            ])
        };
        match self.notation {
            Notation::Gemini => match (entry.get("box_2d"), list("box_2d"), sides()) {
                (Some(_), Some([y1, x1, y2, x2]), _) => Corners::At([
                    x1 / 1000.0 * width,
                    y1 / 1000.0 * height,
                    x2 / 1000.0 * width,
                    y2 / 1000.0 * height,
                ]),
                (None, _, Some([x1, y1, x2, y2])) => {
                    Corners::At([x1 * width, y1 * height, x2 * width, y2 * height])
                }
                _ => Corners::Wrong,
            },
            Notation::Pixels(upload) => match (list("box_2d"), sides()) {
                (Some(corners), _) => scaled(corners, upload.size(size).map(f64::from)),
                (None, Some([x1, y1, x2, y2])) if wrapped => {
                    Corners::At([x1 * width, y1 * height, x2 * width, y2 * height])
                }
                _ => Corners::Wrong,
            },
            Notation::Percent => list("box_2d").map_or(Corners::Wrong, |c| scaled(c, [100.0; 2])),
            Notation::Qwen => {
                let found = BOXES.iter().find_map(|key| list(key));
                found.map_or(Corners::PassedOver, |c| scaled(c, [1000.0; 2]))
            }
            Notation::Muse => sides().map_or(Corners::PassedOver, |c| scaled(c, [1000.0; 2])),
            Notation::Florence => Corners::Wrong,
        }
    }
}

enum Corners {
    At([f64; 4]),
    PassedOver,
    Wrong,
}

fn numbers(values: [Option<&Json>; 4]) -> Option<[f64; 4]> {
    let mut out = [0.0; 4];
    for (out, value) in out.iter_mut().zip(values) {
        *out = value?.as_f64()?;
    }
    Some(out)
}

impl Upload {
    /// Size of the uploaded picture; it is never enlarged.
    fn size(self, size: [u32; 2]) -> [u32; 2] {
        let [width, height] = size;
        if width < height {
            let [height, width] = self.size([height, width]);
            return [width, height];
        }
        let ratio = f64::from(width) / f64::from(height.max(1));
        let follow = |width: u32| ((f64::from(width) / ratio).round_ties_even() as u32).max(1);
        let fits = |[width, height]: [u32; 2]| match self {
            Self::OpenAi => width <= 2048,
            Self::Claude => {
                let tiles = [width, height].map(|n| n.div_ceil(28));
                tiles[0] * 28 <= 2576 && tiles[0] * tiles[1] <= 4784
            }
        };
        if fits(size) {
            return size;
        }
        let (mut low, mut high) = (1, width);
        while low + 1 < high {
            let middle = low.midpoint(high);
            if fits([middle, follow(middle)]) {
                low = middle;
            } else {
                high = middle;
            }
        }
        [low, follow(low)]
    }
}

/// Parses Florence's answer: boxes in pixels and their labels.
fn florence(said: &Json, task: &str, classes: &[String]) -> Option<Vec<ParsedBox>> {
    let (boxes, labels) = match task {
        "ocr-with-text-detection" => ("quad_boxes", "labels"),
        "open-vocabulary-object-detection" => ("bboxes", "bboxes_labels"),
        _ => ("bboxes", "labels"),
    };
    let boxes = said.get(boxes)?.as_array()?;
    let labels = said.get(labels).and_then(Json::as_array);
    let mut found = Vec::new();
    for (i, corners) in boxes.iter().enumerate() {
        let numbers: Vec<f64> = corners
            .as_array()?
            .iter()
            .filter_map(Json::as_f64)
            .collect();
        let corners = match *numbers.as_slice() {
            [x1, y1, x2, y2] => [x1, y1, x2, y2],
            [x1, y1, x2, y2, x3, y3, x4, y4] => {
                let least = |a: [f64; 4]| a.into_iter().fold(f64::INFINITY, f64::min);
                let most = |a: [f64; 4]| a.into_iter().fold(f64::NEG_INFINITY, f64::max);
                let (x, y) = ([x1, x2, x3, x4], [y1, y2, y3, y4]);
                [least(x), least(y), most(x), most(y)]
            }
            _ => return None,
        };
        let label = labels.and_then(|l| l.get(i)).and_then(Json::as_str);
        let class = match (task, label) {
            ("region-proposal", _) => "roi",
            (_, Some(label)) => label,
            (_, None) => return None,
        };
        let place = classes.iter().rposition(|c| c == class);
        let class_id = match task {
            "object-detection" | "phrase-grounded-object-detection" => md5_number(class),
            "open-vocabulary-object-detection" => {
                place.and_then(|i| i64::try_from(i).ok()).unwrap_or(-1)
            }
            _ => 0,
        };
        found.push(ParsedBox {
            corners,
            class: class.to_owned(),
            class_id,
            confidence: 1.0,
        });
    }
    Some(found)
}

/// A stable number of four digits for a name, from the first nine digits of its MD5 sum.
fn md5_number(name: &str) -> i64 {
    let digest = Md5::digest(name.as_bytes());
    let head = digest
        .iter()
        .take(5)
        .fold(0_i64, |n, byte| n << 8 | i64::from(*byte));
    (head >> 4) % 10_000
}

#[cfg(test)]
#[path = "vlm_as_detector/tests.rs"]
mod tests;
