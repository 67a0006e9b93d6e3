//! The graph of a TFLite file as ONNX.
//!
//! - TFLite keeps pictures as rows of pixels (NHWC), ONNX as planes (NCHW). The input becomes
//!   planes once; a picture becomes rows again only where its numbers are reshaped.
//! - Shapes are computed and compared with those that the file states.
//! - Tensor `i` of the file has the name `t{i}`.
//! - At most [`MAX_VALUES`] weights are written.

use crate::onnx::{FLOAT, Message, constant, integers, model, node, tensor_info};

use super::convolution::{Kernel, Window, option};
use super::error::TfliteError;
use super::flatbuffer::Field;
use super::schema::{Kind, MAX_VALUES, Model, Operator, OperatorKind, refused, require};

const ADD_ACTIVATION: Field = Field(0, "AddOptions.fused_activation_function");
const AXIS: Field = Field(0, "ConcatenationOptions.axis");
const CONCAT_ACTIVATION: Field = Field(1, "ConcatenationOptions.fused_activation_function");

/// Known form of a tensor while the operators are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Absent,
    /// The values of this tensor of the file.
    Constant(usize),
    /// Computed; pictures as planes.
    Planes,
    /// Computed; axes as in the file.
    Rows,
}

#[derive(Debug)]
struct Converter<'a> {
    model: &'a Model<'a>,
    forms: Vec<Form>,
    graph: Message,
    /// Values of all weights so far.
    weights: usize,
}

/// Converts a graph; with `features` up to that tensor, whose means are the output.
pub(super) fn convert(file: &Model<'_>, features: Option<usize>) -> Result<Vec<u8>, TfliteError> {
    let [1, height, width, channels] = file.tensors[file.input].shape[..] else {
        let shape = format!("{:?}", file.tensors[file.input].shape);
        return Err(refused(
            "the input's shape",
            shape,
            "1 x height x width x channels",
        ));
    };
    let constants = file.tensors.iter().enumerate();
    let constants = constants.map(|(i, tensor)| match tensor.data {
        [] => Form::Absent,
        _ => Form::Constant(i),
    });
    let mut converter = Converter {
        model: file,
        forms: constants.collect(),
        graph: Message::default(),
        weights: 0,
    };
    converter.give(file.input, Form::Planes, "the input")?;
    for (i, operator) in file.operators.iter().enumerate() {
        let at = format!("operator {i} ({})", operator.kind.name());
        converter.add(operator, &at)?;
        if features == Some(operator.output) {
            break;
        }
    }
    let means = features.map(|tensor| converter.means(tensor)).transpose()?;
    let input = tensor_info(
        &name(file.input),
        FLOAT,
        &[1, channels, height, width].map(|side| side as u64),
    );
    let mut graph = converter.graph.text(2, "tflite").message(11, &input);
    if let Some(means) = means {
        return Ok(model(&graph.message(12, &means)));
    }
    for (i, output) in file.outputs.iter().enumerate() {
        let tensor = &file.tensors[*output];
        let form = converter.forms[*output];
        require(
            form == Form::Rows,
            || (format!("output {i}"), format!("{form:?}")),
            "a computed tensor that was reshaped or joined",
        )?;
        graph = graph.message(
            12,
            &tensor_info(&name(*output), FLOAT, &sides(&tensor.shape)),
        );
    }
    Ok(model(&graph))
}

impl Converter<'_> {
    fn add(&mut self, operator: &Operator<'_>, at: &str) -> Result<(), TfliteError> {
        match operator.kind {
            OperatorKind::Dequantize => self.dequantize(operator, at),
            OperatorKind::Conv | OperatorKind::DepthwiseConv => self.convolve(operator, at),
            OperatorKind::Add => self.sum(operator, at),
            OperatorKind::Reshape => self.reshape(operator, at),
            OperatorKind::Concatenation => self.join(operator, at),
            OperatorKind::Logistic => {
                let [input] = self.computed(operator, at)?;
                let form = self.forms[input];
                self.same_shape(input, operator.output, at)?;
                self.node("Sigmoid", &[&name(input)], operator.output, |node| node);
                self.give(operator.output, form, at)
            }
        }
    }

    /// Records that a tensor is computed.
    fn give(&mut self, tensor: usize, form: Form, at: &str) -> Result<(), TfliteError> {
        let place = || format!("{at}, output tensor {tensor}");
        let kind = self.model.tensors[tensor].kind;
        require(
            kind == Kind::F32,
            || (place(), format!("{kind:?}")),
            "FLOAT32",
        )?;
        let before = std::mem::replace(&mut self.forms[tensor], form);
        require(
            before == Form::Absent,
            || (place(), "given before"),
            "a tensor of its own",
        )
    }

    /// Returns the operator's first inputs, which earlier operators computed.
    fn computed<const N: usize>(
        &self,
        operator: &Operator<'_>,
        at: &str,
    ) -> Result<[usize; N], TfliteError> {
        let Some(inputs) = operator.inputs.first_chunk::<N>() else {
            let found = operator.inputs.len();
            return Err(refused(
                format!("{at}, number of inputs"),
                found,
                N.to_string(),
            ));
        };
        for input in inputs {
            let form = self.forms[*input];
            require(
                matches!(form, Form::Planes | Form::Rows),
                || (format!("{at}, input tensor {input}"), format!("{form:?}")),
                "computed by an operator before",
            )?;
        }
        Ok(*inputs)
    }

    fn same_shape(&self, one: usize, other: usize, at: &str) -> Result<(), TfliteError> {
        let [one, other] = [one, other].map(|i| &self.model.tensors[i].shape);
        self.states(other, one, at)
    }

    /// Compares the shape that the file states with the computed one.
    fn states(&self, stated: &[usize], right: &[usize], at: &str) -> Result<(), TfliteError> {
        require(
            stated == right,
            || (format!("{at}, shape"), format!("{stated:?}")),
            &format!("{right:?}"),
        )
    }

    fn node(
        &mut self,
        kind: &str,
        inputs: &[&str],
        output: usize,
        attributes: impl FnOnce(Message) -> Message,
    ) {
        self.named_node(kind, inputs, &name(output), attributes);
    }

    fn named_node(
        &mut self,
        kind: &str,
        inputs: &[&str],
        output: &str,
        attributes: impl FnOnce(Message) -> Message,
    ) {
        let graph = std::mem::take(&mut self.graph);
        self.graph = graph.message(1, &attributes(node(kind, inputs, output)));
    }

    fn constant(&mut self, tensor: &Message) {
        let graph = std::mem::take(&mut self.graph);
        self.graph = graph.message(5, tensor);
    }

    /// Adds a node with the activation that its operator ends with.
    fn activated(
        &mut self,
        activation: u8,
        kind: &str,
        inputs: &[&str],
        output: usize,
        at: &str,
        attributes: impl FnOnce(Message) -> Message,
    ) -> Result<(), TfliteError> {
        const NONE: u8 = 0;
        const RELU: u8 = 1;
        const RELU6: u8 = 3;
        let plain = format!("{}_sum", name(output));
        match activation {
            NONE => self.node(kind, inputs, output, attributes),
            RELU => {
                self.named_node(kind, inputs, &plain, attributes);
                self.node("Relu", &[&plain], output, |node| node);
            }
            RELU6 => {
                let [low, high] = ["low", "high"].map(|end| format!("{}_{end}", name(output)));
                self.named_node(kind, inputs, &plain, attributes);
                self.constant(&constant(&low, FLOAT, &[], &0.0_f32.to_le_bytes()));
                self.constant(&constant(&high, FLOAT, &[], &6.0_f32.to_le_bytes()));
                self.node("Clip", &[&plain, &low, &high], output, |node| node);
            }
            other => {
                let allowed = "0 (NONE), 1 (RELU), 3 (RELU6)";
                return Err(refused(format!("{at}, activation"), other, allowed));
            }
        }
        Ok(())
    }

    /// Reads a 16-bit constant as one of 32 bits.
    fn dequantize(&mut self, operator: &Operator<'_>, at: &str) -> Result<(), TfliteError> {
        let input = match operator.inputs[..] {
            [input] => input,
            ref other => {
                return Err(refused(format!("{at}, number of inputs"), other.len(), "1"));
            }
        };
        let form = self.forms[input];
        let kind = self.model.tensors[input].kind;
        require(
            form == Form::Constant(input) && kind == Kind::F16,
            || (format!("{at}, input"), format!("{form:?} of {kind:?}")),
            "a constant of FLOAT16",
        )?;
        self.same_shape(input, operator.output, at)?;
        self.give(operator.output, form, at)
    }

    /// Returns the values of a constant.
    fn values(&mut self, tensor: usize, at: &str) -> Result<Vec<f32>, TfliteError> {
        let place = || format!("{at}, input tensor {tensor}");
        let Form::Constant(source) = self.forms[tensor] else {
            return Err(refused(place(), "computed", "a constant"));
        };
        let source = &self.model.tensors[source];
        let values: Vec<f32> = match source.kind {
            Kind::F32 => source
                .data
                .as_chunks()
                .0
                .iter()
                .map(|b| f32::from_le_bytes(*b))
                .collect(),
            Kind::F16 => source
                .data
                .as_chunks()
                .0
                .iter()
                .map(|b| half::f16::from_le_bytes(*b).to_f32())
                .collect(),
            Kind::I32 => return Err(refused(place(), "INT32", "FLOAT32, FLOAT16")),
        };
        self.weights += values.len();
        require(
            self.weights <= MAX_VALUES,
            || ("the number of weights".to_owned(), self.weights),
            &format!("at most {MAX_VALUES}"),
        )?;
        Ok(values)
    }

    fn convolve(&mut self, operator: &Operator<'_>, at: &str) -> Result<(), TfliteError> {
        let [input] = self.computed(operator, at)?;
        let &[_, weights, bias] = &operator.inputs[..] else {
            let found = operator.inputs.len();
            return Err(refused(format!("{at}, number of inputs"), found, "3"));
        };
        let form = self.forms[input];
        require(
            form == Form::Planes,
            || (format!("{at}, input tensor {input}"), format!("{form:?}")),
            "a picture",
        )?;
        let is_depthwise = operator.kind == OperatorKind::DepthwiseConv;
        let kernel = Kernel::of(self.model, [input, weights, bias], is_depthwise, at)?;
        let window = Window::of(operator.options, is_depthwise, at)?;
        let &[_, height, width, _] = &self.model.tensors[input].shape[..] else {
            return Err(refused(format!("{at}, input"), "no picture", "a picture"));
        };
        let (rows, down) = window.places(height, kernel.height, window.strides[0], at)?;
        let (columns, across) = window.places(width, kernel.width, window.strides[1], at)?;
        let right = [1, rows, columns, kernel.outputs];
        self.states(&self.model.tensors[operator.output].shape, &right, at)?;

        let [w, b] = ["weights", "bias"].map(|part| format!("{}_{part}", name(operator.output)));
        let values = kernel.planes(&self.values(weights, at)?);
        let shape = [kernel.outputs, kernel.inputs, kernel.height, kernel.width];
        self.constant(&floats(&w, &shape, &values));
        let values = self.values(bias, at)?;
        self.constant(&floats(&b, &[kernel.outputs], &values));
        let inputs = [&*name(input), &w, &b];
        self.activated(
            window.activation,
            "Conv",
            &inputs,
            operator.output,
            at,
            |node| {
                node.ints("kernel_shape", &sides(&shape[2..]))
                    .ints("strides", &sides(&window.strides))
                    .ints("pads", &sides(&[down.0, across.0, down.1, across.1]))
                    .int("group", kernel.groups as u64)
            },
        )?;
        self.give(operator.output, Form::Planes, at)
    }

    fn sum(&mut self, operator: &Operator<'_>, at: &str) -> Result<(), TfliteError> {
        let [one, other] = self.computed(operator, at)?;
        let form = self.forms[one];
        let second = self.forms[other];
        require(
            form == second,
            || (format!("{at}, inputs"), "of two orders of axes"),
            "two pictures, or none",
        )?;
        self.same_shape(one, other, at)?;
        self.same_shape(one, operator.output, at)?;
        let activation = option(operator.options, ADD_ACTIVATION)?;
        let inputs = [&*name(one), &*name(other)];
        self.activated(activation, "Add", &inputs, operator.output, at, |node| node)?;
        self.give(operator.output, form, at)
    }

    fn reshape(&mut self, operator: &Operator<'_>, at: &str) -> Result<(), TfliteError> {
        let [input] = self.computed(operator, at)?;
        let [from, to] = [input, operator.output].map(|i| &self.model.tensors[i].shape);
        let values = |shape: &[usize]| shape.iter().product::<usize>();
        require(
            values(from) == values(to),
            || (format!("{at}, shape"), format!("{to:?}")),
            &format!("as many values as {from:?}"),
        )?;
        let shape = format!("{}_shape", name(operator.output));
        let values: Vec<i64> = to.iter().map(|side| *side as i64).collect();
        self.constant(&integers(&shape, &[values.len() as u64], &values));
        let mut source = name(input);
        if self.forms[input] == Form::Planes {
            let rows = format!("{}_rows", name(operator.output));
            self.named_node("Transpose", &[&source], &rows, |node| {
                node.ints("perm", &[0, 2, 3, 1])
            });
            source = rows;
        }
        self.node("Reshape", &[&source, &shape], operator.output, |node| node);
        self.give(operator.output, Form::Rows, at)
    }

    /// Adds the means of each channel over the quarters of a tensor's places; describes them.
    fn means(&mut self, tensor: usize) -> Result<Message, TfliteError> {
        let place = || format!("features, tensor {tensor}");
        let form = self.forms.get(tensor).copied().unwrap_or(Form::Absent);
        require(
            form == Form::Planes,
            || (place(), format!("{form:?}")),
            "a picture that an operator computes",
        )?;
        let shape = &self.model.tensors[tensor].shape;
        let halves = match shape[..] {
            [1, height, width, _] if height % 2 == 0 && width % 2 == 0 => [height / 2, width / 2],
            _ => {
                return Err(refused(
                    place(),
                    format!("{shape:?}"),
                    "1 picture of even sides",
                ));
            }
        };
        let numbers = shape[3] * 4;
        let [quarters, length, output] =
            ["quarters", "length", "means"].map(|part| format!("{}_{part}", name(tensor)));
        self.named_node("AveragePool", &[&name(tensor)], &quarters, |node| {
            let halves = sides(&halves);
            node.ints("kernel_shape", &halves).ints("strides", &halves)
        });
        self.constant(&integers(&length, &[2], &[1, numbers as i64]));
        self.named_node("Reshape", &[&quarters, &length], &output, |node| node);
        Ok(tensor_info(&output, FLOAT, &[1, numbers as u64]))
    }

    /// Concatenates tensors along one axis.
    fn join(&mut self, operator: &Operator<'_>, at: &str) -> Result<(), TfliteError> {
        let [first] = self.computed(operator, at)?;
        let form = self.forms[first];
        let mut shape = self.model.tensors[first].shape.clone();
        let given = operator.options.map_or(Ok(0), |o| o.int(AXIS, 0))?;
        let counted = if given < 0 {
            given.saturating_add_unsigned(shape.len() as u32)
        } else {
            given
        };
        let axis = usize::try_from(counted)
            .ok()
            .filter(|axis| *axis < shape.len());
        let Some(axis) = axis else {
            let allowed = format!("an axis of {} tensors", shape.len());
            return Err(refused(format!("{at}, axis"), given, allowed));
        };
        let activation = option(operator.options, CONCAT_ACTIVATION)?;
        shape[axis] = 0;
        for input in &operator.inputs {
            let other = &self.model.tensors[*input].shape;
            let fits = self.forms[*input] == form
                && other.len() == shape.len()
                && (0..shape.len()).all(|i| i == axis || shape[i] == other[i]);
            require(
                fits,
                || (format!("{at}, input tensor {input}"), format!("{other:?}")),
                &format!(
                    "computed, and {:?} apart from axis {axis}",
                    self.model.tensors[first].shape
                ),
            )?;
            shape[axis] += other[axis];
        }
        self.states(&self.model.tensors[operator.output].shape, &shape, at)?;
        let axis = match form {
            // From rows, columns and channels to channels, rows and columns.
            Form::Planes => [0, 2, 3, 1].get(axis).copied().unwrap_or(axis),
            _ => axis,
        };
        let names: Vec<_> = operator.inputs.iter().map(|i| name(*i)).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        self.activated(activation, "Concat", &names, operator.output, at, |node| {
            node.int("axis", axis as u64)
        })?;
        self.give(operator.output, form, at)
    }
}

fn name(tensor: usize) -> String {
    format!("t{tensor}")
}

fn sides(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|side| *side as u64).collect()
}

fn floats(name: &str, shape: &[usize], values: &[f32]) -> Message {
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    constant(name, FLOAT, &sides(shape), &data)
}
