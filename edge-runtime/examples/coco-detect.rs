//! Detects on every image of a COCO-format file and writes COCO-format results for an evaluator,
//! such as pycocotools.
//!
//! `coco-detect INSTANCES.json IMAGES_DIR MODEL BACKEND THREADS RESULTS.json [TILES|whole
//! [plain]]`; see `tests/tools/coco-ap` and `tests/tools/people`. `plain` leaves dark pictures
//! unchanged. It runs the daemon's code. As in these networks' own COCO evaluation, scores down to
//! 0.001 are kept and boxes are suppressed per class at 0.65. Times per stage go to standard error.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use watchkeeper_contract::time::{TimeQuality, Wall};
use watchkeeper_detect::night_gain::NightGain;
use watchkeeper_detect::{
    DetectParams, DetectTimes, Detector, DetectorPool, OpenRequest, RawDetection, tiles,
};
use watchkeeper_vision::frame::{Frame, FrameId};
use watchkeeper_vision::tiles::Tiles;

/// Time of every picture; detection does not use it.
const NO_TIME: Wall = Wall {
    unix_ms: 0,
    quality: TimeQuality::Unsynced,
};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [
        instances,
        images,
        model,
        backend,
        threads,
        results,
        more @ ..,
    ] = args.as_slice()
    else {
        bail!(
            "usage: coco-detect INSTANCES.json IMAGES_DIR MODEL BACKEND THREADS RESULTS.json \
             [TILES|whole] [plain]"
        );
    };
    let tiles = match more.first().map(String::as_str) {
        None | Some("whole") => None,
        Some(tiles) => Some(tiles.parse::<Tiles>()?),
    };
    let has_gain = more.get(1).is_none_or(|plain| plain != "plain");
    let coco: Value = serde_json::from_reader(File::open(instances)?)?;
    let pool = DetectorPool::default();
    let mut detector = pool.open(&OpenRequest {
        model: model.clone(),
        backend: backend.parse()?,
        threads: Some(threads.parse()?),
        ..OpenRequest::default()
    })?;
    let categories = category_ids(&coco, detector.as_ref())?;
    let mut params = DetectParams {
        confidence: Some(0.001),
        iou_threshold: Some(0.65),
        class_agnostic_nms: Some(false),
        ..DetectParams::default()
    };

    let list = coco["images"].as_array().context("no `images`")?;
    let (mut found, mut all, mut sum) = (Vec::new(), Vec::new(), DetectTimes::default());
    let mut raised = 0;
    for (seq, image) in (1u64..).zip(list) {
        let frame = read_frame(seq, image, Path::new(images))?;
        params.gain = has_gain
            .then(|| NightGain::default().observe(&frame.picture))
            .flatten();
        raised += usize::from(params.gain.is_some());
        sum += tiles::detect(detector.as_mut(), &frame, &params, tiles, &mut found)?.times;
        let results = found.iter();
        all.extend(results.filter_map(|d| result(&image["id"], d, &categories)));
    }
    serde_json::to_writer(BufWriter::new(File::create(PathBuf::from(results))?), &all)?;
    print_times(detector.as_ref(), threads, [list.len(), raised], sum);
    Ok(())
}

fn read_frame(seq: u64, image: &Value, images: &Path) -> anyhow::Result<Frame> {
    let name = image["file_name"].as_str().context("no `file_name`")?;
    let path = images.join(name);
    let picture = image::open(&path).with_context(|| path.display().to_string())?;
    let id = FrameId {
        source: "coco".parse()?,
        seq,
    };
    let picture = picture.into_rgb8().into();
    Ok(Frame::still(id, Instant::now(), NO_TIME, picture))
}

#[expect(clippy::print_stderr, reason = "a command-line tool")]
fn print_times(
    detector: &dyn Detector,
    threads: &str,
    [images, raised]: [usize; 2],
    sum: DetectTimes,
) {
    let mean_ms = |d: Duration| d.as_secs_f64() * 1e3 / images.max(1) as f64;
    eprintln!(
        "{} on {}, {threads} threads: {images} images, {raised} raised, mean ms: preprocess {:.2}, \
         infer {:.2}, postprocess {:.2}",
        detector.info().model,
        detector.info().backend,
        mean_ms(sum.preprocess),
        mean_ms(sum.infer),
        mean_ms(sum.postprocess),
    );
}

/// Returns COCO's category id for each class id, by name, if the file has the class.
fn category_ids(coco: &Value, detector: &dyn Detector) -> anyhow::Result<Vec<Option<i64>>> {
    let by_name: BTreeMap<&str, i64> = coco["categories"]
        .as_array()
        .context("no `categories`")?
        .iter()
        .filter_map(|c| Some((c["name"].as_str()?, c["id"].as_i64()?)))
        .collect();
    let labels = detector.info().labels.iter();
    Ok(labels.map(|l| by_name.get(&**l).copied()).collect())
}

fn result(image: &Value, d: &RawDetection, categories: &[Option<i64>]) -> Option<Value> {
    let category = (*categories.get(d.class_id)?)?;
    let b = &d.bbox;
    Some(json!({
        "image_id": image,
        "category_id": category,
        "bbox": [b.x1, b.y1, b.width(), b.height()],
        "score": d.score,
    }))
}
