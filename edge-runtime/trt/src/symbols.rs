//! One table of functions for a library that is opened with dlopen.
//!
//! - A library stays open until the process ends: TensorRT and CUDA keep their own threads.

#![allow(
    unsafe_code,
    reason = "functions found by name have the types that their header gives them"
)]

/// Declares a struct with a pointer to each function of a library, and `find`, which fills it.
macro_rules! functions {
    ($struct:ident {
        $($field:ident = $name:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*
    }) => {
        struct $struct { $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl $struct {
            /// Finds all functions.
            ///
            /// # Safety
            /// The functions have these types.
            unsafe fn find(
                library: &'static libloading::Library,
            ) -> Result<Self, libloading::Error> {
                // SAFETY: the caller's; the library is never closed.
                unsafe {
                    Ok(Self { $($field: *library.get(concat!($name, "\0").as_bytes())?,)* })
                }
            }
        }
    };
}

pub(crate) use functions;
