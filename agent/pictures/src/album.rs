//! Albums: a folder with a subfolder for each group, and one HTML page that shows them.
//!
//! - The page is written group by group: memory holds the small pictures of one.
//! - Pictures are copied. Of up to [`MAX_EMBEDDED`] the page has small ones embedded; of more they
//!   are files beside it. It loads nothing from elsewhere.
//! - Names of files and folders consist of allowed characters only.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use watchkeeper_vision::jpeg;

use crate::group::Group;
use crate::picture::{Picture, PictureError};
use crate::sheet::small;

/// Page of an album.
pub const PAGE: &str = "index.html";

/// Most pictures of an album whose small ones are in the page: 3 MB of it.
const MAX_EMBEDDED: usize = 200;
/// Folder of the small pictures of a larger album.
const SMALL_FOLDER: &str = "small";
/// Pictures that are made small together, on all cores.
const CHUNK: usize = 32;

/// Most bytes of a file or folder name, before its number.
const MAX_NAME: usize = 200;
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
    #[error("no picture can be read: {}", .0.join("; "))]
    Unreadable(Vec<String>),
    #[error("interrupted")]
    Interrupted,
}

/// Contents of an album, in numbers.
#[derive(Debug, PartialEq, Eq)]
pub struct AlbumCounts {
    pub folders: usize,
    pub pictures: usize,
    /// Why each of the others is left out.
    pub unreadable: Vec<String>,
}

/// Writes an album to the new folder `folder`. A picture that can't be read is left out. `progress`
/// is called after each picture and ends the work by returning false.
///
/// # Errors
/// If no picture can be read, the disk refuses, or `progress` returned false.
pub fn write(
    folder: &Path,
    title: &str,
    groups: &[Group],
    progress: &dyn Fn() -> bool,
) -> Result<AlbumCounts, AlbumError> {
    let io = |source| AlbumError::Io {
        path: folder.to_owned(),
        source,
    };
    fs::create_dir(folder).map_err(io)?;
    let mut page = BufWriter::new(File::create_new(folder.join(PAGE)).map_err(io)?);
    write!(page, "{}", head(title).into_string()).map_err(io)?;
    let mut counts = AlbumCounts {
        folders: 0,
        pictures: 0,
        unreadable: Vec::new(),
    };
    let mut taken = HashSet::from([PAGE.to_owned(), SMALL_FOLDER.to_owned()]);
    let number: usize = groups.iter().map(|group| group.pictures.len()).sum();
    let small_folder = (number > MAX_EMBEDDED).then(|| folder.join(SMALL_FOLDER));
    if let Some(small_folder) = &small_folder {
        fs::create_dir(small_folder).map_err(io)?;
    }
    for group in groups {
        let name = unique(&file_name(&group.name), &mut taken);
        let path = folder.join(&name);
        fs::create_dir(&path).map_err(io)?;
        let at = GroupFolder {
            path: &path,
            name: &name,
            small: small_folder.as_deref(),
        };
        let figures = copy_group(&at, group, &mut counts, progress)?;
        let section = html! {
            section {
                h2 { (group.name) " – " (figures.len()) }
                p.why { (group.why) }
                div.row { @for figure in &figures { (figure) } }
            }
        };
        write!(page, "{}", section.into_string()).map_err(io)?;
        counts.folders += 1;
    }
    write!(page, "{END}")
        .and_then(|()| page.flush())
        .map_err(io)?;
    if counts.pictures == 0 && !counts.unreadable.is_empty() {
        return Err(AlbumError::Unreadable(counts.unreadable));
    }
    Ok(counts)
}

/// Folder for the pictures of a group.
struct GroupFolder<'a> {
    path: &'a Path,
    name: &'a str,
    /// Folder of all small pictures, where they are files.
    small: Option<&'a Path>,
}

/// Copies the pictures of a group and returns their parts of the page.
fn copy_group(
    at: &GroupFolder<'_>,
    group: &Group,
    counts: &mut AlbumCounts,
    progress: &dyn Fn() -> bool,
) -> Result<Vec<Markup>, AlbumError> {
    let mut taken = HashSet::new();
    let mut figures = Vec::new();
    for chunk in group.pictures.chunks(CHUNK) {
        let made = chunk.par_iter().map(small_jpeg);
        let made: Vec<Result<Vec<u8>, PictureError>> = made.collect();
        for (picture, made) in chunk.iter().zip(made) {
            match made {
                Ok(jpeg) => {
                    let file = unique(&file_name(picture.name()), &mut taken);
                    let target = at.path.join(&file);
                    fs::copy(&picture.file, &target).map_err(io_error(&target))?;
                    let shown = match at.small {
                        Some(folder) => write_small(folder, counts.pictures, &jpeg)?,
                        None => format!("data:image/jpeg;base64,{}", STANDARD.encode(&jpeg)),
                    };
                    figures.push(figure(picture, &shown, &format!("{}/{file}", at.name)));
                    counts.pictures += 1;
                }
                Err(error) => counts.unreadable.push(error.to_string()),
            }
            if !progress() {
                return Err(AlbumError::Interrupted);
            }
        }
    }
    Ok(figures)
}

fn small_jpeg(picture: &Picture) -> Result<Vec<u8>, PictureError> {
    let small = small(Path::new(&picture.file), SMALL)?;
    // Encoding to memory fails on pictures without pixels only; those are not decoded.
    Ok(jpeg::encode(&small, QUALITY).unwrap_or_default())
}

/// Writes a small picture and returns its address in the page.
fn write_small(folder: &Path, number: usize, jpeg: &[u8]) -> Result<String, AlbumError> {
    let name = format!("{number}.jpg");
    let path = folder.join(&name);
    fs::write(&path, jpeg).map_err(io_error(&path))?;
    Ok(format!("{SMALL_FOLDER}/{name}"))
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> AlbumError {
    let path = path.to_owned();
    move |source| AlbumError::Io { path, source }
}

fn figure(picture: &Picture, shown: &str, link: &str) -> Markup {
    html! {
        figure {
            a href=(link) { img src=(shown) alt=(picture.name()) loading="lazy"; }
            figcaption { (caption(picture)) }
        }
    }
}

/// Describes a picture in one line: what an event is about, or the name of the file, then time,
/// camera and score.
pub fn caption(picture: &Picture) -> String {
    let time = |format: &str| picture.taken.map(|t| t.strftime(format).to_string());
    let score = picture
        .scores
        .map(|scores| format!("{:.2}", scores.overall));
    let parts = match &picture.class {
        Some(class) => [
            Some(class.clone()),
            time("%m-%d %H:%M:%S"),
            picture.camera.clone(),
            score,
        ],
        None => {
            let name = Some(picture.name().to_owned());
            [name, time("%Y-%m-%d %H:%M"), picture.camera.clone(), score]
        }
    };
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// The page up to its first section.
fn head(title: &str) -> Markup {
    html! {
        (DOCTYPE)
        (PreEscaped("<html lang=\"en\">"))
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            title { (title) }
            style { (STYLE) }
        }
        (PreEscaped("<body>"))
        h1 { (title) }
    }
}

const END: &str = "</body></html>\n";

/// Makes a file name of allowed characters: letters, digits, space, `,`, `.`, `-` and `_`. A name
/// never begins with a dot.
pub fn file_name(text: &str) -> String {
    let allowed = |c: char| c.is_alphanumeric() || matches!(c, ' ' | ',' | '.' | '-' | '_');
    let replaced = text.chars().map(|c| if allowed(c) { c } else { '-' });
    let mut name: String = replaced.collect();
    // The ending survives the cut.
    while name.len() > MAX_NAME {
        name.remove(0);
    }
    let name = name.trim_matches([' ', '.']);
    match name.is_empty() {
        true => "unnamed".to_owned(),
        false => name.to_owned(),
    }
}

/// Returns `name`, numbered if it was used before; case makes no difference, as on some disks.
#[must_use]
pub fn unique(name: &str, taken: &mut HashSet<String>) -> String {
    let path = Path::new(name);
    // Of "12.42.26 gate" the seconds and the camera are no ending.
    let ending = path.extension().map(|e| e.to_string_lossy().into_owned());
    let ending = ending.filter(|ending| ending.chars().all(char::is_alphanumeric));
    let stem = ending.as_ref().and_then(|_| path.file_stem());
    let stem = stem.map_or(name.into(), |stem| stem.to_string_lossy());
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
        let mut broken = y.clone();
        broken.file = dir.path().join("x/broken.jpg").display().to_string();
        let whole = fs::read(&x.file).unwrap();
        fs::write(&broken.file, &whole[..whole.len() / 2]).unwrap();
        let groups = [
            group("Bay 1/2", vec![x, broken, y.clone()]),
            group("../bay 1-2", vec![y.clone()]),
            group(PAGE, vec![y]),
        ];
        let album = dir.path().join("album");
        let counts = write(&album, "Deliveries", &groups, &|| true).unwrap();
        assert_eq!((counts.folders, counts.pictures), (3, 4));
        assert!(counts.unreadable[0].contains("broken.jpg"), "{counts:?}");
        for file in [
            "Bay 1-2/a.jpg",
            "Bay 1-2/a 2.jpg",
            "-bay 1-2/a.jpg",
            "index 2.html/a.jpg",
        ] {
            assert!(album.join(file).is_file(), "{file}");
        }
        let page = fs::read_to_string(album.join(PAGE)).unwrap();
        assert!(page.contains("&lt;b&gt;because"), "{page}");
        assert!(page.ends_with(END), "{page}");
        assert_eq!(page.matches("data:image/jpeg;base64,/9j/").count(), 4);
    }

    #[test]
    fn large_album_has_its_small_pictures_beside_the_page() {
        let dir = tempfile::tempdir().unwrap();
        let pictures = vec![picture(dir.path(), "a.jpg"); MAX_EMBEDDED + 1];
        let album = dir.path().join("album");
        let counts = write(&album, "", &[group(SMALL_FOLDER, pictures)], &|| true).unwrap();
        assert_eq!(counts.pictures, MAX_EMBEDDED + 1);
        let page = fs::read_to_string(album.join(PAGE)).unwrap();
        assert!(
            !page.contains("base64") && page.contains("small 2/a 201.jpg"),
            "{page}"
        );
        for number in 0..=MAX_EMBEDDED {
            let name = format!("{SMALL_FOLDER}/{number}.jpg");
            assert!(
                page.contains(&name) && album.join(&name).is_file(),
                "{name}"
            );
        }
    }

    #[test]
    fn interruption_and_an_existing_folder_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let groups = [group("g", vec![picture(dir.path(), "a.jpg")])];
        let interrupted = write(&dir.path().join("album"), "", &groups, &|| false);
        assert!(matches!(interrupted, Err(AlbumError::Interrupted)));
        let exists = write(dir.path(), "", &groups, &|| true);
        assert!(matches!(exists, Err(AlbumError::Io { .. })));
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
