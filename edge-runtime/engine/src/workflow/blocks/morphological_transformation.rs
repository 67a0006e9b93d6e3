//! Morphological operations on pictures.

use watchkeeper_vision::imaging::filter::MAX_KERNEL;
use watchkeeper_vision::imaging::morphology::{self, Kernel};
use watchkeeper_vision::imaging::{self, Plane};

use crate::workflow::block_api::prelude::*;

const IMAGE: Property = Property::data("image", "the picture", &[Kind::Image]).alias(&["images"]);
const KERNEL_SIZE: Property = Property::integer("kernel_size", "size of the kernel in pixels", 5);
const OPERATION: Property = Property::value(
    "operation",
    "the operation",
    Shape::Choice(&[
        "Erosion",
        "Dilation",
        "Opening",
        "Closing",
        "Gradient",
        "Top Hat",
        "Black Hat",
    ]),
)
.or(Or::Text("Closing"));
const OPERATION_V2: Property = Property::value(
    "operation",
    "the operation",
    Shape::Choice(&[
        "Erosion",
        "Dilation",
        "Opening",
        "Closing",
        "Opening then Closing",
        "Gradient",
        "Top Hat",
        "Black Hat",
    ]),
)
.or(Or::Text("Opening then Closing"));
const OUTPUTS: &[Output] = &[Output::new("image", &[Kind::Image])];
pub(super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "roboflow_core/morphological_transformation@v1",
        category: "classical_computer_vision",
        summary: "Grows or shrinks bright shapes of a picture, by brightness.",
        properties: &[IMAGE, KERNEL_SIZE, OPERATION],
        outputs: OUTPUTS,
        build: |_| Ok(Box::new(Change { in_colour: false })),
        ..Manifest::BASE
    },
    Manifest {
        name: "roboflow_core/morphological_transformation@v2",
        category: "classical_computer_vision",
        summary: "Grows or shrinks bright shapes of a picture, per colour channel.",
        properties: &[IMAGE, KERNEL_SIZE, OPERATION_V2],
        outputs: OUTPUTS,
        build: |_| Ok(Box::new(Change { in_colour: true })),
        ..Manifest::BASE
    },
];

struct Change {
    /// Whether colours are kept.
    in_colour: bool,
}

impl Block for Change {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        let image = call.image(arg!("image"))?;
        let kernel = usize::try_from(call.integer(arg!("kernel_size"), 5)?).ok();
        let kernel = kernel.filter(|k| (1..=MAX_KERNEL).contains(k));
        let kernel =
            kernel.ok_or_else(|| format!("kernel_size has to be from 1 to {MAX_KERNEL}"))?;
        let operation = Operation::from_name(call.text(arg!("operation"))?)?;
        let in_colour = self.in_colour;
        let changed = image.changed(image.size(), move |pixels| {
            let square = Kernel::square(kernel);
            if in_colour {
                return imaging::each_channel(pixels, |plane| operation.apply(plane, &square));
            }
            let plane = operation.apply(&Plane::from(&imaging::grey(pixels)), &square);
            imaging::joined(&[plane.clone(), plane.clone(), plane])
        });
        call.put(0, changed);
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Erosion,
    Dilation,
    Opening,
    Closing,
    OpeningThenClosing,
    Gradient,
    TopHat,
    BlackHat,
}

impl Operation {
    fn from_name(name: &str) -> Result<Self, String> {
        Ok(match name {
            "Erosion" => Self::Erosion,
            "Dilation" => Self::Dilation,
            "Opening" => Self::Opening,
            "Closing" => Self::Closing,
            "Opening then Closing" => Self::OpeningThenClosing,
            "Gradient" => Self::Gradient,
            "Top Hat" => Self::TopHat,
            "Black Hat" => Self::BlackHat,
            other => return Err(format!("{other:?} is not an operation")),
        })
    }

    fn apply(self, plane: &Plane, kernel: &Kernel) -> Plane {
        use morphology::{above, close, dilate, erode, open};
        match self {
            Self::Erosion => erode(plane, kernel),
            Self::Dilation => dilate(plane, kernel),
            Self::Opening => open(plane, kernel),
            Self::Closing => close(plane, kernel),
            Self::OpeningThenClosing => close(&open(plane, kernel), kernel),
            Self::Gradient => above(&dilate(plane, kernel), &erode(plane, kernel)),
            Self::TopHat => above(plane, &open(plane, kernel)),
            Self::BlackHat => above(&close(plane, kernel), plane),
        }
    }
}
