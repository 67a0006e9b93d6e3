//! Checks the tables of inputs: `input` and `lines.input`.

use crate::manifest::{ColourOrder, Fit, Input, Layout, Placement};

use super::error::{DisplayOrAbsent, FieldErrors};
use super::shape::RawInput;

/// Largest side of an input in pixels. A tensor of this size squared is 200 MB, the most a small
/// machine can spare.
pub(super) const MAX_SIDE: u32 = 4096;

/// Checks the table with the key `at`.
pub(super) fn check_input(at: &str, raw: &RawInput, errors: &mut FieldErrors) -> Option<Input> {
    let key = |field: &str| format!("{at}.{field}");
    for (field, side) in [("width", raw.width), ("height", raw.height)] {
        errors.require(
            (1..=MAX_SIDE).contains(&side),
            &key(field),
            side,
            format!("1 to {MAX_SIDE} pixels"),
        );
    }
    errors.choose(&key("dtype"), &raw.dtype, &[("f32", ())]);
    check_normalisation(at, raw, errors);
    let layout = errors.choose(
        &key("layout"),
        &raw.layout,
        &[("nchw", Layout::Nchw), ("nhwc", Layout::Nhwc)],
    );
    let colour = errors.choose(
        &key("colour"),
        &raw.colour,
        &[("bgr", ColourOrder::Bgr), ("rgb", ColourOrder::Rgb)],
    );
    let fit = check_fit(at, raw, errors)?;
    Some(Input {
        width: raw.width,
        height: raw.height,
        layout: layout?,
        colour: colour?,
        scale: raw.scale,
        mean: raw.mean,
        std: raw.std,
        fit,
    })
}

fn check_normalisation(at: &str, raw: &RawInput, errors: &mut FieldErrors) {
    let key = |field: &str| format!("{at}.{field}");
    let finite = |v: &[f32]| v.iter().all(|x| x.is_finite());
    errors.require(
        raw.scale.is_finite() && raw.scale != 0.0,
        &key("scale"),
        raw.scale,
        "a number other than 0",
    );
    errors.require(
        finite(&raw.mean),
        &key("mean"),
        raw.mean,
        "three finite numbers",
    );
    errors.require(
        finite(&raw.std) && !raw.std.contains(&0.0),
        &key("std"),
        raw.std,
        "three numbers other than 0",
    );
}

fn check_fit(at: &str, raw: &RawInput, errors: &mut FieldErrors) -> Option<Fit> {
    let key = |field: &str| format!("{at}.{field}");
    let unboxed = errors.choose(
        &key("fit"),
        &raw.fit,
        &[
            ("letterbox", None),
            ("stretch", Some(Fit::Stretch)),
            ("crop", Some(Fit::Crop)),
        ],
    )?;
    if let Some(fit) = unboxed {
        let spare = raw.placement.is_some() || raw.pad.is_some();
        errors.require(
            !spare,
            &key("fit"),
            &raw.fit,
            "letterbox, as placement or pad is given",
        );
        return Some(fit);
    }

    let placement = errors.choose_given(
        &key("placement"),
        raw.placement.as_deref(),
        &[
            ("top-left", Placement::TopLeft),
            ("centre", Placement::Centre),
            ("centre-exact", Placement::CentreExact),
        ],
    );
    let pad = raw.pad.and_then(|pad| u8::try_from(pad).ok());
    errors.require(
        pad.is_some(),
        &key("pad"),
        DisplayOrAbsent(raw.pad),
        "0 to 255",
    );
    Some(Fit::Letterbox {
        placement: placement?,
        pad: pad?,
    })
}
