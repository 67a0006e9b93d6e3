//! Calls of `libwk_trt.so`; the only file of this crate with unsafe code.
//!
//! - The library stays open until the process ends: CUDA keeps threads of its own.
//! - The types are those of `include/wk_trt.h`, whose number [`ABI`] repeats.
//! - A panic of a callback cancels the build; it does not cross into C++.

#![allow(
    unsafe_code,
    reason = "the library has a C ABI; every call is in this file"
)]

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null, null_mut};

use libloading::Library;
use parking_lot::Mutex;

use crate::failure::{Failure, Status};
use crate::types::{Answers, BuildOptions, Device, Product, TensorInfo, Values, Versions};

/// `WK_TRT_ABI` of the header.
const ABI: i32 = 1;

/// `WK_TRT_MAX_AXES` of the header.
const MAX_AXES: usize = 8;

/// `WK_TRT_NAME` of the header.
const NAME_BYTES: usize = 256;

/// Bytes of the longest sentence of the library.
const SENTENCE_BYTES: usize = 1024;

#[repr(C)]
struct RawDevice {
    name: [c_char; NAME_BYTES],
    major: i32,
    minor: i32,
    total_bytes: u64,
    free_bytes: u64,
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
    progress: Option<unsafe extern "C" fn(*mut c_void, *const c_char, i32, i32) -> i32>,
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

/// Address and bytes of the values.
fn buffer(values: &mut Values) -> (*mut c_void, usize) {
    match values {
        Values::Floats(v) => (v.as_mut_ptr().cast(), size_of_val(v.as_slice())),
        Values::Int32(v) => (v.as_mut_ptr().cast(), size_of_val(v.as_slice())),
        Values::Int64(v) => (v.as_mut_ptr().cast(), size_of_val(v.as_slice())),
    }
}

type Last = unsafe extern "C" fn(*mut c_char, usize) -> usize;

/// The opened library.
pub struct Shim {
    version: unsafe extern "C" fn(*mut Versions) -> i32,
    probe: unsafe extern "C" fn(*mut RawDevice) -> i32,
    build: unsafe extern "C" fn(*const c_void, usize, *const RawOptions) -> i32,
    open: unsafe extern "C" fn(*const c_void, usize, *mut *mut c_void) -> i32,
    tensors: unsafe extern "C" fn(*const c_void) -> i32,
    tensor: unsafe extern "C" fn(*const c_void, i32, *mut RawTensor) -> i32,
    set_shape: unsafe extern "C" fn(*mut c_void, i32, *const i64, i32) -> i32,
    bind: unsafe extern "C" fn(*mut c_void, i32, *mut c_void, usize) -> i32,
    run: unsafe extern "C" fn(*mut c_void) -> i32,
    close: unsafe extern "C" fn(*mut c_void),
    last_error: Last,
}

impl std::fmt::Debug for Shim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shim")
    }
}

impl Shim {
    /// Opens the library, once per process and path.
    ///
    /// # Errors
    /// [`Status::Unavailable`]: it can't be opened, or has another ABI.
    pub fn open(path: &Path) -> Result<&'static Self, Failure> {
        static OPENED: Mutex<Vec<(PathBuf, &'static Shim)>> = Mutex::new(Vec::new());
        let mut opened = OPENED.lock();
        if let Some((_, shim)) = opened.iter().find(|(known, _)| known == path) {
            return Ok(shim);
        }
        let shim: &'static Self = Box::leak(Box::new(Self::load(path)?));
        opened.push((path.to_owned(), shim));
        Ok(shim)
    }

    fn load(path: &Path) -> Result<Self, Failure> {
        let failed = |why: String| Failure::new(Status::Unavailable, why);
        let shown = path.display();
        // SAFETY: the file is the operator's libwk_trt.so, whose initialisers only construct a
        // mutex. Its other code runs after the check of the ABI.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|e| failed(format!("{shown} can't be opened: {e}")))?;
        let library = Box::leak(Box::new(library));
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
        // SAFETY: with this ABI the functions have the types of the fields, which repeat the
        // header. The library is never closed, so the pointers stay valid.
        unsafe {
            Ok(Self {
                version: *library.get(b"wk_trt_version\0").map_err(missing)?,
                probe: *library.get(b"wk_trt_probe\0").map_err(missing)?,
                build: *library.get(b"wk_trt_build\0").map_err(missing)?,
                open: *library.get(b"wk_trt_open\0").map_err(missing)?,
                tensors: *library.get(b"wk_trt_tensors\0").map_err(missing)?,
                tensor: *library.get(b"wk_trt_tensor\0").map_err(missing)?,
                set_shape: *library.get(b"wk_trt_set_shape\0").map_err(missing)?,
                bind: *library.get(b"wk_trt_bind\0").map_err(missing)?,
                run: *library.get(b"wk_trt_run\0").map_err(missing)?,
                close: *library.get(b"wk_trt_close\0").map_err(missing)?,
                last_error: *library.get(b"wk_trt_last_error\0").map_err(missing)?,
            })
        }
    }

    /// Opens TensorRT and returns its version.
    ///
    /// # Errors
    /// [`Status::Unavailable`]: it is missing, or its major version is not that of the headers.
    pub fn version(&self) -> Result<Versions, Failure> {
        let mut versions = Versions::default();
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { (self.version)(&raw mut versions) };
        self.check(code).map(|()| versions)
    }

    /// Describes the device. A broken driver may crash or hang here.
    ///
    /// # Errors
    /// [`Failure`]: a library or the device is missing.
    pub fn probe(&self) -> Result<Device, Failure> {
        let mut raw = RawDevice {
            name: [0; NAME_BYTES],
            major: 0,
            minor: 0,
            total_bytes: 0,
            free_bytes: 0,
        };
        // SAFETY: the pointer is valid for the call.
        self.check(unsafe { (self.probe)(&raw mut raw) })?;
        Ok(Device {
            name: text(&raw.name),
            capability: (raw.major, raw.minor),
            total_bytes: raw.total_bytes,
            free_bytes: raw.free_bytes,
        })
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
        let timings = options.timing_cache;
        let mut user: &mut dyn Answers = answers;
        let raw = RawOptions {
            workspace_bytes: options.workspace_bytes,
            level: options.level,
            reserved: 0,
            timing_cache: match timings {
                [] => null(),
                timings => timings.as_ptr().cast(),
            },
            timing_cache_len: timings.len(),
            user: (&raw mut user).cast(),
            shapes: on_shapes,
            progress: Some(on_progress),
            sink: on_product,
        };
        // SAFETY: the slices and `user` outlive the call. The library calls back one at a time, and
        // the callbacks are the only users of `user` meanwhile.
        self.check(unsafe { (self.build)(onnx.as_ptr().cast(), onnx.len(), &raw const raw) })
    }

    fn check(&self, code: i32) -> Result<(), Failure> {
        if code == 0 {
            return Ok(());
        }
        let mut sentence: [c_char; SENTENCE_BYTES] = [0; SENTENCE_BYTES];
        // SAFETY: the buffer is valid for its length; the library writes its NUL too.
        unsafe { (self.last_error)(sentence.as_mut_ptr(), sentence.len()) };
        let words = text(&sentence);
        let words: Vec<&str> = words.split_whitespace().collect();
        Err(Failure::new(Status::from_code(code), words.join(" ")))
    }
}

/// Calls a method of the [`Answers`] behind `user`; a panic becomes `None`.
///
/// # Safety
/// `user` is the pointer that [`Shim::build`] made, and no other call uses it meanwhile.
unsafe fn ask<T>(user: *mut c_void, call: impl FnOnce(&mut dyn Answers) -> T) -> Option<T> {
    // SAFETY: the caller's.
    let answers = unsafe { &mut *user.cast::<&mut dyn Answers>() };
    catch_unwind(AssertUnwindSafe(|| call(*answers))).ok()
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
    let shapes = unsafe { ask(user, |answers| answers.fix_shapes(&infos)) };
    let Some(shapes) = shapes.flatten() else {
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
    // SAFETY: `user` comes from `Shim::build`; the library holds a mutex over this call.
    let goes_on = unsafe { ask(user, |answers| answers.progress(&phase, step, steps)) };
    i32::from(goes_on != Some(true))
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
    let taken = unsafe { ask(user, |answers| answers.take(product, bytes)) };
    i32::from(taken != Some(true))
}

/// A network on the device, with its buffers on the host.
#[derive(Debug)]
pub struct Engine {
    shim: &'static Shim,
    raw: NonNull<c_void>,
    tensors: Vec<TensorInfo>,
    /// One per tensor, after [`Self::allocate`].
    values: Vec<Values>,
}

// SAFETY: the library binds an engine to no thread, and `&mut self` keeps its calls apart.
unsafe impl Send for Engine {}

impl Engine {
    /// Deserialises an engine.
    ///
    /// # Errors
    /// [`Status::Engine`] for one that is damaged, or of another version or device.
    pub fn open(shim: &'static Shim, blob: &[u8]) -> Result<Self, Failure> {
        let mut raw = null_mut();
        // SAFETY: the slice is valid for the call, which copies what it keeps.
        shim.check(unsafe { (shim.open)(blob.as_ptr().cast(), blob.len(), &raw mut raw) })?;
        let none = || Failure::new(Status::Engine, "the library returned no engine");
        let raw = NonNull::new(raw).ok_or_else(none)?;
        let mut engine = Self {
            shim,
            raw,
            tensors: Vec::new(),
            values: Vec::new(),
        };
        engine.describe()?;
        Ok(engine)
    }

    /// Inputs and outputs. Outputs have their lengths after [`Self::allocate`].
    #[must_use]
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Fixes the shape of an input.
    ///
    /// # Errors
    /// [`Status::Argument`]: the engine was not built for it.
    pub fn set_shape(&mut self, index: usize, shape: &[usize]) -> Result<(), Failure> {
        let code = self.index(index)?;
        let dims: Vec<i64> = shape
            .iter()
            .map(|axis| i64::try_from(*axis).unwrap_or(-1))
            .collect();
        let rank = i32::try_from(dims.len()).unwrap_or(i32::MAX);
        if dims.len() > MAX_AXES {
            return Err(Failure::new(Status::Argument, "an input has too many axes"));
        }
        // SAFETY: the engine is open, the index exists, and `dims` has `rank` numbers.
        let code = unsafe { (self.shim.set_shape)(self.raw.as_ptr(), code, dims.as_ptr(), rank) };
        self.shim.check(code)
    }

    /// Creates the buffers, once every input has its shape.
    ///
    /// # Errors
    /// A tensor without fixed lengths, or of another type than float32, int32 and int64.
    pub fn allocate(&mut self) -> Result<(), Failure> {
        self.describe()?;
        self.values = self
            .tensors
            .iter()
            .map(Values::zeros)
            .collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Values of a tensor, after [`Self::allocate`].
    #[must_use]
    pub fn values(&self, index: usize) -> Option<&Values> {
        self.values.get(index)
    }

    pub fn values_mut(&mut self, index: usize) -> Option<&mut Values> {
        self.values.get_mut(index)
    }

    /// Runs the network on the values of its inputs; then its outputs have theirs.
    ///
    /// # Errors
    /// [`Failure`] of the device; the engine may be unusable.
    pub fn run(&mut self) -> Result<(), Failure> {
        for (index, values) in (0_i32..).zip(&mut self.values) {
            let (pointer, bytes) = buffer(values);
            // SAFETY: the engine is open, the index exists, and the buffer has `bytes` bytes. It
            // stays where it is until `run` returns, which is the last to use the pointer.
            let code = unsafe { (self.shim.bind)(self.raw.as_ptr(), index, pointer, bytes) };
            self.shim.check(code)?;
        }
        // SAFETY: the engine is open; tensors without a buffer are refused.
        self.shim
            .check(unsafe { (self.shim.run)(self.raw.as_ptr()) })
    }

    fn describe(&mut self) -> Result<(), Failure> {
        // SAFETY: the engine is open.
        let count = unsafe { (self.shim.tensors)(self.raw.as_ptr()) };
        self.tensors.clear();
        for index in 0..count {
            let mut raw = RawTensor {
                name: [0; NAME_BYTES],
                is_input: 0,
                data_type: 0,
                rank: 0,
                reserved: 0,
                dims: [0; MAX_AXES],
            };
            // SAFETY: the engine is open, the index exists, and the pointer is valid.
            let code = unsafe { (self.shim.tensor)(self.raw.as_ptr(), index, &raw mut raw) };
            self.shim.check(code)?;
            self.tensors.push(tensor_info(&raw));
        }
        Ok(())
    }

    fn index(&self, index: usize) -> Result<i32, Failure> {
        let known = self
            .tensors
            .get(index)
            .and_then(|_| i32::try_from(index).ok());
        known.ok_or_else(|| Failure::new(Status::Argument, "there is no such tensor"))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: the engine is open, and nothing uses it afterwards.
        unsafe { (self.shim.close)(self.raw.as_ptr()) };
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
        let failure = Shim::open(&path).unwrap_err();
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
        ] {
            assert!(header.contains(&line), "{line}");
        }
    }
}
