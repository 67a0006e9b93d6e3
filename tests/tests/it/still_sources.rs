//! Folders of pictures as sources of `run`.

use std::path::Path;

use image::{Rgb, RgbImage};
use serde_json::{Value, json};
use watchkeeper_tests::daemons::{Bench, run_json};

fn summary(source: &Path, flags: &[&str]) -> anyhow::Result<Value> {
    let source = source.display().to_string();
    let (code, lines, errors) = run_json(&[&[&source, "--model", "motion"], flags].concat())?;
    anyhow::ensure!(code == 0, "{code}: {errors}");
    let last = lines.into_iter().last().unwrap_or_default();
    anyhow::ensure!(last["type"] == "summary", "{last}: {errors}");
    Ok(last)
}

#[test]
fn folder_of_mixed_size_pictures_is_processed() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let sizes = [
        (64, 48),
        (641, 361),
        (1, 1),
        (3, 200),
        (1920, 1080),
        (64, 48),
    ];
    for (i, (width, height)) in sizes.into_iter().enumerate() {
        let picture = RgbImage::from_fn(width, height, |x, y| {
            Rgb([(x % 251) as u8, (y % 241) as u8, 128])
        });
        let ending = if i % 2 == 0 { "png" } else { "jpg" };
        picture.save(folder.path().join(format!("{i}.{ending}")))?;
    }
    let videos = tempfile::tempdir()?;
    let video = videos.path().join("out.mp4");
    let flags = ["--video", &video.display().to_string()];
    let seen = summary(folder.path(), &flags)?;
    assert_eq!(seen["frames"], sizes.len(), "{seen}");
    // One video holds all of them, whatever their size.
    assert_eq!(std::fs::read_dir(videos.path())?.count(), 1);
    let seen = summary(&video, &[])?;
    assert_eq!(seen["frames"], sizes.len(), "{seen}");
    Ok(())
}

#[test]
fn api_runs_a_workflow_once_on_a_picture() -> anyhow::Result<()> {
    /// PNG of one white pixel.
    const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4//8/AAX+Av4N70a4AAAAAElFTkSuQmCC";
    let bench = Bench::new("")?;
    let _runtime = bench.runtime()?;
    let run = |selector: &str, image: &str| {
        let workflow = json!({
            "version": "1.0",
            "inputs": [{"type": "WorkflowImage", "name": "image"}, {"type": "WorkflowParameter", "name": "word"}],
            "steps": [{"type": "roboflow_core/property_definition@v1", "name": "loud", "data": selector,
                       "operations": [{"type": "StringToUpperCase"}]}],
            "outputs": [{"type": "JsonField", "name": "loud", "selector": "$steps.loud.output"}],
        });
        let body = json!({"workflow": workflow, "images": [image], "parameters": {"word": "hush"}});
        let (status, bytes) = bench.request("POST", "/v1/workflows/run", Some(&body))?;
        anyhow::Ok((status, serde_json::from_slice::<Value>(&bytes)?))
    };
    let (status, ran) = run("$inputs.word", PNG)?;
    assert_eq!(
        (status, &ran["results"]),
        (200, &json!([{"loud": "HUSH"}])),
        "{ran}"
    );
    let (status, refused) = run("$inputs.wurd", PNG)?;
    assert_eq!(
        (status, &refused["field"]),
        (422, &json!("workflow")),
        "{refused}"
    );
    assert!(
        refused["workflow_errors"][0]["message"].is_string(),
        "{refused}"
    );
    let (status, refused) = run("$inputs.word", "bm90aGluZw==")?;
    assert_eq!(
        (status, &refused["field"]),
        (422, &json!("images[0]")),
        "{refused}"
    );
    Ok(())
}
