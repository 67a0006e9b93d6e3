//! Calls of CUDA's library `libcudart.so`: the device, its memory, and copies.
//!
//! - Device 0 is used.
//! - Memory and streams release themselves.
//! - Enumerations of CUDA are ints in its C ABI.

#![allow(
    unsafe_code,
    reason = "the library has a C ABI; every call of it is in this file"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use libloading::Library;
use parking_lot::Mutex;

use crate::failure::{Failure, Status};
use crate::symbols::functions;
use crate::types::Device;

/// Names of the library, the newest first.
const NAMES: [&str; 3] = ["libcudart.so.13", "libcudart.so.12", "libcudart.so"];

// Numbers of `cudaError`.
const OUT_OF_MEMORY: c_int = 2;
const NO_DEVICE: c_int = 100;

/// `cudaDeviceScheduleBlockingSync`: a thread that waits for the device sleeps, so that its core
/// decodes frames meanwhile.
const BLOCKING_SYNC: c_uint = 4;

/// `cudaDevAttrComputeCapabilityMajor` and `…Minor`.
const CAPABILITY: [c_int; 2] = [75, 76];

/// Bytes for a `cudaDeviceProp`; that of each version is about 1 KiB.
const PROPERTIES_BYTES: usize = 16 << 10;

functions!(Functions {
    error_string = "cudaGetErrorString": fn(c_int) -> *const c_char;
    device_count = "cudaGetDeviceCount": fn(*mut c_int) -> c_int;
    attribute = "cudaDeviceGetAttribute": fn(*mut c_int, c_int, c_int) -> c_int;
    memory = "cudaMemGetInfo": fn(*mut usize, *mut usize) -> c_int;
    set_flags = "cudaSetDeviceFlags": fn(c_uint) -> c_int;
    allocate = "cudaMalloc": fn(*mut *mut c_void, usize) -> c_int;
    free = "cudaFree": fn(*mut c_void) -> c_int;
    copy = "cudaMemcpyAsync": fn(*mut c_void, *const c_void, usize, c_int, *mut c_void) -> c_int;
    create_stream = "cudaStreamCreate": fn(*mut *mut c_void) -> c_int;
    synchronize = "cudaStreamSynchronize": fn(*mut c_void) -> c_int;
    destroy_stream = "cudaStreamDestroy": fn(*mut c_void) -> c_int;
});

/// The opened library, with a device.
pub struct Cuda {
    library: &'static Library,
    functions: Functions,
}

impl std::fmt::Debug for Cuda {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cuda")
    }
}

impl Cuda {
    /// Opens the library, once per process. A broken driver may crash or hang here.
    ///
    /// # Errors
    /// [`Status::Unavailable`] without the library, [`Status::Device`] without a device.
    pub fn open() -> Result<&'static Self, Failure> {
        static OPENED: Mutex<Option<&'static Cuda>> = Mutex::new(None);
        let mut opened = OPENED.lock();
        if let Some(cuda) = *opened {
            return Ok(cuda);
        }
        let cuda: &'static Self = Box::leak(Box::new(Self::find()?));
        *opened = Some(cuda);
        Ok(cuda)
    }

    /// Opens the first library that finds a device: the newest may need a newer driver. The failure
    /// is that of the last one that opens.
    fn find() -> Result<Self, Failure> {
        let none = format!("{} is not installed; install CUDA 12 or 13", NAMES[0]);
        let mut failure = Failure::new(Status::Unavailable, none);
        for name in NAMES {
            // SAFETY: the initialisers of NVIDIA's library have no precondition.
            let Ok(library) = (unsafe { Library::new(name) }) else {
                continue;
            };
            match Self::with_device(library) {
                Ok(cuda) => return Ok(cuda),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Uses a library, which then stays open: its driver may have threads.
    fn with_device(library: Library) -> Result<Self, Failure> {
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the types are those of `cuda_runtime_api.h` of CUDA 12 and 13.
        let functions = unsafe { Functions::find(library) };
        let missing = |e: libloading::Error| {
            let why = format!("{e}; install CUDA 12 or 13");
            Failure::new(Status::Unavailable, why)
        };
        let functions = functions.map_err(missing)?;
        let cuda = Self { library, functions };
        let mut count = 0;
        let no_device = "CUDA has no device";
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { (cuda.functions.device_count)(&raw mut count) };
        cuda.check(code, no_device)?;
        cuda.check(if count < 1 { NO_DEVICE } else { 0 }, no_device)?;
        // SAFETY: no precondition. A refusal costs processor time only.
        unsafe { (cuda.functions.set_flags)(BLOCKING_SYNC) };
        Ok(cuda)
    }

    /// Describes the device.
    ///
    /// # Errors
    /// [`Failure`] of CUDA.
    pub fn device(&self) -> Result<Device, Failure> {
        let (mut free, mut total) = (0, 0);
        let capability = CAPABILITY.map(|attribute| {
            let mut value = 0;
            // SAFETY: the pointer is valid for the call.
            let code = unsafe { (self.functions.attribute)(&raw mut value, attribute, 0) };
            self.check(code, "CUDA does not describe the device")
                .map(|()| value)
        });
        // SAFETY: the pointers are valid for the call.
        let code = unsafe { (self.functions.memory)(&raw mut free, &raw mut total) };
        self.check(code, "CUDA does not know its memory")?;
        let [major, minor] = capability;
        Ok(Device {
            name: self.device_name()?,
            capability: (major?, minor?),
            total_bytes: u64::try_from(total).unwrap_or(u64::MAX),
        })
    }

    fn device_name(&self) -> Result<String, Failure> {
        type GetProperties = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
        #[repr(align(16))]
        struct Properties([u8; PROPERTIES_BYTES]);
        // CUDA 12 has both, with two layouts; the name is the first member of each.
        let names = [
            &b"cudaGetDeviceProperties_v2\0"[..],
            b"cudaGetDeviceProperties\0",
        ];
        // SAFETY: both have this type.
        let found = |name| unsafe { self.library.get::<GetProperties>(name) }.ok();
        let missing = || {
            Failure::new(
                Status::Unavailable,
                "CUDA is too old; install CUDA 12 or 13",
            )
        };
        let get = names.into_iter().find_map(found).ok_or_else(missing)?;
        let mut properties = Box::new(Properties([0; PROPERTIES_BYTES]));
        // SAFETY: the buffer is larger than the struct of each version.
        let code = unsafe { get((&raw mut *properties).cast(), 0) };
        self.check(code, "CUDA does not describe the device")?;
        let name: Vec<u8> = properties
            .0
            .iter()
            .copied()
            .take_while(|b| *b != 0)
            .collect();
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    fn check(&self, code: c_int, sentence: &str) -> Result<(), Failure> {
        if code == 0 {
            return Ok(());
        }
        let status = match code {
            OUT_OF_MEMORY => Status::Memory,
            _ => Status::Device,
        };
        // SAFETY: the library has a constant text for every number.
        let why = unsafe { CStr::from_ptr((self.functions.error_string)(code)) };
        Err(Failure::new(
            status,
            format!("{sentence}: {}", why.to_string_lossy()),
        ))
    }
}

#[derive(Debug)]
pub(crate) struct DeviceMemory {
    cuda: &'static Cuda,
    address: *mut c_void,
    bytes: usize,
}

impl DeviceMemory {
    pub(crate) fn allocate(cuda: &'static Cuda, bytes: usize) -> Result<Self, Failure> {
        let mut address = null_mut();
        // A tensor without values still needs an address.
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { (cuda.functions.allocate)(&raw mut address, bytes.max(1)) };
        cuda.check(code, "CUDA has no memory for a tensor")?;
        Ok(Self {
            cuda,
            address,
            bytes,
        })
    }

    pub(crate) const fn address(&self) -> *mut c_void {
        self.address
    }

    /// Queues a copy from the host.
    ///
    /// # Safety
    /// `host` has as many bytes as this memory, until the stream is synchronized.
    pub(crate) unsafe fn fill(
        &mut self,
        host: *const c_void,
        stream: &Stream,
    ) -> Result<(), Failure> {
        // `cudaMemcpyHostToDevice`
        const TO_DEVICE: c_int = 1;
        let copy = self.cuda.functions.copy;
        // SAFETY: this memory has its bytes, and the caller's has them too.
        let code = unsafe { copy(self.address, host, self.bytes, TO_DEVICE, stream.raw) };
        self.cuda.check(code, "CUDA can't copy a tensor")
    }

    /// Queues a copy to the host.
    ///
    /// # Safety
    /// `host` has as many bytes as this memory, and nothing uses them, until the stream is
    /// synchronized.
    pub(crate) unsafe fn read(&self, host: *mut c_void, stream: &Stream) -> Result<(), Failure> {
        // `cudaMemcpyDeviceToHost`
        const TO_HOST: c_int = 2;
        let copy = self.cuda.functions.copy;
        // SAFETY: this memory has its bytes, and the caller's has them too.
        let code = unsafe { copy(host, self.address, self.bytes, TO_HOST, stream.raw) };
        self.cuda.check(code, "CUDA can't copy a tensor")
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: it was allocated, and is freed once.
        unsafe { (self.cuda.functions.free)(self.address) };
    }
}

/// A queue of work of the device.
#[derive(Debug)]
pub(crate) struct Stream {
    cuda: &'static Cuda,
    raw: *mut c_void,
}

impl Stream {
    pub(crate) fn create(cuda: &'static Cuda) -> Result<Self, Failure> {
        let mut raw = null_mut();
        // SAFETY: the pointer is valid for the call.
        let code = unsafe { (cuda.functions.create_stream)(&raw mut raw) };
        cuda.check(code, "CUDA creates no stream")?;
        Ok(Self { cuda, raw })
    }

    pub(crate) const fn raw(&self) -> *mut c_void {
        self.raw
    }

    /// Waits until everything in the queue is done.
    pub(crate) fn synchronize(&self) -> Result<(), Failure> {
        // SAFETY: the stream exists.
        let code = unsafe { (self.cuda.functions.synchronize)(self.raw) };
        self.cuda.check(code, "the device failed")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream was created, and is destroyed once.
        unsafe { (self.cuda.functions.destroy_stream)(self.raw) };
    }
}
