//! Finds outlines in pictures.

use crate::workflow::block_api::prelude::*;

pub(super) const BLOCKS: &[Manifest] = &[Manifest {
    name: "roboflow_core/contours_detection@v1",
    summary: "Finds and draws the outlines of everything that is not black.",
    properties: &[
        IMAGE,
        Property::integer("line_thickness", 3).about("width of the drawn lines in pixels"),
    ],
    outputs: &[
        Output::new("image", &[Kind::Image]),
        Output::new("contours", &[Kind::Contours]),
        Output::new("hierarchy", &[Kind::NumpyArray]),
        Output::new("number_contours", &[Kind::Integer]),
    ],
    build: |_| Ok(Box::new(run)),
    ..Manifest::of("classical_computer_vision")
}];

fn run(call: &mut Call<'_>) -> Result<(), String> {
    let image = call.image(arg!("image"))?;
    let thickness = call.number(arg!("line_thickness"))?;
    let size = image.size();
    let grey = imaging::grey(&image.pixels.rgb());
    let shape = Bitmap::from_fn(size, |x, y| {
        let at = |n: usize| u32::try_from(n).unwrap_or(0);
        grey.get_pixel_checked(at(x), at(y))
            .is_some_and(|p| p.0[0] > 0)
    });
    // The last one first, as OpenCV returns them.
    let outlines: Vec<Vec<Point>> = shape.parts().into_iter().rev().collect();
    let count = i64::try_from(outlines.len()).unwrap_or(i64::MAX);
    // Next, previous, first inner and outer outline of each.
    let links = (0..count).map(|i| {
        let next = if i + 1 < count { i + 1 } else { -1 };
        Value::list([next, i - 1, -1, -1].map(Value::Int).to_vec())
    });
    let corner = |p: &Point| {
        Value::list(vec![Value::list(vec![
            Value::Int(p.x as i64),
            Value::Int(p.y as i64),
        ])])
    };
    let lists = outlines
        .iter()
        .map(|o| Value::list(o.iter().map(corner).collect()));
    call.put(1, lists.collect::<Vec<_>>());
    if count > 0 {
        call.put(2, vec![Value::list(links.collect())]);
    }
    call.put(3, count);
    let drawn = image.changed(size, move |pixels| {
        let mut out = imaging::coloured(&imaging::grey(pixels));
        let mut canvas = Canvas::on(&mut out);
        for outline in &outlines {
            canvas.outline_polygon(outline, Color::new(255, 0, 255), thickness);
        }
        out
    });
    call.finish(drawn)
}
