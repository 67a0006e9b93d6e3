//! Morphological operations on pictures.

use watchkeeper_vision::imaging::morphology::{Kernel, above, close, dilate, erode, open};

use crate::workflow::block_api::prelude::*;
use crate::workflow::blocks::common::picture_filter::{self, KERNELS};

const KERNEL_SIZE: Property =
    Property::integer("kernel_size", 5).about("size of the kernel in pixels");
const OPERATION: Property =
    Property::choice("operation", &names_of(&OPERATIONS), "Closing").about("the operation");
const OPERATION_V2: Property = Property::choice(
    "operation",
    &names_of(&OPERATIONS_V2),
    "Opening then Closing",
)
.about("the operation");
pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/morphological_transformation@v1",
        summary: "Grows or shrinks bright shapes of a picture, by brightness.",
        properties: &[IMAGE, KERNEL_SIZE, OPERATION],
        build: |_| {
            Ok(Box::new(|call: &mut Call<'_>| {
                change(call, &OPERATIONS, false)
            }))
        },
        ..picture_filter::BASE
    },
    Manifest {
        name: "roboflow_core/morphological_transformation@v2",
        summary: "Grows or shrinks bright shapes of a picture, per colour channel.",
        properties: &[IMAGE, KERNEL_SIZE, OPERATION_V2],
        build: |_| {
            Ok(Box::new(|call: &mut Call<'_>| {
                change(call, &OPERATIONS_V2, true)
            }))
        },
        ..picture_filter::BASE
    },
];

type Operation = fn(&Plane, &Kernel) -> Plane;

const OPERATIONS: [(&str, Operation); 7] = [
    ("Erosion", erode),
    ("Dilation", dilate),
    ("Opening", open),
    ("Closing", close),
    ("Gradient", |plane, kernel| {
        above(&dilate(plane, kernel), &erode(plane, kernel))
    }),
    ("Top Hat", |plane, kernel| {
        above(plane, &open(plane, kernel))
    }),
    ("Black Hat", |plane, kernel| {
        above(&close(plane, kernel), plane)
    }),
];

const OPERATIONS_V2: [(&str, Operation); 8] = {
    let [erosion, dilation, opening, closing, rest @ ..] = OPERATIONS;
    let [gradient, top_hat, black_hat] = rest;
    let both: (&str, Operation) = ("Opening then Closing", |plane, kernel| {
        close(&open(plane, kernel), kernel)
    });
    [
        erosion, dilation, opening, closing, both, gradient, top_hat, black_hat,
    ]
};

/// Changes the brightness, or each channel if the picture keeps its colours.
fn change(
    call: &mut Call<'_>,
    operations: &[(&str, Operation)],
    in_colour: bool,
) -> Result<(), String> {
    let side = call.integer_in(arg!("kernel_size"), KERNELS)?;
    let change = call.choice(arg!("operation"), operations)?;
    picture_filter::put(call, move |pixels| {
        let kernel = Kernel::square(side);
        if in_colour {
            return imaging::each_channel(pixels, |plane| change(plane, &kernel));
        }
        let plane = change(&Plane::from(&imaging::grey(pixels)), &kernel);
        imaging::joined(&[plane.clone(), plane.clone(), plane])
    })
}
