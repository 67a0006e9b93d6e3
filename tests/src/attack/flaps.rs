//! Kills an RTSP camera again and again, and starts it at the same address.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::arena::Arena;
use super::{MAX_SILENCE, Report};
use crate::daemons::{get, program, wait_up_to};
use crate::rtsp::{RtspOptions, RtspServer};
use crate::scene::deploy;

/// Longest time for which the camera is away, and longest time for which it is there.
const AWAY_MS: u64 = 3_000;
const THERE_MS: u64 = 2_000;

/// Lets the camera disappear `count` times. Each time, frames have to come again.
///
/// # Errors
/// If a process can't be started.
pub fn flaps(count: u64, random: &mut fastrand::Rng) -> anyhow::Result<Report> {
    let mut report = Report::new("camera flaps");
    let arena = Arena::start("")?;
    let camera_program = program("rtsp-server")?;
    let mut camera = RtspServer::start(&camera_program, &RtspOptions::default())?;
    let options = RtspOptions {
        port: Some(camera.port().context("a port")?),
        ..RtspOptions::default()
    };
    deploy(&arena.bench)?;
    let source = json!({"id": "street", "uri": camera.uri()});
    arena
        .bench
        .json("PUT", "/v1/sources/street", Some(&source))?;
    let socket = arena.bench.socket();
    let frames = || {
        let source = get(&socket, "/v1/sources/street").ok()?;
        source["counters"]["frames"].as_u64()
    };
    let mut longest = Duration::ZERO;
    for flap in 0..count {
        std::thread::sleep(Duration::from_millis(random.u64(..THERE_MS)));
        camera.kill()?;
        std::thread::sleep(Duration::from_millis(random.u64(..AWAY_MS)));
        let before = frames().unwrap_or(0);
        camera = RtspServer::start(&camera_program, &options)?;
        let back = Instant::now();
        let came = wait_up_to(MAX_SILENCE, "frames", || (frames()? > before).then_some(()));
        if came.is_err() {
            report.violations.push(format!("flap {flap}: no frames"));
        }
        longest = longest.max(back.elapsed());
    }
    report.attempted("flaps of a camera", count);
    report.silence(longest);
    arena.finish(&mut report)?;
    Ok(report)
}
