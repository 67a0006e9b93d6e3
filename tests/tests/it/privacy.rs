//! Privacy masks by the real daemons: a camera shows a marked colour in its masked region, and
//! nothing that leaves the box may show it.
//!
//! - Each way out is checked twice: with the mask it hides the mark, without it shows it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::{Rgb, RgbImage};
use serde_json::{Value, json};
use watchkeeper_runtime::capture::mailbox::Recv;
use watchkeeper_tests::daemons::{Bench, Process, run_json, wait_up_to};
use watchkeeper_tests::hooks::Hooks;
use watchkeeper_tests::person::{ask_json, command};
use watchkeeper_tests::scene::{LONG, never_sure};
use watchkeeper_tests::scripted_model::{ScriptedModel, answers, calls, says};
use watchkeeper_tests::site::not_reworded;
use watchkeeper_tests::watch::Watched;
use watchkeeper_vision::jpeg;

const SIZE: [u32; 2] = [322, 182];

/// Right and lower end of the marked corner, in pixels: odd, so that it ends within a cell.
const MARKED: [u32; 2] = [129, 91];

/// The section of a mask that ends where the mark does.
fn mask(fill: &str) -> String {
    let [x, y] = [0, 1].map(|n| f64::from(MARKED[n]) / f64::from(SIZE[n]));
    format!("regions = [[[0, 0], [{x}, 0], [{x}, {y}], [0, {y}]]]\nfill = {fill:?}\n")
}

/// Twelve seconds of a white square that crosses the lower part of a grey yard, beside a corner
/// with a pattern of the marked colour.
fn record(folder: &Path) -> anyhow::Result<String> {
    let frames = folder.join("frames");
    fs::create_dir(&frames)?;
    for n in 0..120_u32 {
        let picture = RgbImage::from_fn(SIZE[0], SIZE[1], |x, y| {
            let in_square = (n * 2..n * 2 + 40).contains(&x) && (120..160).contains(&y);
            if x < MARKED[0] && y < MARKED[1] {
                let is_dark = (x / 8 + y / 8 + n / 4) % 2 == 0;
                Rgb(if is_dark {
                    [180, 0, 180]
                } else {
                    [255, 0, 255]
                })
            } else if in_square && n > 20 {
                Rgb([250; 3])
            } else {
                Rgb([60 + (x * 7 + y * 13 + n) as u8 % 8; 3])
            }
        });
        picture.save(frames.join(format!("{n:03}.png")))?;
    }
    Ok(frames.display().to_string())
}

/// Whether a picture shows the marked colour.
fn shows_mark(picture: &RgbImage) -> bool {
    picture.pixels().any(|Rgb([red, green, blue])| {
        let least = (*red).min(*blue);
        least > 90 && least > green.saturating_add(40)
    })
}

/// The pictures of a JPEG, PNG, video or of the detection history.
fn pictures(file: &Path) -> anyhow::Result<Vec<RgbImage>> {
    let bytes = fs::read(file)?;
    if file.extension().is_some_and(|end| end == "pictures") {
        return Ok(pictures_within(&bytes));
    }
    if let Ok(picture) = image::load_from_memory(&bytes) {
        return Ok(vec![picture.to_rgb8()]);
    }
    let is_video = bytes.get(4..8) == Some(b"ftyp") || bytes.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]);
    if !is_video {
        return Ok(Vec::new());
    }
    let video = Watched::start(&file.display().to_string())?;
    let mut frames = Vec::new();
    loop {
        match video.frames.recv(video.timeout) {
            Recv::Frame(frame) => frames.push(jpeg::to_rgb(&frame.picture)?),
            Recv::Ended => return Ok(frames),
            other => anyhow::bail!("{}: {other:?}", file.display()),
        }
    }
}

/// The JPEGs within a message, one after the other.
fn pictures_within(message: &[u8]) -> Vec<RgbImage> {
    let starts = message.windows(3).enumerate();
    let starts = starts.filter(|(_, bytes)| *bytes == [0xff, 0xd8, 0xff]);
    let decoded = starts.map(|(at, _)| image::load_from_memory(&message[at..]));
    decoded.flatten().map(|picture| picture.to_rgb8()).collect()
}

/// The pictures in a JSON value, in base64.
fn pictures_in_json(value: &Value) -> Vec<RgbImage> {
    match value {
        Value::String(text) => {
            let data = text.rsplit(',').next().unwrap_or_default();
            let bytes = STANDARD.decode(data).unwrap_or_default();
            let picture = image::load_from_memory(&bytes).ok();
            picture
                .map(|picture| picture.to_rgb8())
                .into_iter()
                .collect()
        }
        Value::Array(values) => values.iter().flat_map(pictures_in_json).collect(),
        Value::Object(members) => members.values().flat_map(pictures_in_json).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// Checks that a way out has pictures, and that they show the mark only if there is no mask.
fn check(way: &str, pictures: &[RgbImage], is_masked: bool) -> anyhow::Result<()> {
    ensure!(!pictures.is_empty(), "{way}: no picture");
    let shown = pictures
        .iter()
        .filter(|picture| shows_mark(picture))
        .count();
    if is_masked {
        ensure!(
            shown == 0,
            "{way}: {shown} of {} show the mark",
            pictures.len()
        );
    } else {
        ensure!(
            shown > 0,
            "{way}: the mark is not there without a mask either"
        );
    }
    Ok(())
}

/// Detects, draws and reports the first motion of the camera `yard`.
fn pipeline(id: &str) -> Value {
    let image = "$inputs.image";
    let rule = json!({
        "name": "moves", "clip": {"before_s": 1, "after_s": 2}, "gates": never_sure(),
        "when": {"kind": "count", "detections": "$steps.find.predictions", "bound": {"over": 0}},
        "cooldown_s": 3600, "second_opinion_may_lower": true, "severity": "warning",
    });
    json!({
        "id": id, "source": "yard", "record": true, "rules": [rule],
        "workflow": {
            "version": "1.0",
            "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "find", "images": image, "model_id": "motion"},
                {"type": "roboflow_core/bounding_box_visualization@v1", "name": "draw", "image": image, "predictions": "$steps.find.predictions"},
            ],
            "outputs": [{"type": "JsonField", "name": "drawn", "selector": "$steps.draw.image"}],
        },
    })
}

/// A box with the camera `yard`, whose pipeline draws, records, and makes one doubtful event with
/// a clip.
struct Yard {
    bench: Bench,
    runtime: Process,
}

impl Yard {
    fn new(privacy: &str, more: &str) -> anyhow::Result<Self> {
        let bench = Bench::new("")?;
        let frames = record(&bench.path(""))?;
        let section = format!("[sources.yard]\nuri = {frames:?}\npace = \"native\"\n");
        let privacy = match privacy {
            "" => String::new(),
            keys => format!("[sources.yard.privacy]\n{keys}"),
        };
        bench.configure(&format!("{section}{privacy}{more}"))?;
        let runtime = bench.runtime()?;
        Ok(Self { bench, runtime })
    }

    /// Detects, draws and records with a rule that reports the first motion.
    fn watch(&self) -> anyhow::Result<()> {
        let mut spec = pipeline("watch");
        spec["record"] = true.into();
        self.bench.json("POST", "/v1/pipelines", Some(&spec))?;
        Ok(())
    }

    /// The pictures that a backtest shows its events on.
    fn strip(&self) -> anyhow::Result<Vec<RgbImage>> {
        let mut spec = pipeline("draft");
        // The history keeps no pixels to draw on.
        spec["workflow"]["steps"] = json!([pipeline("draft")["workflow"]["steps"][0]]);
        spec["workflow"]["outputs"] = json!([]);
        let wanted = json!({"hours": 1, "pictures": true, "pipeline": spec});
        wait_up_to(LONG, "a backtest with pictures", || {
            let report = self
                .bench
                .json("POST", "/v1/workflows/backtest", Some(&wanted));
            let pictures = pictures_in_json(&report.ok()?["strip"]);
            (!pictures.is_empty()).then_some(pictures)
        })
    }
    fn fetch(&self, method: &str, path: &str) -> anyhow::Result<Vec<u8>> {
        let (status, bytes) = self.bench.request(method, path, None)?;
        ensure!(
            (200..300).contains(&status),
            "{path}: {}",
            String::from_utf8_lossy(&bytes)
        );
        Ok(bytes)
    }

    /// Waits for an answer, and returns its pictures.
    fn fetch_soon(&self, path: &str) -> anyhow::Result<Vec<RgbImage>> {
        let bytes = wait_up_to(LONG, path, || self.fetch("GET", path).ok())?;
        let file = self.bench.path("fetched");
        fs::write(&file, bytes)?;
        pictures(&file)
    }

    /// Waits for the records of the event: with its pictures, and with its clip.
    fn event(&self) -> anyhow::Result<Value> {
        wait_up_to(LONG, "an event and its clip", || {
            let events = self.bench.events().ok()?;
            events
                .iter()
                .find(|e| !e["clip"]["state"]["kept"].is_null())?;
            events
                .into_iter()
                .find(|e| e["phase"] == "new" && e["body"]["kind"] == "rule")
        })
    }

    /// The clean and the annotated picture of an event.
    fn pictures_of(&self, event: &Value) -> anyhow::Result<Vec<Vec<RgbImage>>> {
        let media = event["media"].as_array().cloned().unwrap_or_default();
        ensure!(
            media.len() == 2,
            "a clean and an annotated picture: {event:#}"
        );
        let ids = media.iter().filter_map(|media| media["id"].as_str());
        ids.map(|id| self.fetch_soon(&format!("/v1/media/{id}")))
            .collect()
    }
}

/// Fetches pictures on every way out of the runtime, and looks into every file that it keeps.
fn check_runtime(privacy: &str) -> anyhow::Result<()> {
    let is_masked = !privacy.is_empty();
    let receiver = Hooks::start()?;
    let url = receiver.url("/hook");
    let channel = format!("[channels.people]\nurl = {url:?}\nmin_severity = \"info\"\n");
    let yard = Yard::new(privacy, &channel)?;
    let _agent = yard.bench.agent()?;

    let frame = yard.fetch_soon("/v1/sources/yard/frame.jpg")?;
    check("frame of the source", &frame, is_masked)?;
    let kept: Value = serde_json::from_slice(&yard.fetch("POST", "/v1/sources/yard/snapshot")?)?;
    let id = kept["id"].as_str().context("an id")?;
    let snapshot = yard.fetch_soon(&format!("/v1/media/{id}"))?;
    check("snapshot", &snapshot, is_masked)?;

    yard.watch()?;
    let frame = yard.fetch_soon("/v1/pipelines/watch/frame.jpg")?;
    check("frame of the pipeline", &frame, is_masked)?;
    let event = yard.event()?;
    for picture in yard.pictures_of(&event)? {
        check("picture of an event", &picture, is_masked)?;
    }
    let clip = event["clip"]["id"].as_str().context("a clip")?;
    let clip = yard.fetch_soon(&format!("/v1/media/{clip}"))?;
    ensure!(clip.len() > 10, "{} frames", clip.len());
    check("clip", &clip, is_masked)?;
    check("pictures of a backtest", &yard.strip()?, is_masked)?;
    let told = wait_up_to(LONG, "a notification with a picture", || {
        let requests = receiver.requests();
        let pictures: Vec<RgbImage> = requests
            .iter()
            .flat_map(|request| pictures_within(&request.body))
            .collect();
        (!pictures.is_empty()).then_some(pictures)
    })?;
    check("notification", &told, is_masked)?;
    let video = yard.fetch_soon("/v1/pipelines/watch/recording")?;
    ensure!(video.len() > 10, "{} frames", video.len());
    check("recording", &video, is_masked)?;

    yard.runtime.stop()?;
    let mut pictures_kept = 0;
    let mut has_history = false;
    for file in files(&yard.bench.path("state")) {
        let pictures = pictures(&file)?;
        pictures_kept += usize::from(!pictures.is_empty());
        has_history |= !pictures.is_empty() && file.extension().is_some_and(|e| e == "pictures");
        if is_masked && !pictures.is_empty() {
            check(&file.display().to_string(), &pictures, true)?;
        }
    }
    ensure!(
        pictures_kept >= 5,
        "only {pictures_kept} files hold pictures"
    );
    ensure!(has_history, "the detection history holds no picture");
    Ok(())
}

#[test]
fn masked_region_leaves_the_runtime_on_no_way() -> anyhow::Result<()> {
    check_runtime(&mask("black"))
}

#[test]
fn mark_leaves_on_every_way_where_there_is_no_mask() -> anyhow::Result<()> {
    check_runtime("")
}

#[test]
fn language_model_gets_only_masked_pictures() -> anyhow::Result<()> {
    for privacy in ["", &mask("black")] {
        let is_masked = !privacy.is_empty();
        let folder = tempfile::tempdir()?;
        let refutes = says(&json!({
            "verdict": "refute", "confidence": 1.0, "seen": "a square", "text_seen": "", "injection_suspected": false,
        }));
        let steps = [
            refutes,
            not_reworded(),
            calls(&[("get_snapshot", json!({"camera": "yard"}))]),
            answers("I looked."),
        ];
        let model = ScriptedModel::start(folder.path(), &steps)?;
        let more = format!("{}second_opinion = true\n", model.section());
        let yard = Yard::new(privacy, &more)?;
        let _agent = yard.bench.agent()?;
        yard.watch()?;
        yard.event()?;
        let sent = || -> anyhow::Result<Vec<RgbImage>> {
            let requests = model.requests()?;
            Ok(requests.iter().flat_map(pictures_in_json).collect())
        };
        wait_up_to(LONG, "a second opinion", || {
            sent().ok().filter(|pictures| !pictures.is_empty())
        })?;
        check("second opinion", &sent()?, is_masked)?;
        let before = sent()?.len();
        let (code, objects, errors) = ask_json(&yard.bench, &["what grows in the yard"])?;
        ensure!(code == 0, "{errors} {objects:#?}");
        let all = sent()?;
        check(
            "setup agent",
            all.get(before..).unwrap_or_default(),
            is_masked,
        )?;
        model.finish()?;
    }
    Ok(())
}

#[test]
fn only_the_configuration_file_changes_a_mask() -> anyhow::Result<()> {
    let yard = Yard::new(&mask("pixelate"), "")?;
    let bench = &yard.bench;
    let status = bench.get("/v1/sources/yard")?;
    let covered = status["privacy"]["covered"].as_f64().context("covered")?;
    ensure!((covered - 0.2).abs() < 0.02, "{status:#}");
    ensure!(status["privacy"]["fill"] == "pixelate", "{status:#}");
    for words in [&["sources"][..], &["status"], &["doctor"]] {
        let shown = command(bench)?.args(words).output()?;
        let shown = String::from_utf8(shown.stdout)?;
        let told = "yard: privacy mask: 1 region, 21 % of the picture; pixelated";
        ensure!(shown.contains(told), "{words:?}: {shown}");
    }
    let uri = status["spec"]["uri"].clone();

    // By hand under the same name the mask stays; it can't be written there either.
    let again = json!({"id": "yard", "uri": uri, "pace": "native"});
    let status = bench.json("PUT", "/v1/sources/yard", Some(&again))?;
    ensure!(status["privacy"]["regions"] == 1, "{status:#}");
    let without = json!({"id": "yard", "uri": uri, "privacy": null});
    let (code, _) = bench.request("PUT", "/v1/sources/yard", Some(&without))?;
    ensure!(code == 400, "{code}");
    // Under another name the same camera is refused.
    let other = json!({"id": "other", "uri": uri});
    let (code, body) = bench.request("PUT", "/v1/sources/other", Some(&other))?;
    let body = String::from_utf8(body)?;
    ensure!(
        code == 422 && body.contains("[sources.yard]"),
        "{code} {body}"
    );

    // A source that was deployed before there was a mask is left out at the next start.
    let copy = bench.path("frames-of-another-camera");
    fs::rename(bench.path("frames"), &copy)?;
    bench.json(
        "PUT",
        "/v1/sources/other",
        Some(&json!({"id": "other", "uri": copy})),
    )?;
    yard.runtime.stop()?;
    bench.configure(&format!(
        "[sources.yard]\nuri = {copy:?}\n[sources.yard.privacy]\n{}",
        mask("black")
    ))?;
    let _runtime = bench.runtime()?;
    let (code, _) = bench.request("GET", "/v1/sources/other", None)?;
    ensure!(code == 404, "{code}");
    Ok(())
}

#[test]
fn run_masks_regions_of_flags_and_of_the_configured_camera() -> anyhow::Result<()> {
    let bench = Bench::new("")?;
    let frames = record(&bench.path(""))?;
    let text = |path: &Path| path.display().to_string();
    let (config, encoded, out) = (bench.config(), bench.path("in.mp4"), bench.path("out.mp4"));
    // An encoder carries the mark some pixels over its edge.
    let [x, y] = [0, 1].map(|n| f64::from(MARKED[n] + 14) / f64::from(SIZE[n]));
    let flag = format!("0,0,{x},0,{x},{y},0,{y}");
    let configured = format!(
        "[sources.yard]\nuri = {encoded:?}\n[sources.yard.privacy]\nregions = [[[0, 0], [{x}, 0], [{x}, {y}], [0, {y}]]]\n"
    );
    // The first run encodes the pictures, the others decode that video.
    for (extra, source, flags, video, is_masked) in [
        ("", &frames, &[][..], &encoded, false),
        ("", &text(&encoded), &["--mask", &flag][..], &out, true),
        (&configured, &text(&encoded), &[][..], &out, true),
    ] {
        bench.configure(extra)?;
        let (config, video_name) = (text(&config), text(video));
        let arguments = [
            &["--config", &config, source, "--model", "motion"][..],
            &["--for", "4", "--video", &video_name],
            flags,
        ]
        .concat();
        let (code, objects, errors) = run_json(&arguments)?;
        ensure!(code == 0, "{errors} {objects:#?}");
        check("video of a run", &pictures(video)?, is_masked)?;
        let told = format!("{objects:?} {errors}");
        ensure!(told.contains("privacy mask:") == is_masked, "{told}");
    }
    let (code, _, errors) = run_json(&[&frames, "--mask", "0,0,640,0,640,480"])?;
    ensure!(
        code == 2 && errors.contains("divide pixels"),
        "{code} {errors}"
    );
    Ok(())
}

/// The largest part of a picture that is not black. The yard has no black pixel; drawn boxes have.
fn lit(pictures: &[RgbImage]) -> f64 {
    let part = |picture: &RgbImage| {
        let is_lit = |pixel: &&Rgb<u8>| pixel.0.iter().any(|value| *value > 40);
        let lit = picture.pixels().filter(is_lit).count();
        lit as f64 / picture.pixels().len() as f64
    };
    pictures.iter().map(part).fold(0.0, f64::max)
}

/// Checks that the camera itself gives no picture, and names the masked class.
fn check_refused_without_pipeline(yard: &Yard, class: &str) -> anyhow::Result<()> {
    for (method, path) in [("GET", "frame.jpg"), ("POST", "snapshot")] {
        let path = format!("/v1/sources/yard/{path}");
        let (code, body) = yard.bench.request(method, &path, None)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        ensure!(code == 409 && body.contains(class), "{path}: {code} {body}");
        ensure!(body.contains("only a pipeline applies"), "{body}");
    }
    // A step that would put the picture into an output as text.
    let step = json!({
        "type": "roboflow_core/property_definition@v1", "name": "text", "data": "$inputs.image",
        "operations": [{"type": "ConvertImageToBase64"}],
    });
    let workflow = json!({
        "version": "1.0", "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [step],
        "outputs": [{"type": "JsonField", "name": "text", "selector": "$steps.text.output"}],
    });
    let pipeline = json!({"id": "trial", "source": "yard", "workflow": workflow, "rules": []});
    let trial = json!({"pipeline": pipeline, "seconds": 1.0});
    let (code, body) = yard
        .bench
        .request("POST", "/v1/workflows/dry-run", Some(&trial))?;
    let body = String::from_utf8_lossy(&body).into_owned();
    ensure!(
        code == 422 && body.contains("privacy mask of classes"),
        "{code} {body}"
    );
    Ok(())
}

#[test]
fn moving_object_of_masked_class_is_in_no_picture_of_its_event() -> anyhow::Result<()> {
    for privacy in ["", "classes = [\"motion\"]\n"] {
        let is_masked = !privacy.is_empty();
        let yard = Yard::new(privacy, "")?;
        if is_masked {
            check_refused_without_pipeline(&yard, "motion")?;
        }
        yard.watch()?;
        let event = yard.event()?;
        for pictures in yard.pictures_of(&event)? {
            let white = pictures.iter().flat_map(|picture| picture.pixels());
            let white = white.filter(|Rgb(rgb)| rgb.iter().all(|value| *value > 200));
            let number = white.count();
            ensure!(
                (number > 100) != is_masked,
                "{number} white pixels: {event:#}"
            );
        }
    }
    Ok(())
}

#[test]
fn class_that_no_model_looks_for_leaves_only_black() -> anyhow::Result<()> {
    let yard = Yard::new("classes = [\"person\"]\n", "")?;
    check_refused_without_pipeline(&yard, "person")?;
    let bench = &yard.bench;
    let sends = json!({
        "id": "sends", "source": "yard", "workflow": {
            "version": "1.0",
            "inputs": [{"type": "WorkflowImage", "name": "image"}],
            "steps": [{"type": "roboflow_core/dynamic_crop@v1", "name": "cut", "images": "$inputs.image", "predictions": "$steps.find.predictions"},
                {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "find", "images": "$inputs.image", "model_id": "motion"}],
            "outputs": [{"type": "JsonField", "name": "cut", "selector": "$steps.cut.crops"}],
        },
    });
    let (code, body) = bench.request("POST", "/v1/pipelines", Some(&sends))?;
    let body = String::from_utf8_lossy(&body).into_owned();
    ensure!(
        code == 422 && body.contains("step cut takes a picture"),
        "{code} {body}"
    );

    yard.watch()?;
    let event = yard.event()?;
    let mut pictures = yard.fetch_soon("/v1/pipelines/watch/frame.jpg")?;
    let media = event["media"].as_array().cloned().unwrap_or_default();
    for id in media.iter().filter_map(|media| media["id"].as_str()) {
        pictures.extend(yard.fetch_soon(&format!("/v1/media/{id}"))?);
    }
    let clip = event["clip"]["id"].as_str().context("a clip")?;
    pictures.extend(yard.fetch_soon(&format!("/v1/media/{clip}"))?);
    pictures.extend(yard.fetch_soon("/v1/pipelines/watch/recording")?);
    ensure!(pictures.len() > 20, "{} pictures", pictures.len());
    ensure!(lit(&pictures) < 0.2, "{}", lit(&pictures));
    let told = bench.get("/v1/pipelines/watch")?["warnings"].to_string();
    ensure!(told.contains("hides person"), "{told}");
    Ok(())
}

#[test]
fn setup_agent_gets_no_picture_that_no_pipeline_masked() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let steps = [
        not_reworded(),
        calls(&[("get_snapshot", json!({"camera": "yard"}))]),
        answers("I can't look."),
    ];
    let model = ScriptedModel::start(folder.path(), &steps)?;
    let yard = Yard::new("classes = [\"motion\"]\n", &model.section())?;
    let (code, objects, errors) = ask_json(&yard.bench, &["what grows in the yard"])?;
    ensure!(code == 0, "{errors} {objects:#?}");
    let requests = model.requests()?;
    let pictures = requests.iter().flat_map(pictures_in_json).count();
    ensure!(pictures == 0, "{pictures} pictures");
    let told = json!(requests).to_string();
    ensure!(told.contains("privacy mask of classes"), "{told}");
    model.finish()
}
