//! The networks of the fake TensorRT (`tests/tools/trt/fake`), run by rten behind a C ABI.
//!
//! - `nvinfer.cpp` declares the same functions; both are built by the tests and never shipped.
//! - The caller passes valid pointers, as that file does; one thread at a time uses a network.
//! - Inputs are float32, or int64 where the file has integers.

#![allow(
    unsafe_code,
    reason = "a library that C++ opens; the callers are in one file of ours"
)]

use std::ffi::{c_char, c_void};

use rten::{DataType, Dimension, Model, NodeId, Value, ValueOrView, ValueType};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, Tensor, TensorView};

/// Axes of a shape in the C ABI.
const AXES: usize = 8;

/// Bytes of a name in the C ABI.
const NAME_BYTES: usize = 256;

/// An opened file with the outputs of its last run.
struct Network {
    model: Model,
    outputs: Vec<Tensor<f32>>,
}

/// Opens an ONNX file; returns null for one that rten can't read.
///
/// # Safety
/// `data` has `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn wk_fake_open(data: *const c_void, len: usize) -> *mut Network {
    // SAFETY: the caller's.
    let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) };
    match Model::load(data.to_vec()) {
        Ok(model) => Box::into_raw(Box::new(Network {
            model,
            outputs: Vec::new(),
        })),
        Err(_) => std::ptr::null_mut(),
    }
}

/// Closes a network.
///
/// # Safety
/// `network` came from [`wk_fake_open`] and is not used again.
#[unsafe(no_mangle)]
unsafe extern "C" fn wk_fake_close(network: *mut Network) {
    // SAFETY: the caller's.
    drop(unsafe { Box::from_raw(network) });
}

fn has_integers(model: &Model, id: NodeId) -> bool {
    let dtype = model.node_info(id).and_then(|node| node.dtype());
    matches!(dtype, Some(ValueType::Tensor(DataType::Int32)))
}

/// Describes an input or output; -1 beyond the last one.
///
/// # Safety
/// The pointers are valid; `name` has 256 bytes and `dims` eight numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn wk_fake_describe(
    network: *mut Network,
    is_input: i32,
    index: i32,
    name: *mut c_char,
    dims: *mut i64,
    rank: *mut i32,
    is_int: *mut i32,
) -> i32 {
    // SAFETY: the caller's.
    let (network, name, dims) = unsafe {
        (
            &*network,
            std::slice::from_raw_parts_mut(name.cast::<u8>(), NAME_BYTES),
            std::slice::from_raw_parts_mut(dims, AXES),
        )
    };
    let model = &network.model;
    let ids = match is_input {
        0 => model.output_ids(),
        _ => model.input_ids(),
    };
    let Some(id) = usize::try_from(index).ok().and_then(|i| ids.get(i)) else {
        return -1;
    };
    let node = model.node_info(*id);
    let text = node
        .as_ref()
        .and_then(|node| node.name())
        .unwrap_or_default();
    for (to, from) in name.iter_mut().zip(text.bytes().chain([0])) {
        *to = from;
    }
    let shape = node.and_then(|node| node.shape()).unwrap_or_default();
    for (to, from) in dims.iter_mut().zip(&shape) {
        *to = match from {
            Dimension::Fixed(n) => i64::try_from(*n).unwrap_or(-1),
            Dimension::Symbolic(_) => -1,
        };
    }
    // SAFETY: the caller's.
    unsafe {
        *rank = i32::try_from(shape.len()).unwrap_or(0);
        *is_int = i32::from(has_integers(model, *id));
    }
    0
}

/// Runs a network; -1 if it can't.
///
/// # Safety
/// For each input there are a pointer to as many values as its shape has, eight lengths in `dims`,
/// and a rank.
#[unsafe(no_mangle)]
unsafe extern "C" fn wk_fake_run(
    network: *mut Network,
    inputs: *const *const c_void,
    dims: *const i64,
    ranks: *const i32,
) -> i32 {
    // SAFETY: the caller's.
    let network = unsafe { &mut *network };
    let ids = network.model.input_ids().to_vec();
    let mut fed: Vec<(NodeId, ValueOrView<'_>)> = Vec::new();
    for (i, id) in ids.iter().enumerate() {
        // SAFETY: the caller's, for each input.
        let (data, dims, rank) = unsafe {
            (
                *inputs.add(i),
                std::slice::from_raw_parts(dims.add(i * AXES), AXES),
                usize::try_from(*ranks.add(i)).unwrap_or(0),
            )
        };
        let shape: Vec<usize> = dims
            .iter()
            .take(rank)
            .map(|axis| usize::try_from(*axis).unwrap_or(0))
            .collect();
        let count = shape.iter().product();
        if has_integers(&network.model, *id) {
            // SAFETY: the caller's.
            let values = unsafe { std::slice::from_raw_parts(data.cast::<i64>(), count) };
            let values: Vec<i32> = values
                .iter()
                .map(|value| i32::try_from(*value).unwrap_or(0))
                .collect();
            let value = Value::from(Tensor::from_data(shape.as_slice(), values));
            fed.push((*id, value.into()));
        } else {
            // SAFETY: the caller's.
            let values = unsafe { std::slice::from_raw_parts(data.cast::<f32>(), count) };
            fed.push((*id, TensorView::from_data(shape.as_slice(), values).into()));
        }
    }
    let Ok(values) = network.model.run(fed, network.model.output_ids(), None) else {
        return -1;
    };
    let outputs = values.into_iter().map(|value| {
        let tensor: Result<Tensor<f32>, _> = value.try_into();
        tensor.unwrap_or_else(|_| NdTensor::from([0.0]).into_dyn())
    });
    network.outputs = outputs.collect();
    0
}

/// Returns the values of an output of the last run, valid until the next one.
///
/// # Safety
/// The pointers are valid; `dims` has eight numbers; a run has succeeded, and `index` exists.
#[unsafe(no_mangle)]
unsafe extern "C" fn wk_fake_output(
    network: *mut Network,
    index: i32,
    dims: *mut i64,
    rank: *mut i32,
) -> *const f32 {
    // SAFETY: the caller's.
    let (network, dims) = unsafe { (&mut *network, std::slice::from_raw_parts_mut(dims, AXES)) };
    let output = usize::try_from(index).ok();
    let Some(output) = output.and_then(|i| network.outputs.get_mut(i)) else {
        return std::ptr::null();
    };
    let contiguous = output.to_contiguous().to_tensor();
    *output = contiguous;
    for (to, from) in dims.iter_mut().zip(output.shape().iter()) {
        *to = i64::try_from(*from).unwrap_or(0);
    }
    // SAFETY: the caller's.
    unsafe { *rank = i32::try_from(output.ndim()).unwrap_or(0) };
    output.data().map_or(std::ptr::null(), <[f32]>::as_ptr)
}
