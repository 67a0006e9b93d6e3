//! Crops a fixed part of pictures, given in pixels or in shares.

use crate::workflow::block_api::prelude::*;

const PICTURES: Property = IMAGES.about("the pictures to cut from");

const fn pixels(name: &'static str, about: &'static str) -> Property {
    Property::value(name, COUNT).about(about)
}

const fn share(name: &'static str, about: &'static str) -> Property {
    Property::value(name, SHARE).about(about)
}

const BASE: Manifest = Manifest {
    outputs: &[Output::new("crops", &[Kind::Image])],
    batch: &["images"],
    ..Manifest::of("transformation")
};
pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/absolute_static_crop@v1",
        summary: "Crops a fixed part of pictures, given in pixels.",
        properties: &[
            PICTURES,
            pixels("x_center", "centre of the part, pixels from the left"),
            pixels("y_center", "centre of the part, pixels from the top"),
            pixels("width", "width of the part in pixels"),
            pixels("height", "height of the part in pixels"),
        ],
        build: |_| Ok(stateful(|cuts, call| cut(cuts, call, false))),
        ..BASE
    },
    Manifest {
        name: "roboflow_core/relative_statoic_crop@v1",
        summary: "Crops a fixed part of pictures, given in shares of their width and height.",
        properties: &[
            PICTURES,
            share("x_center", "centre of the part, share of the width"),
            share("y_center", "centre of the part, share of the height"),
            share("width", "width of the part, share of the width"),
            share("height", "height of the part, share of the height"),
        ],
        build: |_| Ok(stateful(|cuts, call| cut(cuts, call, true))),
        ..BASE
    },
];

/// Cuts a part out; `cuts` is the number of crops so far, for their names.
fn cut(cuts: &mut u64, call: &mut Call<'_>, in_shares: bool) -> Result<(), String> {
    let image = call.image(arg!("images"))?;
    let [width, height] = image.size().map(f64::from);
    let number = |arg: Arg, of: f64| -> Result<f64, String> {
        let given = call.number(arg)?;
        // Shares are rounded to whole pixels, halves to even.
        Ok(if in_shares {
            (given * of).round_ties_even()
        } else {
            given
        })
    };
    let center = [
        number(arg!("x_center"), width)?,
        number(arg!("y_center"), height)?,
    ];
    let size = [
        number(arg!("width"), width)?,
        number(arg!("height"), height)?,
    ];
    let start = [0, 1].map(|i| (center[i] - size[i] / 2.0).round_ties_even() as i64);
    let end = [0, 1].map(|i| start[i].saturating_add(size[i] as i64));
    *cuts += 1;
    let block = if in_shares {
        "relative_static_crop"
    } else {
        "absolute_static_crop"
    };
    let id = format!("{block}.{cuts}");
    // A part entirely outside of the picture is missing, as in the peer.
    if let Some(crop) = image.crop(start, end, Arc::from(id)) {
        call.put(0, crop);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::super::super::tests::bench::{Bench, picture};
    use super::Kind;

    fn cut(r#type: &str, part: [f64; 4]) -> Json {
        let [x, y, width, height] = part;
        let step = json!({
            "type": r#type, "images": "$inputs.image",
            "x_center": x, "y_center": y, "width": width, "height": height
        });
        let frame = picture(1, [64, 48], |_, _| [0, 0, 0]);
        let mut bench = Bench::new(step, &[("image", Kind::Image)]);
        bench.feed(&[("image", frame)]).unwrap()["crops"].clone()
    }

    #[test]
    fn crop_in_pixels_is_around_its_centre() {
        let crop = cut("AbsoluteStaticCrop", [20.0, 20.0, 10.0, 8.0]);
        assert_eq!((&crop["width"], &crop["height"]), (&json!(10), &json!(8)));
        assert_eq!(
            crop["parent_origin"],
            json!({"offset_x": 15, "offset_y": 16, "width": 64, "height": 48})
        );
    }

    #[test]
    fn crop_in_shares_is_around_its_centre() {
        let crop = cut("RelativeStaticCrop", [0.5, 0.5, 0.5, 0.5]);
        assert_eq!((&crop["width"], &crop["height"]), (&json!(32), &json!(24)));
        assert_eq!(crop["parent_origin"]["offset_x"], 16);
    }

    #[test]
    fn crop_is_limited_to_the_picture_or_missing_outside() {
        let crop = cut("AbsoluteStaticCrop", [60.0, 20.0, 20.0, 8.0]);
        assert_eq!(crop["width"], 14);
        assert_eq!(
            cut("AbsoluteStaticCrop", [200.0, 20.0, 20.0, 8.0]),
            Json::Null
        );
    }
}
