//! Compares two ways to take pictures from a V4L2 device: `capture-cost DEVICE WIDTH HEIGHT RUNS`.
//!
//! - `mmap`: memory-mapped streaming by the crate `v4l`.
//! - `v4l2src`: GStreamer's element, as the runtime uses it, to an `appsink`.
//!
//! Both take the pictures as YUYV and copy each once, since a driver has few buffers. `converted`
//! adds the conversion to I420 by GStreamer, as the runtime wants pictures. All take turns, three
//! each. Prints one JSON object with the processor time of this process for a picture in ms,
//! without start and warm-up. Times are of all threads, user and system, as medians.

use std::hint::black_box;

use anyhow::{Context, bail};
use gstreamer as gst;
use gstreamer::prelude::{Cast, ElementExt, GstBinExt, PadExtManual};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use v4l::buffer::Type;
use v4l::io::mmap::Stream;
use v4l::io::traits::CaptureStream as _;
use v4l::video::Capture as _;
use v4l::{Device, Format, FourCC};

/// Pictures before the measurement.
const WARM_UP: u32 = 10;

/// Buffers of the driver.
const BUFFERS: u32 = 4;

/// Turns of each way.
const TURNS: usize = 3;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, width, height, runs] = arguments.as_slice() else {
        bail!("usage: capture-cost DEVICE WIDTH HEIGHT RUNS");
    };
    let (size, runs) = ([width.parse()?, height.parse()?], runs.parse()?);
    gst::init()?;
    let mut turns: [Vec<f64>; 4] = Default::default();
    for _ in 0..TURNS {
        let figures = [
            by_mmap(device, size, runs).context("mmap")?,
            by_v4l2src(device, size, runs, "").context("v4l2src")?,
            by_mmap_converted(device, size, runs).context("mmap, converted")?,
            by_v4l2src(device, size, runs, CONVERT).context("v4l2src, converted")?,
        ];
        for (turn, figure) in turns.iter_mut().zip(figures) {
            turn.push(figure);
        }
    }
    let [mapped, element, mapped_converted, element_converted] = turns.map(median);
    print_line(&json!({
        "mmap_ms": mapped, "v4l2src_ms": element, "v4l2src_by_mmap": element / mapped,
        "mmap_converted_ms": mapped_converted, "v4l2src_converted_ms": element_converted,
        "converted_v4l2src_by_mmap": element_converted / mapped_converted,
    }));
    Ok(())
}

/// Elements that make a picture as the runtime wants it.
const CONVERT: &str = "! videoconvert ! video/x-raw,format=I420";

#[expect(clippy::print_stdout, reason = "the result of the program")]
fn print_line(result: &serde_json::Value) {
    println!("{result}");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// Returns the processor time of this process in ms.
fn processor_ms() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Calls `next` for the warm-up and then `runs` times; returns the ms of one call.
fn measure(runs: u32, mut next: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    for _ in 0..WARM_UP {
        next()?;
    }
    let before = processor_ms();
    for _ in 0..runs {
        next()?;
    }
    Ok((processor_ms() - before) / f64::from(runs.max(1)))
}

/// Opens the device for memory-mapped streaming.
fn open_mapped<'a>(device: &str, [width, height]: [u32; 2]) -> anyhow::Result<Stream<'a>> {
    let device = Device::with_path(device)?;
    let got = device.set_format(&Format::new(width, height, FourCC::new(b"YUYV")))?;
    if [got.width, got.height] != [width, height] {
        bail!("the device has no such size");
    }
    Ok(Stream::with_buffers(&device, Type::VideoCapture, BUFFERS)?)
}

fn by_mmap(device: &str, size: [u32; 2], runs: u32) -> anyhow::Result<f64> {
    let mut stream = open_mapped(device, size)?;
    measure(runs, || {
        let (picture, _) = stream.next()?;
        black_box(picture.to_vec());
        Ok(())
    })
}

/// Pushes the pictures into a pipeline, which converts them.
fn by_mmap_converted(device: &str, size: [u32; 2], runs: u32) -> anyhow::Result<f64> {
    let [width, height] = size;
    let text = format!(
        "appsrc name=src format=time caps=video/x-raw,format=YUY2,width={width},height={height},\
         framerate=30/1 {CONVERT} ! appsink name=sink sync=false max-buffers=2"
    );
    let (pipeline, sink) = parse(&text)?;
    let src = pipeline.by_name("src").context("a source")?;
    let src = src
        .downcast::<gstreamer_app::AppSrc>()
        .ok()
        .context("an appsrc")?;
    let mut stream = open_mapped(device, size)?;
    pipeline.set_state(gst::State::Playing)?;
    let cost = measure(runs, || {
        let copy = stream.next()?.0.to_vec();
        src.push_buffer(gst::Buffer::from_mut_slice(copy))?;
        black_box(sink.pull_sample()?);
        Ok(())
    });
    pipeline.set_state(gst::State::Null)?;
    cost
}

fn parse(text: &str) -> anyhow::Result<(gst::Pipeline, gstreamer_app::AppSink)> {
    let pipeline = gst::parse::launch(text)?;
    let pipeline = pipeline
        .downcast::<gst::Pipeline>()
        .ok()
        .context("a pipeline")?;
    let sink = pipeline.by_name("sink").context("a sink")?;
    let sink = sink
        .downcast::<gstreamer_app::AppSink>()
        .ok()
        .context("an appsink")?;
    Ok((pipeline, sink))
}

fn by_v4l2src(device: &str, size: [u32; 2], runs: u32, convert: &str) -> anyhow::Result<f64> {
    let [width, height] = size;
    let text = format!(
        "v4l2src name=src device={device} ! video/x-raw,format=YUY2,width={width},height={height} \
         {convert} ! appsink name=sink sync=false max-buffers=2"
    );
    let (pipeline, sink) = parse(&text)?;
    let src = pipeline.by_name("src").context("a source")?;
    let pad = src.static_pad("src").context("a pad")?;
    pad.add_probe(gst::PadProbeType::BUFFER, |_, info| {
        if let Some(gst::PadProbeData::Buffer(buffer)) = &mut info.data
            && let Ok(copy) = buffer.copy_deep()
        {
            *buffer = copy;
        }
        gst::PadProbeReturn::Ok
    });
    pipeline.set_state(gst::State::Playing)?;
    let cost = measure(runs, || {
        black_box(sink.pull_sample()?);
        Ok(())
    });
    pipeline.set_state(gst::State::Null)?;
    cost
}
