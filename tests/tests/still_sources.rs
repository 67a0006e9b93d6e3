//! Animations and folders of pictures as sources of `run`.

use std::path::Path;

use image::{Rgb, RgbImage};
use serde_json::Value;
use watchkeeper_tests::daemons::{data, run_json};

fn summary(source: &Path, flags: &[&str]) -> anyhow::Result<Value> {
    let source = source.display().to_string();
    let (code, lines, errors) = run_json(&[&[&source, "--model", "motion"], flags].concat())?;
    anyhow::ensure!(code == 0, "{code}: {errors}");
    let last = lines.into_iter().last().unwrap_or_default();
    anyhow::ensure!(last["type"] == "summary", "{last}: {errors}");
    Ok(last)
}

#[test]
fn an_animated_gif_lasts_as_long_as_it_says() -> anyhow::Result<()> {
    let Some(data) = data("an animated GIF") else {
        return Ok(());
    };
    let summary = summary(&data.join("video/intel_store-aisle.gif"), &[])?;
    assert_eq!(summary["frames"], 67, "{summary}");
    // The file says 4.47 s; the last picture's own time is not in it.
    let seconds = summary["seconds"].as_f64().unwrap_or_default();
    assert!((4.3..=4.6).contains(&seconds), "{summary}");
    Ok(())
}

#[test]
fn a_folder_of_pictures_of_every_size_is_looked_through() -> anyhow::Result<()> {
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
    // One video with all of them, whatever their size.
    assert_eq!(std::fs::read_dir(videos.path())?.count(), 1);
    let seen = summary(&video, &[])?;
    assert_eq!(seen["frames"], sizes.len(), "{seen}");
    Ok(())
}
