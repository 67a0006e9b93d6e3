//! Hardware decoders that give frames in NVIDIA's memory, by stand-ins as strict as the originals.
//!
//! What no stand-in shows: NVIDIA's own elements, and those of V4L2 and VA.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use gstreamer as gst;
use gstreamer::prelude::ElementExt;
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, Process, data, json_lines, program, wait_up_to};
use watchkeeper_tests::nvmm::NvmmPlugin;
use watchkeeper_tests::rtsp::{RtspOptions, RtspServer};
use watchkeeper_tests::scene::motion_workflow;
use watchkeeper_tests::watch::Watched;

const LONG: Duration = Duration::from_secs(90);

/// Frames of [`encode`]'s file.
const FRAMES: u64 = 75;

/// A camera that reorders frames, whose key frames are four seconds apart.
const CAMERA: &str = "videotestsrc is-live=true pattern=ball ! \
    video/x-raw,format=I420,width=320,height=240,framerate=15/1 ! \
    x264enc bframes=2 b-adapt=false key-int-max=60 speed-preset=ultrafast ! \
    video/x-h264,profile=main ! rtph264pay name=pay0 pt=96 config-interval=1";

/// A box with the stand-ins, and its running runtime.
struct Jetson {
    bench: Bench,
    _runtime: Process,
    plugin: NvmmPlugin,
}

impl Jetson {
    fn start(what: &str, flags: &[&str]) -> anyhow::Result<Option<Self>> {
        let Some(plugin) = NvmmPlugin::compile(what, flags)? else {
            return Ok(None);
        };
        let bench = Bench::new("")?;
        let runtime = bench.runtime_with(&plugin.variables())?;
        Ok(Some(Self {
            bench,
            _runtime: runtime,
            plugin,
        }))
    }

    /// Watches a source; its members are added to the specification.
    fn watch(&self, uri: &str, members: &Value) -> anyhow::Result<()> {
        let mut spec = json!({"id": "cam", "uri": uri});
        if let (Some(spec), Some(members)) = (spec.as_object_mut(), members.as_object()) {
            spec.extend(members.clone());
        }
        self.bench.json("PUT", "/v1/sources/cam", Some(&spec))?;
        let pipeline = json!({"id": "p", "source": "cam", "workflow": motion_workflow()});
        self.bench.json("POST", "/v1/pipelines", Some(&pipeline))?;
        Ok(())
    }

    fn source(&self) -> Value {
        self.bench.get("/v1/sources/cam").unwrap_or_default()
    }

    /// Waits until the recording was played, and returns the status of its source.
    fn ended(&self) -> anyhow::Result<Value> {
        wait_up_to(LONG, "the end of the file", || {
            Some(self.source()).filter(|s| s["state"]["state"] == "ended")
        })
    }

    /// Waits for more than `count` frames, and returns the status of the source.
    fn live(&self, count: u64) -> anyhow::Result<Value> {
        wait_up_to(LONG, "frames", || {
            Some(self.source()).filter(|s| s["counters"]["frames"].as_u64() > Some(count))
        })
        .with_context(|| self.source().to_string())
    }

    fn doctor(&self) -> anyhow::Result<String> {
        let output = Command::new(program("watchkeeper")?)
            .arg("--config")
            .arg(self.bench.config())
            .arg("doctor")
            .envs(self.plugin.variables())
            .stdin(Stdio::null())
            .output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Encodes a file of [`FRAMES`] frames with reordered ones.
fn encode(bench: &Bench) -> anyhow::Result<PathBuf> {
    gst::init()?;
    let path = bench.path("ball.mp4");
    let pipeline = gst::parse::launch(&format!(
        "videotestsrc pattern=ball num-buffers={FRAMES} ! \
         video/x-raw,format=I420,width=320,height=240,framerate=15/1 ! \
         x264enc bframes=2 b-adapt=false key-int-max=30 ! h264parse ! mp4mux ! \
         filesink location={path:?}"
    ))?;
    pipeline.set_state(gst::State::Playing)?;
    let bus = pipeline.bus().context("a bus")?;
    let kinds = [gst::MessageType::Eos, gst::MessageType::Error];
    let ended = bus.timed_pop_filtered(gst::ClockTime::from_seconds(60), &kinds);
    pipeline.set_state(gst::State::Null)?;
    let is_whole = ended.is_some_and(|message| message.type_() == gst::MessageType::Eos);
    ensure!(is_whole, "the file was not encoded");
    Ok(path)
}

fn camera(is_shared: bool) -> anyhow::Result<RtspServer> {
    let options = RtspOptions {
        launch: Some(CAMERA.to_owned()),
        is_shared,
        ..RtspOptions::default()
    };
    RtspServer::start(Path::new(env!("CARGO_BIN_EXE_rtsp-server")), &options)
}

#[test]
fn file_in_nvmm_gives_every_frame_in_the_wanted_size() -> anyhow::Result<()> {
    let Some(jetson) = Jetson::start("a file decoded in NVMM", &[])? else {
        return Ok(());
    };
    let file = encode(&jetson.bench)?;
    jetson.watch(&file.display().to_string(), &json!({"scale": [160, 120]}))?;
    let status = jetson.ended()?;
    assert_eq!(status["counters"]["frames"], FRAMES, "{status}");
    assert_eq!(status["size"], json!([160, 120]), "{status}");
    let decoder = json!({"element": "nvv4l2decoder", "hardware": true});
    assert_eq!(status["decoder"], decoder);
    Ok(())
}

#[test]
fn camera_that_begins_mid_group_without_times_is_decoded() -> anyhow::Result<()> {
    let Some(jetson) = Jetson::start("RTSP decoded in NVMM", &[])? else {
        return Ok(());
    };
    let server = camera(true)?;
    // Another client has started the stream: this one begins between two key frames.
    let first = Watched::start(server.uri())?;
    for _ in 0..20 {
        first.frame()?;
    }
    jetson.watch(server.uri(), &json!({}))?;
    let status = jetson.live(30)?;
    assert_eq!(status["decoder"]["element"], "nvv4l2decoder", "{status}");
    assert_eq!(status["counters"]["losses"], 0, "{status}");
    Ok(())
}

#[test]
fn failing_decoder_is_replaced_and_reported() -> anyhow::Result<()> {
    let Some(jetson) = Jetson::start("a decoder that fails", &["-DFAIL_AFTER=20"])? else {
        return Ok(());
    };
    let server = camera(false)?;
    jetson.watch(server.uri(), &json!({}))?;
    let status = wait_up_to(LONG, "the processor to decode", || {
        Some(jetson.source()).filter(|s| s["decoder"]["hardware"] == false)
    })
    .with_context(|| jetson.source().to_string())?;
    assert_eq!(status["decoder"]["element"], "avdec_h264");
    let reason = status["decoder"]["fallback"].as_str().unwrap_or_default();
    assert!(reason.contains("nvv4l2decoder failed"), "{status}");

    let outages = wait_up_to(LONG, "the end of the outage", || {
        let events = jetson.bench.events().unwrap_or_default();
        let of_source = events
            .into_iter()
            .filter(|e| e["body"]["kind"] == "source_outage");
        Some(of_source.collect::<Vec<_>>()).filter(|of_source| of_source.len() >= 2)
    })?;
    let message = outages[0]["body"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("nvv4l2decoder failed"), "{message}");
    let fallback = wait_up_to(LONG, "the event of the fallback", || {
        let mut events = jetson.bench.events().unwrap_or_default().into_iter();
        events.find(|event| event["body"]["kind"] == "decoder_fallback")
    })?;
    assert_eq!(fallback["source"], "cam", "{fallback}");
    assert_eq!(fallback["body"]["element"], "avdec_h264", "{fallback}");
    let health = jetson.bench.get("/v1/health")?;
    assert_eq!(health["state"], "degraded", "{health}");
    let doctor = jetson.doctor()?;
    assert!(doctor.contains("decoded on the processor"), "{doctor}");
    Ok(())
}

#[test]
fn silent_decoder_is_replaced_before_the_first_frame() -> anyhow::Result<()> {
    let Some(jetson) = Jetson::start("a decoder that gives no frame", &["-DSILENT"])? else {
        return Ok(());
    };
    let file = encode(&jetson.bench)?;
    jetson.watch(&file.display().to_string(), &json!({}))?;
    let status = jetson.ended()?;
    assert_eq!(status["counters"]["frames"], FRAMES, "{status}");
    let reason = status["decoder"]["fallback"].as_str().unwrap_or_default();
    assert!(reason.contains("took frames and gave none"), "{status}");
    Ok(())
}

#[test]
fn csi_camera_gives_frames_of_the_requested_mode() -> anyhow::Result<()> {
    let Some(jetson) = Jetson::start("a CSI camera", &[])? else {
        return Ok(());
    };
    jetson.watch("csi://0?width=640&height=480&fps=15", &json!({}))?;
    let status = jetson.live(5)?;
    assert_eq!(status["size"], json!([640, 480]), "{status}");
    assert_eq!(status["nominal_fps"], 15.0, "{status}");
    Ok(())
}

#[test]
fn decoder_that_is_not_installed_is_refused() -> anyhow::Result<()> {
    let Some(jetson) = Jetson::start("a decoder that is not installed", &[])? else {
        return Ok(());
    };
    let refused = |decoder: &str| {
        let spec = json!({"id": "cam", "uri": "rtsp://127.0.0.1/x", "decoder": decoder});
        let answer = jetson.bench.request("PUT", "/v1/sources/cam", Some(&spec));
        answer.map(|(status, body)| (status, String::from_utf8_lossy(&body).into_owned()))
    };
    let (status, body) = refused("va")?;
    assert_eq!(status, 422, "{body}");
    assert!(
        body.contains("vah264dec") && body.contains("apt-get install gstreamer1.0-plugins-bad"),
        "{body}"
    );
    let (status, body) = refused("nvidia")?;
    assert_eq!(status, 200, "{body}");
    Ok(())
}

#[test]
fn hardware_counts_what_the_processor_counts() -> anyhow::Result<()> {
    let what = "counts of frames in NVMM";
    let Some(footage) = data(what) else {
        return Ok(());
    };
    let Some(plugin) = NvmmPlugin::compile(what, &[])? else {
        return Ok(());
    };
    let clip = footage.join("video/ahmetozlu_road.mp4");
    let summary = |with_hardware: bool| -> anyhow::Result<Value> {
        let mut command = Command::new(program("watchkeeper")?);
        command
            .arg("run")
            .arg(&clip)
            .args(["--model", "motion", "--line", "l:0,200,640,200", "--json"])
            .stdin(Stdio::null());
        if with_hardware {
            command.envs(plugin.variables());
        }
        let output = command.output()?;
        let summary = json_lines(&output.stdout)?.pop().unwrap_or_default();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(summary["type"] == "summary", "{summary} {errors}");
        Ok(summary)
    };
    let (hardware, software) = (summary(true)?, summary(false)?);
    assert_eq!(hardware["frames"], 905, "{hardware}");
    for member in ["frames", "lines", "tracks"] {
        assert_eq!(hardware[member], software[member], "{member}");
    }
    Ok(())
}
