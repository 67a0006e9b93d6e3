//! Dry runs on files that the operator allows, by the API and the command.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::{Context as _, ensure};
use image::RgbImage;
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, data, json_lines};
use watchkeeper_tests::person::command;

fn pipeline() -> Value {
    let image = "$inputs.image";
    let workflow = json!({
        "version": "1.0",
        "inputs": [{"type": "WorkflowImage", "name": "image"}],
        "steps": [
            {"type": "roboflow_core/roboflow_object_detection_model@v2", "name": "model", "images": image, "model_id": "motion"},
            {"type": "roboflow_core/byte_tracker@v3", "name": "tracker", "image": image, "detections": "$steps.model.predictions"},
            {"type": "roboflow_core/time_in_zone@v2", "name": "all", "image": image,
                "detections": "$steps.tracker.tracked_detections", "triggering_anchor": "CENTER",
                "zone": [[0, 0], [640, 0], [640, 360], [0, 360]]},
        ],
        "outputs": [{"type": "JsonField", "name": "seen", "selector": "$steps.tracker.tracked_detections"}],
    });
    json!({"id": "tried", "source": "road", "workflow": workflow, "rules": []})
}

/// Tries the pipeline on a file: status and answer.
fn try_file(bench: &Bench, file: &Path) -> anyhow::Result<(u16, Value)> {
    let wanted = json!({"pipeline": pipeline(), "seconds": 3, "file": file});
    let (status, body) = bench.request("POST", "/v1/workflows/dry-run", Some(&wanted))?;
    Ok((status, serde_json::from_slice(&body)?))
}

#[test]
fn dry_run_reads_allowed_files_as_the_camera_and_no_others() -> anyhow::Result<()> {
    let Some(data) = data("a dry run on a video file") else {
        return Ok(());
    };
    let video = data.join("video/ahmetozlu_road.mp4");
    let bench = Bench::new("")?;
    let folder = bench.path("footage");
    fs::create_dir(&folder)?;
    bench.configure(&format!(
        "dry_run_roots = [{:?}, {folder:?}]\n[sources.road]\nuri = {video:?}\npace = \"fast\"\n",
        data.join("video"),
    ))?;
    let runtime = bench.runtime()?;

    let (status, early) = try_file(&bench, &video)?;
    ensure!(
        status == 409 && early["detail"].to_string().contains("frame save road"),
        "{early}"
    );
    let on_source = json!({"pipeline": pipeline(), "seconds": 3});
    let on_source = bench.json("POST", "/v1/workflows/dry-run", Some(&on_source))?;
    let (status, on_file) = try_file(&bench, &video)?;
    ensure!(status == 200, "{on_file}");
    for count in ["frames", "tracks", "source_s"] {
        let found = [&on_source, &on_file].map(|report| report["results"][count].as_f64());
        ensure!(
            found[0] > Some(0.0) && found[0] == found[1],
            "{count}: {found:?}"
        );
    }

    // The end of the trial ends no visit for those who ask who is inside.
    let inside = &on_file["results"]["zones"]["all"]["present"];
    ensure!(inside.as_u64() > Some(0), "{on_file:#}");

    let size = bench.get("/v1/sources/road")?["size"].clone();
    let side = |nth: usize| size[nth].as_u64().and_then(|side| u32::try_from(side).ok());
    let (width, height) = side(0).zip(side(1)).context("a size")?;
    for nth in 0..5 {
        let picture = RgbImage::new(width / 2, height / 2);
        picture.save(folder.join(format!("{nth}.jpg")))?;
    }
    let (status, pictures) = try_file(&bench, &folder)?;
    ensure!(
        status == 200 && pictures["results"]["frames"] == 5,
        "{pictures}"
    );

    let tall = folder.join("tall.jpg");
    RgbImage::new(height, width).save(&tall)?;
    symlink("/etc/passwd", folder.join("link.mp4"))?;
    let text = folder.join("text.mp4");
    fs::write(&text, "no video")?;
    for (file, why) in [
        (text, "it delivers no frame: "),
        (tall, "use footage of this camera"),
        (folder.join("link.mp4"), "runtime.dry_run_roots"),
        (folder.join("../watchkeeper.toml"), "runtime.dry_run_roots"),
        ("/etc/passwd".into(), "runtime.dry_run_roots"),
    ] {
        let (status, refused) = try_file(&bench, &file)?;
        let detail = refused["detail"].as_str().unwrap_or_default();
        ensure!(
            status == 422 && detail.contains(why),
            "{}: {refused}",
            file.display()
        );
        ensure!(refused["field"] == "file", "{refused}");
    }

    let definition = bench.path("pipeline.json");
    fs::write(&definition, pipeline().to_string())?;
    let out = command(&bench)?
        .args(["--json", "pipelines", "try"])
        .arg(&definition)
        .args(["--seconds", "3", "--file"])
        .arg(&video)
        .output()?;
    let printed = json_lines(&out.stdout)?;
    ensure!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    ensure!(
        printed[0]["results"]["frames"] == on_file["results"]["frames"],
        "{printed:?}"
    );
    ensure!(bench.get("/v1/pipelines")? == json!([]), "nothing is kept");
    runtime.stop()?;
    Ok(())
}
