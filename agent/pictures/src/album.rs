//! Albums: a folder with a subfolder for each group, and one HTML page that shows them.
//!
//! - An album appears whole: it is built under another name and renamed.
//! - Pictures are copied; the page has small ones embedded and loads nothing.
//! - Names of files and folders consist of allowed characters only.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, html};
use watchkeeper_vision::jpeg;

use crate::group::Group;
use crate::picture::{Picture, PictureError};
use crate::sheet::small;

/// Page of an album.
pub const PAGE: &str = "index.html";

/// Most characters of a file or folder name.
const MAX_NAME: usize = 80;
/// Side in pixels of the pictures in the page.
const SMALL: u32 = 240;
/// JPEG quality of those, from 1 to 100.
const QUALITY: u8 = 75;

const STYLE: &str = "body{font:15px/1.4 system-ui,sans-serif;margin:2rem;background:#fafafa;color:#222}\
    section{margin-bottom:2rem}.why{color:#666}\
    .row{display:flex;flex-wrap:wrap;gap:.75rem}figure{margin:0;width:240px}\
    figcaption{font-size:12px;color:#555;overflow-wrap:anywhere}";

/// Why an album can't be written.
#[derive(Debug, thiserror::Error)]
pub enum AlbumError {
    #[error("{} can't be written: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    #[error(transparent)]
    Picture(#[from] PictureError),
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub folders: usize,
    pub pictures: usize,
}

/// Writes an album to the new folder `folder`; `progress` is called after each picture and ends the
/// work by returning false (`None`).
///
/// # Errors
/// If `folder` exists, a picture can't be read, or the disk refuses.
pub fn write(
    folder: &Path,
    title: &str,
    groups: &[Group],
    progress: &dyn Fn() -> bool,
) -> Result<Option<Written>, AlbumError> {
    if folder.exists() {
        return Err(AlbumError::Exists(folder.to_owned()));
    }
    let io = |source| AlbumError::Io {
        path: folder.to_owned(),
        source,
    };
    let above = folder.parent().unwrap_or(Path::new("."));
    let part = tempfile::Builder::new()
        .prefix(".album-")
        .tempdir_in(above)
        .map_err(io)?;
    let mut taken = HashSet::new();
    let mut sections = Vec::new();
    let mut pictures = 0;
    for group in groups {
        let name = unique(&file_name(&group.name), &mut taken);
        let Some(section) = write_group(&part.path().join(&name), &name, group, progress)? else {
            return Ok(None);
        };
        pictures += group.pictures.len();
        sections.push(section);
    }
    let page = page(title, &sections).into_string();
    fs::write(part.path().join(PAGE), page).map_err(io)?;
    let part = part.keep();
    if let Err(source) = fs::rename(&part, folder) {
        // The parts are useless; the error of the rename is the one to report.
        fs::remove_dir_all(&part).ok();
        return Err(io(source));
    }
    Ok(Some(Written {
        folders: groups.len(),
        pictures,
    }))
}

/// Copies the pictures of a group and returns its part of the page.
fn write_group(
    folder: &Path,
    name: &str,
    group: &Group,
    progress: &dyn Fn() -> bool,
) -> Result<Option<Markup>, AlbumError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| AlbumError::Io { path, source }
    };
    fs::create_dir(folder).map_err(io(folder))?;
    let mut taken = HashSet::new();
    let mut figures = Vec::new();
    for picture in &group.pictures {
        let file = unique(&file_name(picture.name()), &mut taken);
        let target = folder.join(&file);
        fs::copy(&picture.file, &target).map_err(io(&target))?;
        figures.push(figure(picture, &format!("{name}/{file}"))?);
        if !progress() {
            return Ok(None);
        }
    }
    Ok(Some(html! {
        section {
            h2 { (group.name) " – " (group.pictures.len()) }
            p.why { (group.why) }
            div.row { @for figure in &figures { (figure) } }
        }
    }))
}

fn figure(picture: &Picture, link: &str) -> Result<Markup, PictureError> {
    let small = small(Path::new(&picture.file), SMALL)?;
    // Encoding to memory fails on pictures without pixels only; those are not decoded.
    let data = jpeg::encode(&small, QUALITY).unwrap_or_default();
    let data = format!("data:image/jpeg;base64,{}", STANDARD.encode(data));
    Ok(html! {
        figure {
            a href=(link) { img src=(data) alt=(picture.name()) loading="lazy"; }
            figcaption { (caption(picture)) }
        }
    })
}

/// Describes a picture in one line: name, time, camera, score.
#[must_use]
pub fn caption(picture: &Picture) -> String {
    let time = picture
        .taken
        .map(|t| t.strftime("%Y-%m-%d %H:%M").to_string());
    let score = picture
        .scores
        .map(|scores| format!("{:.2}", scores.overall));
    let parts = [
        Some(picture.name().to_owned()),
        time,
        picture.camera.clone(),
        score,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn page(title: &str, sections: &[Markup]) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (STYLE) }
            }
            body {
                h1 { (title) }
                @for section in sections { (section) }
            }
        }
    }
}

/// Makes a file name of allowed characters: letters, digits, space, `,`, `.`, `-` and `_`. A name
/// never begins with a dot.
#[must_use]
pub fn file_name(text: &str) -> String {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, ' ' | ',' | '.' | '-' | '_');
    let replaced = text.chars().map(|c| if allowed(c) { c } else { '-' });
    let mut name: String = replaced.collect();
    // The ending survives the cut.
    let excess = name.chars().count().saturating_sub(MAX_NAME);
    name = name.chars().skip(excess).collect();
    let name = name.trim_matches([' ', '.']);
    match name.is_empty() {
        true => "unnamed".to_owned(),
        false => name.to_owned(),
    }
}

/// Returns `name`, numbered if it was used before; case makes no difference, as on some disks.
fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let path = Path::new(name);
    let ending = path.extension().map(|e| e.to_string_lossy().into_owned());
    let stem = path
        .file_stem()
        .map_or(name.into(), |stem| stem.to_string_lossy());
    let numbered = |n: usize| match &ending {
        Some(ending) => format!("{stem} {n}.{ending}"),
        None => format!("{stem} {n}"),
    };
    let mut candidate = name.to_owned();
    let mut n = 2;
    while !taken.insert(candidate.to_lowercase()) {
        candidate = numbered(n);
        n += 1;
    }
    candidate
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may fail loudly")]
mod tests {
    use image::RgbImage;
    use proptest::prelude::*;

    use super::*;

    fn picture(folder: &Path, name: &str) -> Picture {
        let file = folder.join(name);
        RgbImage::from_pixel(40, 30, image::Rgb([200, 10, 10]))
            .save(&file)
            .unwrap();
        Picture::read(&file).unwrap()
    }

    fn group(name: &str, pictures: Vec<Picture>) -> Group {
        Group {
            name: name.to_owned(),
            why: "<b>because</b>".to_owned(),
            pictures,
        }
    }

    #[test]
    fn album_has_a_folder_for_each_group_and_a_page() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["x", "y"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let [x, y] = ["x", "y"].map(|folder| picture(&dir.path().join(folder), "a.jpg"));
        let groups = [
            group("Bay 1/2", vec![x, y.clone()]),
            group("../bay 1-2", vec![y]),
        ];
        let album = dir.path().join("album");
        let written = write(&album, "Deliveries", &groups, &|| true).unwrap();
        assert_eq!(
            written,
            Some(Written {
                folders: 2,
                pictures: 3
            })
        );
        for file in ["Bay 1-2/a.jpg", "Bay 1-2/a 2.jpg", "-bay 1-2/a.jpg"] {
            assert!(album.join(file).is_file(), "{file}");
        }
        let page = fs::read_to_string(album.join(PAGE)).unwrap();
        assert!(page.contains("&lt;b&gt;because"), "{page}");
        assert_eq!(page.matches("data:image/jpeg;base64,/9j/").count(), 3);
    }

    #[test]
    fn existing_folder_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let error = write(dir.path(), "", &[], &|| true).unwrap_err();
        assert!(error.to_string().ends_with("exists already"), "{error}");
    }

    #[test]
    fn cancelled_album_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let groups = [group("g", vec![picture(dir.path(), "a.jpg")])];
        let album = dir.path().join("album");
        assert_eq!(write(&album, "", &groups, &|| false).unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    proptest! {
        #[test]
        fn name_of_any_text_is_one_plain_part_of_a_path(text in "\\PC{0,200}") {
            let name = file_name(&text);
            prop_assert!(!name.is_empty() && !name.starts_with('.') && !name.contains('/'));
            prop_assert_eq!(Path::new(&name).components().count(), 1);
        }
    }
}
