//! Measures parts of the pixel path, each alone. Prints one JSON object with the processor time
//! (all threads, user and system) and the wall time, without start, loading and warm-up.
//!
//! - `bench-parts decode CLIP` decodes to a sink that discards the pictures.
//! - `bench-parts model MODEL BACKEND RUNS` runs one tensor through the network with the daemon's
//!   back end and threads, without pre- or post-processing. Loading is measured by itself.
//!   `trt` takes a state folder too, with `lib/libwk_trt.so` in it; engines are kept there.
//! - `bench-parts mask WIDTH HEIGHT RUNS` masks a fifth of an I420 picture and the whole, black and
//!   pixelated.
//! - `bench-parts scale WIDTH HEIGHT RUNS` makes the tensor of YOLOX-nano from an I420 picture. In
//!   turns, the crate `fast_image_resize` scales its three planes to the same size.
//! - `bench-parts thumbnail CLIP` makes the small pictures of the detection history of each frame.
//! - `bench-parts light WIDTH HEIGHT RUNS` decides on the night gain of a light I420 picture.
//! - `bench-parts draw WIDTH HEIGHT BOXES RUNS` draws a zone, a line, and tinted boxes with labels
//!   on a picture. It also draws only the labels, and only the tints. See `tests/tools/bench/run`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fast_image_resize::images::{TypedImage, TypedImageRef};
use fast_image_resize::pixels::U8;
use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use gstreamer as gst;
use gstreamer::prelude::{Cast, ElementExt, GstBinExt, ObjectExt};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use watchkeeper_contract::id::TrackId;
use watchkeeper_contract::privacy::MaskFill;
use watchkeeper_detect::backend::{self, BackendChoice};
use watchkeeper_detect::network::{Feed, input_shape};
use watchkeeper_detect::night_gain::NightGain;
use watchkeeper_detect::preprocess::Preprocessor;
use watchkeeper_detect::trt::{StopFlag, TrtSettings};
use watchkeeper_detect::{OrtSettings, Precision};
use watchkeeper_models::Zoo;
use watchkeeper_runtime::capture::mailbox::Recv;
use watchkeeper_runtime::capture::source::{Deps, Source};
use watchkeeper_runtime::clock::thread_time;
use watchkeeper_runtime::history::thumbnail;
use watchkeeper_vision::detections::{Detection, DetectionId, Detections};
use watchkeeper_vision::draw::palette::{COLORS, color_of};
use watchkeeper_vision::draw::{self, Canvas, Color, ColorBy, Labels};
use watchkeeper_vision::frame::{ColorMatrix, Colorimetry, OwnedPlanes, Picture, PixelFormat};
use watchkeeper_vision::geometry::{BBox, Point};
use watchkeeper_vision::privacy::Cover;

/// Runs before the measurement, to warm up allocators and caches.
const WARM_UP: u32 = 5;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let report = match args.as_slice() {
        ["decode", clip] => decode(Path::new(clip))?,
        ["model", model, backend, runs] => network(model, backend.parse()?, None, runs.parse()?)?,
        ["model", model, backend, runs, state] => {
            let trt = trt_settings(Path::new(state))?;
            network(model, backend.parse()?, Some(&trt), runs.parse()?)?
        }
        ["mask", width, height, runs] => mask([width.parse()?, height.parse()?], runs.parse()?)?,
        ["scale", width, height, runs] => scale([width.parse()?, height.parse()?], runs.parse()?)?,
        ["thumbnail", clip] => thumbnails(clip)?,
        ["light", width, height, runs] => light([width.parse()?, height.parse()?], runs.parse()?)?,
        ["draw", width, height, boxes, runs] => draw(
            [width.parse()?, height.parse()?],
            boxes.parse()?,
            runs.parse()?,
        )?,
        _ => bail!(
            "usage: bench-parts decode CLIP | bench-parts model MODEL BACKEND RUNS [STATE] | \
             bench-parts thumbnail CLIP | bench-parts mask|scale|light WIDTH HEIGHT RUNS | bench-parts draw WIDTH HEIGHT BOXES RUNS"
        ),
    };
    #[expect(clippy::print_stdout, reason = "a command-line tool")]
    {
        println!("{report}");
    }
    Ok(())
}

fn decode(clip: &Path) -> anyhow::Result<Value> {
    gst::init()?;
    let pipeline = gst::parse::launch(
        "filesrc name=src ! decodebin ! video/x-raw ! fakesink name=sink sync=false",
    )?;
    let bin = pipeline
        .downcast_ref::<gst::Bin>()
        .context("a pipeline is a bin")?;
    let element = |name| bin.by_name(name).context("an element named above");
    element("src")?.set_property("location", clip);
    let sink = element("sink")?;
    let bus = pipeline.bus().context("a pipeline has a bus")?;

    let clocks = Clocks::start()?;
    pipeline.set_state(gst::State::Playing)?;
    let last = bus.timed_pop_filtered(
        gst::ClockTime::NONE,
        &[gst::MessageType::Eos, gst::MessageType::Error],
    );
    if let Some(gst::MessageView::Error(error)) = last.as_ref().map(|m| m.view()) {
        bail!("{}: {}", clip.display(), error.error());
    }
    let frames: u64 = sink.property::<gst::Structure>("stats").get("rendered")?;
    let report = clocks.report(&json!({"frames": frames}))?;
    pipeline.set_state(gst::State::Null)?;
    Ok(report)
}

/// Settings of TensorRT, with the runtime that was built beside this program.
fn trt_settings(state: &Path) -> anyhow::Result<TrtSettings> {
    let examples = std::env::current_exe()?;
    let built = examples.parent().and_then(Path::parent);
    Ok(TrtSettings {
        library: None,
        folders: vec![state.join("lib")],
        engine_dir: state.join("engines"),
        precision: Precision::default(),
        program: built
            .context("a target folder")?
            .join("watchkeeper-runtime"),
        stop: StopFlag::default(),
    })
}

fn network(
    model: &str,
    choice: BackendChoice,
    trt: Option<&TrtSettings>,
    runs: u32,
) -> anyhow::Result<Value> {
    let resolved = Zoo::builtin().resolve(model)?;
    let loading = Clocks::start()?;
    let network = backend::load(
        choice,
        &resolved.path,
        &resolved.manifest,
        None,
        &OrtSettings::default(),
        trt,
    )?;
    let loading = loading.report(&json!({}))?;
    let shape = input_shape(&resolved.manifest.input);
    let tensor = vec![114.0; shape.iter().product()];
    let mut numbers = 0;
    let mut run = || {
        let read = network.infer(&[Feed::floats(&shape, &tensor)], &mut |outputs| {
            numbers = outputs.iter().map(|o| o.data.len()).sum();
        });
        read.map_err(anyhow::Error::msg)
    };
    for _ in 0..WARM_UP {
        run()?;
    }
    let clocks = Clocks::start()?;
    for _ in 0..runs {
        run()?;
    }
    clocks.report(&json!({
        "frames": runs, "backend": network.backend(), "threads": network.threads(), "numbers_out": numbers,
        "loading_s": loading["cpu_s"],
    }))
}

/// A picture of one colour.
fn plain_picture(size: [u32; 2]) -> Picture {
    let [width, height] = size.map(|side| side as usize);
    let half = [width.div_ceil(2), height.div_ceil(2)];
    let chroma = || (vec![90; half[0] * half[1]], half[0]);
    Picture {
        width: size[0],
        height: size[1],
        format: PixelFormat::I420,
        color: Colorimetry {
            matrix: ColorMatrix::Bt709,
            full_range: false,
        },
        planes: Arc::new(OwnedPlanes {
            planes: vec![(vec![120; width * height], width), chroma(), chroma()],
        }),
    }
}

/// Small pictures a day of a source and model, with a detection all day and without any.
const THUMBNAILS_A_DAY: [(&str, f64); 2] = [("busy", 86_400.0 / 5.0), ("quiet", 86_400.0 / 60.0)];

fn thumbnails(clip: &str) -> anyhow::Result<Value> {
    let spec = json!({"id": "clip", "uri": clip, "pace": "fast"});
    let source = Source::spawn(serde_json::from_value(spec)?, Deps::default());
    let received = source.subscribe();
    let memory_before = peak_kib()?;
    let (mut pictures, mut bytes, mut spent) = (0_u32, 0, Duration::ZERO);
    loop {
        let frame = match received.recv(Duration::from_secs(60)) {
            Recv::Frame(frame) => frame,
            Recv::Ended => break,
            other => bail!("{clip}: {other:?}"),
        };
        let began = thread_time();
        let jpeg = thumbnail(std::hint::black_box(&frame.picture))?;
        spent += thread_time().saturating_sub(began);
        (pictures, bytes) = (pictures + 1, bytes + jpeg.len());
    }
    let (ms, mean) = (
        spent.as_secs_f64() * 1e3 / f64::from(pictures),
        bytes as f64 / f64::from(pictures),
    );
    let mut report = json!({
        "pictures": pictures, "cpu_ms": ms, "bytes": mean,
        "memory_kib_with_decoding": peak_kib()?.saturating_sub(memory_before),
    });
    for (name, number) in THUMBNAILS_A_DAY {
        report[name] = json!({
            "disk_mb_a_day": mean * number / 1e6,
            "share_of_a_core": ms / 1e3 * number / 86_400.0,
        });
    }
    Ok(report)
}

/// Returns the peak memory of this process in KiB.
fn peak_kib() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("a peak")?.parse()?)
}

fn light(size: [u32; 2], runs: u32) -> anyhow::Result<Value> {
    let picture = plain_picture(size);
    let mut gain = NightGain::default();
    let mut run = || gain.observe(std::hint::black_box(&picture));
    for _ in 0..WARM_UP {
        std::hint::black_box(run());
    }
    let clocks = Clocks::start()?;
    let raised = (0..runs).filter(|_| run().is_some()).count();
    clocks.report(&json!({"size": size, "frames": runs, "raised": raised}))
}

fn scale(size: [u32; 2], runs: u32) -> anyhow::Result<Value> {
    let (picture, zoo) = (plain_picture(size), Zoo::builtin());
    let manifest = zoo.manifest("yolox-nano").context("a model of the zoo")?;
    let mut preprocessor = Preprocessor::new(manifest.input.clone());
    let place = preprocessor.run(&picture)?;
    let (target, mut scaled) = ([place.width, place.height], Vec::new());
    let mut resizer = Resizer::new();
    let (mut whole, mut planes) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let clocks = Clocks::start()?;
        for _ in 0..runs {
            preprocessor.run(std::hint::black_box(&picture))?;
        }
        whole.push(clocks.report(&json!({}))?);
        let clocks = Clocks::start()?;
        for _ in 0..runs {
            for plane in 0..3 {
                resize_plane(&mut resizer, &picture, plane, target, &mut scaled)?;
            }
        }
        planes.push(clocks.report(&json!({}))?);
    }
    Ok(json!({
        "size": size, "scaled": target, "frames": runs,
        "whole": whole, "fast_image_resize": planes,
    }))
}

/// Scales a plane of an I420 picture without padded rows.
fn resize_plane(
    resizer: &mut Resizer,
    picture: &Picture,
    plane: usize,
    [width, height]: [u32; 2],
    scaled: &mut Vec<u8>,
) -> anyhow::Result<()> {
    let shift = u32::from(plane > 0);
    let [from_width, from_height] = [picture.width >> shift, picture.height >> shift];
    let data = picture.planes.plane(plane).data;
    let from = TypedImageRef::<U8>::from_buffer(from_width, from_height, data)?;
    scaled.resize(width as usize * height as usize, 0);
    let mut to = TypedImage::<U8>::from_buffer(width, height, scaled)?;
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
    resizer.resize_typed(&from, &mut to, &options)?;
    Ok(())
}

fn mask(size: [u32; 2], runs: u32) -> anyhow::Result<Value> {
    let picture = plain_picture(size);
    let upright = |x: f64, y: f64| vec![[0.0, 0.0], [x, 0.0], [x, y], [0.0, y]];
    let mut report = json!({"size": size, "frames": runs});
    for (name, region, fill) in [
        ("fifth_black", upright(0.5, 0.4), MaskFill::Black),
        ("fifth_pixelated", upright(0.5, 0.4), MaskFill::Pixelate),
        ("whole_black", upright(1.0, 1.0), MaskFill::Black),
        ("whole_pixelated", upright(1.0, 1.0), MaskFill::Pixelate),
    ] {
        let cover = Cover::new(&[region], size);
        let run = || cover.mask(std::hint::black_box(&picture), fill);
        (0..WARM_UP).for_each(|_| drop(run()));
        let clocks = Clocks::start()?;
        (0..runs).for_each(|_| drop(std::hint::black_box(run())));
        report[name] = clocks.report(&json!({"covered": cover.share()}))?;
    }
    Ok(report)
}

/// Draws a part of a crowd.
type DrawPart = fn(&mut Canvas<'_>, &Detections);

fn draw(size: [u32; 2], boxes: u32, runs: u32) -> anyhow::Result<Value> {
    let crowd = crowd(size, boxes);
    let mut pixels = vec![90; size[0] as usize * size[1] as usize * 3];
    let mut report = json!({"size": size, "boxes": boxes, "frames": runs});
    let parts: [(&str, DrawPart); 3] = [
        ("all", draw_all),
        ("labels", draw_labels),
        ("tints", draw_tints),
    ];
    for (name, part) in parts {
        let mut run = || {
            let mut canvas = Canvas::new(std::hint::black_box(&mut pixels), size[0], size[1]);
            part(&mut canvas, &crowd);
        };
        (0..WARM_UP).for_each(|_| run());
        let clocks = Clocks::start()?;
        (0..runs).for_each(|_| run());
        report[name] = clocks.report(&json!({}))?;
    }
    Ok(report)
}

/// Boxes of people in three rows that overlap, each an eighth as wide as the picture is high.
fn crowd(size: [u32; 2], boxes: u32) -> Detections {
    let [width, height] = size.map(f64::from);
    let side = height / 8.0;
    let row = |nth: u32| {
        let x = (f64::from(nth) * side * 1.7) % (width - side);
        let y = height * (0.1 + 0.2 * f64::from(nth % 3));
        let id = DetectionId::Local {
            stream: 0,
            number: nth.into(),
        };
        let bbox = BBox::new(x, y, x + side, y + side * 2.5);
        let mut person = Detection::new(bbox, 0.9, 0, "person", id);
        person.track = Some(TrackId(nth.into()));
        person
    };
    Detections {
        boxes: (0..boxes).map(row).collect(),
        size,
    }
}

fn draw_all(canvas: &mut Canvas<'_>, crowd: &Detections) {
    let at = |x: f64, y: f64| Point::new(canvas.width() * x, canvas.height() * y);
    let zone = [at(0.1, 0.5), at(0.4, 0.5), at(0.4, 0.9), at(0.1, 0.9)];
    let line = [at(0.5, 0.2), at(0.5, 0.9)];
    draw::zone(canvas, &zone, COLORS[2], 0.2);
    draw::tints(canvas, crowd, ColorBy::Track, 0.15);
    draw::boxes(canvas, crowd, ColorBy::Track, Some(2.0));
    draw::line(canvas, line[0], line[1]);
    let mut labels = box_labels(crowd);
    labels.add_zone(&zone, "yard: 3".to_owned(), COLORS[2]);
    labels.add_line(
        line[0],
        line[1],
        "gate: in 3  out 4".to_owned(),
        Color::WHITE,
    );
    labels.draw(canvas);
}

fn draw_labels(canvas: &mut Canvas<'_>, crowd: &Detections) {
    box_labels(crowd).draw(canvas);
}

fn draw_tints(canvas: &mut Canvas<'_>, crowd: &Detections) {
    draw::tints(canvas, crowd, ColorBy::Track, 0.15);
}

fn box_labels(crowd: &Detections) -> Labels {
    let mut labels = Labels::new();
    for (nth, person) in draw::distinct(crowd) {
        let color = color_of(person, nth, ColorBy::Track);

        labels.add_box(
            &person.bbox,
            person.track,
            format!("person #{nth} 0.90"),
            color,
        );
    }
    labels
}

/// Wall clock, and processor time of the whole process.
struct Clocks {
    wall: Instant,
    used: Duration,
}

impl Clocks {
    fn start() -> anyhow::Result<Self> {
        Ok(Self {
            used: processor_time()?,
            wall: Instant::now(),
        })
    }

    /// Returns `with` and the seconds since the start.
    fn report(&self, with: &Value) -> anyhow::Result<Value> {
        let mut report = with.clone();
        report["wall_s"] = json!(self.wall.elapsed().as_secs_f64());
        report["cpu_s"] = json!((processor_time()?.saturating_sub(self.used)).as_secs_f64());
        Ok(report)
    }
}

fn processor_time() -> anyhow::Result<Duration> {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime))
        .context("processor time is not negative")
}
