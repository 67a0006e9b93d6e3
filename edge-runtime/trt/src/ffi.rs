//! Calls of `libwk_trt.so`.
//!
//! - The types are those of `include/wk_trt.h`, whose number [`ABI`] repeats.
//! - A panic of a callback cancels the build; it does not cross into C++.

#![allow(
    unsafe_code,
    reason = "the library has a C ABI; every call is in this file"
)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

use libloading::Library;
use parking_lot::Mutex;

use crate::cuda::{Cuda, DeviceMemory, Stream};
use crate::failure::{Failure, Status};
use crate::log::{self, Receiver};
use crate::symbols::functions;
use crate::types::{Answers, BuildOptions, Product, TensorInfo, Values, Version};

/// `WK_TRT_ABI` of the header.
const ABI: i32 = 3;

/// `WK_TRT_MAX_AXES` of the header.
const MAX_AXES: usize = 8;

/// `WK_TRT_NAME` of the header.
const NAME_BYTES: usize = 256;

#[repr(C)]
#[derive(Default)]
struct RawVersions {
    headers: i32,
    library: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawTensor {
    name: [c_char; NAME_BYTES],
    is_input: i32,
    data_type: i32,
    rank: i32,
    reserved: i32,
    dims: [i64; MAX_AXES],
}

#[repr(C)]
struct RawOptions {
    workspace_bytes: u64,
    level: i32,
    reserved: i32,
    timing_cache: *const c_void,
    timing_cache_len: usize,
    user: *mut c_void,
    shapes: unsafe extern "C" fn(*mut c_void, *mut RawTensor, i32) -> i32,
    progress: unsafe extern "C" fn(*mut c_void, *const c_char, i32, i32) -> i32,
    sink: unsafe extern "C" fn(*mut c_void, i32, *const c_void, usize) -> i32,
}

fn tensor_info(raw: &RawTensor) -> TensorInfo {
    let rank = usize::try_from(raw.rank).unwrap_or(0);
    let axes = raw.dims.iter().take(rank).map(|d| usize::try_from(*d).ok());
    TensorInfo {
        name: text(&raw.name),
        is_input: raw.is_input != 0,
        data_type: raw.data_type,
        axes: axes.collect(),
    }
}

type RawLog = unsafe extern "C" fn(i32, *const c_char);

functions!(Functions {
    start = "wk_trt_start": fn(RawLog, *mut RawVersions) -> i32;
    build = "wk_trt_build": fn(*const c_void, usize, *const RawOptions) -> i32;
    open = "wk_trt_open": fn(*const c_void, usize, *mut *mut c_void) -> i32;
    tensors = "wk_trt_tensors": fn(*const c_void) -> i32;
    tensor = "wk_trt_tensor": fn(*const c_void, i32, *mut RawTensor);
    set_shape = "wk_trt_set_shape": fn(*mut c_void, i32, *const i64, i32) -> i32;
    bind = "wk_trt_bind": fn(*mut c_void, i32, *mut c_void) -> i32;
    enqueue = "wk_trt_enqueue": fn(*mut c_void, *mut c_void) -> i32;
    close = "wk_trt_close": fn(*mut c_void);
});

/// The opened library, with a TensorRT of its major version.
pub struct Shim {
    functions: Functions,
    version: Version,
}

impl std::fmt::Debug for Shim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shim")
    }
}

impl Shim {
    /// Opens the library and TensorRT, once per process and path. The first receiver of a process
    /// gets all messages of TensorRT.
    ///
    /// # Errors
    /// [`Status::Unavailable`]: one of them is missing, or they do not fit together.
    pub fn open(path: &Path, receiver: Receiver) -> Result<&'static Self, Failure> {
        static OPENED: Mutex<Vec<(PathBuf, &'static Shim)>> = Mutex::new(Vec::new());
        let mut opened = OPENED.lock();
        if let Some((_, shim)) = opened.iter().find(|(known, _)| known == path) {
            return Ok(shim);
        }
        log::set_receiver(receiver);
        let shim: &'static Self = Box::leak(Box::new(Self::load(path)?));
        opened.push((path.to_owned(), shim));
        Ok(shim)
    }

    fn load(path: &Path) -> Result<Self, Failure> {
        let failed = |why: String| Failure::new(Status::Unavailable, why);
        let shown = path.display();
        // SAFETY: the file is the operator's libwk_trt.so, whose initialisers only construct its
        // log. Its other code runs after the check of the ABI.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|e| failed(format!("{shown} can't be opened: {e}")))?;
        let library: &'static Library = Box::leak(Box::new(library));
        let missing = |e: libloading::Error| failed(format!("{shown} is not a libwk_trt.so: {e}"));
        // SAFETY: `wk_trt_abi` has this type in every version of the header.
        let abi = unsafe { library.get::<unsafe extern "C" fn() -> i32>(b"wk_trt_abi\0") };
        // SAFETY: it has no precondition.
        let abi = unsafe { abi.map_err(missing)?() };
        if abi != ABI {
            return Err(failed(format!(
                "{shown} has ABI {abi}, {ABI} is needed; build it again with this version's \
                 edge-runtime/trt/build"
            )));
        }
        // SAFETY: with this ABI the functions have the types of the header, which these repeat.
        let functions = unsafe { Functions::find(library).map_err(missing)? };
        let mut raw = RawVersions::default();
        // SAFETY: the pointer is valid for the call; the log takes messages from any thread.
        log::call(None, || unsafe {
            (functions.start)(on_message, &raw mut raw)
        })?;
        let version = Version::from_number(raw.library);
        version.check(Version::from_number(raw.headers))?;
        Ok(Self { functions, version })
    }

    /// The version of TensorRT.
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Builds an engine out of an ONNX file. Takes minutes.
    ///
    /// # Errors
    /// [`Failure`]; a refusal of `answers` is [`Status::Cancelled`].
    pub fn build(
        &self,
        onnx: &[u8],
        options: &BuildOptions<'_>,
        answers: &mut dyn Answers,
    ) -> Result<(), Failure> {
        Cuda::open()?;
        let timings = options.timing_cache;
        let build = Mutex::new(Build {
            answers,
            steps: HashMap::new(),
            is_cancelled: false,
        });
        let raw = RawOptions {
            workspace_bytes: options.workspace_bytes,
            level: options.level,
            reserved: 0,
            timing_cache: match timings {
                [] => null(),
                timings => timings.as_ptr().cast(),
            },
            timing_cache_len: timings.len(),
            user: (&raw const build).cast_mut().cast(),
            shapes: on_shapes,
            progress: on_progress,
            sink: on_product,
        };
        let built = log::call(Some(&options.name.into()), || {
            // SAFETY: the slices and `build` outlive the call.
            unsafe { (self.functions.build)(onnx.as_ptr().cast(), onnx.len(), &raw const raw) }
        });
        built.map_err(|failure| build.into_inner().explain(failure))
    }
}

/// Takes a message of the log.
unsafe extern "C" fn on_message(level: i32, text: *const c_char) {
    // SAFETY: the library passes a C string that it lends for this call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    // A panic does not cross into C++; the message is lost.
    catch_unwind(|| log::write(level, &text)).ok();
}

/// A build that runs; the callbacks have it as `user`.
struct Build<'a> {
    answers: &'a mut dyn Answers,
    /// Steps of each phase that has begun.
    steps: HashMap<String, i32>,
    is_cancelled: bool,
}

impl Build<'_> {
    /// Names the cause that the library does not know.
    fn explain(&self, failure: Failure) -> Failure {
        let is_memory = failure.message.to_lowercase().contains("memory");
        match failure.status {
            _ if self.is_cancelled => Failure::new(Status::Cancelled, "the build was cancelled"),
            Status::Model if is_memory => Failure::new(Status::Memory, failure.message),
            _ => failure,
        }
    }
}

/// Asks the build behind `user`. The library may ask from several threads at once. A panic cancels
/// the build.
///
/// # Safety
/// `user` is the pointer that [`Shim::build`] made.
unsafe fn ask<T>(user: *mut c_void, call: impl FnOnce(&mut Build<'_>) -> Option<T>) -> Option<T> {
    // SAFETY: the caller's.
    let build = unsafe { &*user.cast::<Mutex<Build<'_>>>() };
    let mut build = build.lock();
    let answer = catch_unwind(AssertUnwindSafe(|| call(&mut build)));
    let answer = answer.ok().flatten();
    build.is_cancelled |= answer.is_none();
    answer
}

unsafe extern "C" fn on_shapes(user: *mut c_void, inputs: *mut RawTensor, count: i32) -> i32 {
    let inputs: &mut [RawTensor] = match usize::try_from(count) {
        // SAFETY: the library passes `count` inputs that it lends for this call.
        Ok(count @ 1..) => unsafe { std::slice::from_raw_parts_mut(inputs, count) },
        // Without inputs the pointer may be null.
        _ => &mut [],
    };
    let infos: Vec<TensorInfo> = inputs.iter().map(tensor_info).collect();
    // SAFETY: `user` comes from `Shim::build`.
    let shapes = unsafe { ask(user, |build| build.answers.fix_shapes(&infos)) };
    let Some(shapes) = shapes else {
        return 1;
    };
    for (input, shape) in inputs.iter_mut().zip(&shapes) {
        for (axis, length) in input.dims.iter_mut().zip(shape) {
            *axis = i64::try_from(*length).unwrap_or(-1);
        }
    }
    0
}

unsafe extern "C" fn on_progress(
    user: *mut c_void,
    phase: *const c_char,
    step: i32,
    steps: i32,
) -> i32 {
    // SAFETY: the library passes a C string that it lends for this call.
    let phase = unsafe { CStr::from_ptr(phase) }.to_string_lossy();
    let progress = |build: &mut Build<'_>| {
        let known = build.steps.entry(phase.to_string()).or_default();
        if steps > 0 {
            *known = steps;
        }
        build.answers.progress(&phase, step, *known).then_some(())
    };
    // SAFETY: `user` comes from `Shim::build`.
    let goes_on = unsafe { ask(user, progress) };
    i32::from(goes_on.is_none())
}

unsafe extern "C" fn on_product(
    user: *mut c_void,
    product: i32,
    data: *const c_void,
    len: usize,
) -> i32 {
    let product = match product {
        0 => Product::Engine,
        _ => Product::TimingCache,
    };
    let bytes: &[u8] = match len {
        // Without bytes the pointer may be null.
        0 => &[],
        // SAFETY: the library passes `len` bytes that it lends for this call.
        len => unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) },
    };
    // SAFETY: `user` comes from `Shim::build`.
    let taken = unsafe {
        ask(user, |build| {
            build.answers.take(product, bytes).then_some(())
        })
    };
    i32::from(taken.is_none())
}

/// A network on the device, with its buffers there and on the host.
#[derive(Debug)]
pub struct Engine {
    shim: &'static Shim,
    name: Arc<str>,
    raw: NonNull<c_void>,
    tensors: Vec<TensorInfo>,
    /// One per tensor, after [`Self::allocate`].
    buffers: Vec<Buffer>,
    stream: Stream,
}

/// Values of a tensor on the host, and as much memory of the device.
#[derive(Debug)]
struct Buffer {
    values: Values,
    memory: DeviceMemory,
}

// SAFETY: TensorRT and CUDA bind an engine, memory and streams to no thread, and `&mut self` keeps
// the calls apart.
unsafe impl Send for Engine {}

impl Engine {
    /// Deserialises an engine. Messages of TensorRT about it get `name`.
    ///
    /// # Errors
    /// [`Status::Engine`] for one that is damaged, or of another version or device.
    pub fn open(shim: &'static Shim, blob: &[u8], name: &str) -> Result<Self, Failure> {
        let stream = Stream::create(Cuda::open()?)?;
        let name = name.into();
        let mut raw = null_mut();
        log::call(Some(&name), || {
            // SAFETY: the slice is valid for the call, which copies what it keeps.
            unsafe { (shim.functions.open)(blob.as_ptr().cast(), blob.len(), &raw mut raw) }
        })?;
        let none = || Failure::new(Status::Engine, "the library returned no engine");
        let raw = NonNull::new(raw).ok_or_else(none)?;
        let mut engine = Self {
            shim,
            name,
            raw,
            tensors: Vec::new(),
            buffers: Vec::new(),
            stream,
        };
        engine.describe();
        Ok(engine)
    }

    /// Inputs and outputs. Outputs have their lengths after [`Self::allocate`].
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Fixes the shape of an input. Buffers of other shapes are freed: [`Self::run`] fails until
    /// [`Self::allocate`].
    ///
    /// # Errors
    /// [`Status::Argument`]: the engine was not built for it.
    pub fn set_shape(&mut self, index: usize, shape: &[usize]) -> Result<(), Failure> {
        let refused = |why: &str| Failure::new(Status::Argument, why);
        let index = match self.tensors.get(index) {
            Some(_) => i32::try_from(index).ok(),
            None => None,
        };
        let index = index.ok_or_else(|| refused("there is no such tensor"))?;
        if shape.len() > MAX_AXES {
            return Err(refused("an input has too many axes"));
        }
        self.buffers.clear();
        let dims = shape.iter().map(|axis| i64::try_from(*axis).unwrap_or(-1));
        let dims: Vec<i64> = dims.collect();
        let rank = i32::try_from(dims.len()).unwrap_or_default();
        let (raw, set_shape) = (self.raw.as_ptr(), self.shim.functions.set_shape);
        log::call(Some(&self.name), || {
            // SAFETY: the engine is open, the index exists, and `dims` has `rank` numbers.
            unsafe { set_shape(raw, index, dims.as_ptr(), rank) }
        })
    }

    /// Creates the buffers, once every input has its shape.
    ///
    /// # Errors
    /// A tensor without fixed lengths, or of another type than float32, int32 and int64, and a lack
    /// of memory.
    pub fn allocate(&mut self) -> Result<(), Failure> {
        self.describe();
        self.buffers.clear();
        let cuda = Cuda::open()?;
        for (index, info) in (0_i32..).zip(&self.tensors) {
            let mut values = Values::zeros(info)?;
            let memory = DeviceMemory::allocate(cuda, values.buffer().1)?;
            let (raw, bind) = (self.raw.as_ptr(), self.shim.functions.bind);
            log::call(Some(&self.name), || {
                // SAFETY: the engine is open, the index exists, and the memory has the bytes of
                // the tensor. It is freed after the engine is closed, or replaced by another call.
                unsafe { bind(raw, index, memory.address()) }
            })?;
            self.buffers.push(Buffer { values, memory });
        }
        Ok(())
    }

    /// Values of a tensor, after [`Self::allocate`].
    pub fn values(&self, index: usize) -> Option<&Values> {
        Some(&self.buffers.get(index)?.values)
    }

    pub fn values_mut(&mut self, index: usize) -> Option<&mut Values> {
        Some(&mut self.buffers.get_mut(index)?.values)
    }

    /// Runs the network on the values of its inputs; then its outputs have theirs.
    ///
    /// # Errors
    /// [`Failure`] of the device; the engine may be unusable.
    pub fn run(&mut self) -> Result<(), Failure> {
        if self.buffers.len() != self.tensors.len() {
            return Err(Failure::new(Status::Argument, "a tensor has no buffer"));
        }
        let queued = self.queue();
        // Copies may be in flight after a failure too. From here on nothing uses the values.
        let ended = self.stream.synchronize();
        queued.and(ended)
    }

    fn queue(&mut self) -> Result<(), Failure> {
        let stream = &self.stream;
        for (info, Buffer { values, memory }) in self.tensors.iter().zip(&mut self.buffers) {
            if info.is_input {
                // SAFETY: the memory has the bytes of the values, which `run` keeps until the
                // stream is synchronized.
                unsafe { memory.fill(values.buffer().0, stream)? };
            }
        }
        let (raw, enqueue) = (self.raw.as_ptr(), self.shim.functions.enqueue);
        // SAFETY: the engine and the stream are open, and every tensor has its memory.
        log::call(Some(&self.name), || unsafe { enqueue(raw, stream.raw()) })?;
        for (info, Buffer { values, memory }) in self.tensors.iter().zip(&mut self.buffers) {
            if !info.is_input {
                // SAFETY: as above; `run` has the only reference to the values.
                unsafe { memory.read(values.buffer().0, stream)? };
            }
        }
        Ok(())
    }

    fn describe(&mut self) {
        let (raw, functions) = (self.raw.as_ptr(), &self.shim.functions);
        // SAFETY: the engine is open.
        let count = unsafe { (functions.tensors)(raw) };
        let describe = |index| {
            let mut info = RawTensor {
                name: [0; NAME_BYTES],
                is_input: 0,
                data_type: 0,
                rank: 0,
                reserved: 0,
                dims: [0; MAX_AXES],
            };
            // SAFETY: the engine is open, the index exists, and the pointer is valid.
            unsafe { (functions.tensor)(raw, index, &raw mut info) };
            tensor_info(&info)
        };
        self.tensors = (0..count).map(describe).collect();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: the engine is open, and nothing uses it afterwards.
        unsafe { (self.shim.functions.close)(self.raw.as_ptr()) };
    }
}

/// The text of a C string that ends within its buffer.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| c.to_ne_bytes()[0])
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't set up has failed")]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_no_library_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libwk_trt.so");
        std::fs::write(&path, "not a library").unwrap();
        let failure = Shim::open(&path, |_| {}).unwrap_err();
        assert_eq!(failure.status, Status::Unavailable);
        assert!(
            failure.message.contains("libwk_trt.so can't be opened"),
            "{failure}"
        );
    }

    #[test]
    fn header_and_this_file_have_the_same_numbers() {
        let header = include_str!("../include/wk_trt.h");
        for line in [
            format!("#define WK_TRT_ABI {ABI}\n"),
            format!("#define WK_TRT_MAX_AXES {MAX_AXES}\n"),
            format!("#define WK_TRT_NAME {NAME_BYTES}\n"),
            format!("#define WK_TRT_SENTENCE {}\n", log::SENTENCE),
        ] {
            assert!(header.contains(&line), "{line}");
        }
    }
}
