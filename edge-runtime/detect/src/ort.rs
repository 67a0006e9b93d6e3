//! The ONNX Runtime back end, about twice as fast as the pure Rust one.
//!
//! - The library is opened with dlopen ([`ort_library`](super::ort_library) finds it), at most once
//!   per process. It is never closed, because it keeps its own threads.
//! - A network runs on the first execution provider that opens it ([`ort_providers`]), else on the
//!   CPU.
//! - No type of the `ort` crate leaves this file and [`ort_providers`].
//!
//! [`ort_providers`]: super::ort_providers

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::Session;
use ort::session::SessionInputValue;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::value::{Tensor as OrtTensor, TensorElementType, TensorRef, ValueType};
use parking_lot::{Mutex, MutexGuard};
use watchkeeper_models::FileStamp;

use super::network::{
    Feed, FileInput, LoadError, Network, Numbers, Signature, Tensor, one_line, pick_inputs,
    pick_outputs,
};
use super::ort_library::{LIBRARY_VARIABLE, OrtSettings, find_library, system_folders};
use super::ort_providers::{CPU, Provider};
use super::workers::Workers;

pub(crate) const NAME: &str = "ort";

#[derive(Debug)]
pub(crate) struct OrtNetwork {
    session: Mutex<MeteredSession>,
    threads: usize,
    /// For a parallel run; absent if one lane is wanted.
    second: Option<SecondSession>,
    inputs: Vec<Input>,
    names: Vec<String>,
    /// Name of the execution provider.
    provider: &'static str,
}

/// A session on the CPU with one thread, which is opened for the second stream.
#[derive(Debug)]
struct SecondSession {
    path: PathBuf,
    /// Stamp of the library's file before the first session was opened.
    stamp: Option<FileStamp>,
    environment: Environment,
    session: OnceLock<Mutex<MeteredSession>>,
}

/// A session with its threads, besides the one that calls it.
type MeteredSession = (Session, Workers);

impl SecondSession {
    fn open(&self) -> Result<MeteredSession, String> {
        let data = std::fs::read(&self.path).map_err(one_line_error)?;
        if self.stamp.is_none() || FileStamp::of(&self.path).ok() != self.stamp {
            return Err("the file changed since it was loaded".to_owned());
        }
        let mut builder = builder(&self.environment, 1)?;
        let session = builder.commit_from_memory(&data).map_err(one_line_error)?;
        Ok((session, Workers::default()))
    }
}

#[derive(Debug)]
struct Input {
    name: String,
    /// Whether its integers have 64 bits instead of 32.
    is_wide: bool,
}

impl OrtNetwork {
    /// Loads a file and checks it against `signature`. With `two_lanes` it serves two runs at a
    /// time once it is shared, the second one on one thread.
    ///
    /// # Errors
    /// [`LoadError`]: the library is missing, the file is not a network, or does not match the
    /// manifest.
    pub(crate) fn load(
        path: &Path,
        signature: &Signature<'_>,
        threads: usize,
        two_lanes: bool,
        settings: &OrtSettings,
    ) -> Result<Self, LoadError> {
        let (path, _) = settings.precision.network_file(path, NAME);
        let path = path.as_path();
        let mismatch = |message| LoadError::Mismatch {
            path: path.to_owned(),
            manifest: signature.manifest.to_owned(),
            message,
        };
        let environment = environment(settings).map_err(|message| LoadError::Unavailable {
            backend: NAME,
            message: format!("{message}; {}", settings.remedy()),
        })?;
        let stamp = FileStamp::of(path).ok();
        // Loaded into memory, because the file may be replaced while the network runs.
        let data = std::fs::read(path).map_err(|e| LoadError::file(path, NAME, &e))?;
        let open = || session(&environment, &data, threads);
        let (opened, workers) = Workers::started_by(open);
        let (session, provider) =
            opened.map_err(|message| LoadError::file(path, NAME, &message))?;
        let (there, found) = inputs_of(&session);
        let picked = pick_inputs(&signature.inputs, &found).map_err(mismatch)?;
        let mut slots: Vec<Option<Input>> = there.into_iter().map(Some).collect();
        let inputs = picked
            .into_iter()
            .filter_map(|i| slots.get_mut(i)?.take())
            .collect();
        let there: Vec<_> = session
            .outputs()
            .iter()
            .map(|o| o.name().to_owned())
            .collect();
        let names = pick_outputs(signature.outputs, &there).map_err(mismatch)?;
        Ok(Self {
            session: Mutex::new((session, workers)),
            threads,
            second: two_lanes.then(|| SecondSession {
                path: path.to_owned(),
                stamp,
                environment,
                session: OnceLock::new(),
            }),
            inputs,
            names,
            provider,
        })
    }
}

/// The inputs of a file, and what a manifest is compared with.
fn inputs_of(session: &Session) -> (Vec<Input>, Vec<FileInput>) {
    let described = session.inputs().iter().map(|input| {
        let (axes, is_wide) = match input.dtype() {
            ValueType::Tensor { shape, ty, .. } => {
                let axes = shape.iter().map(|d| usize::try_from(*d).ok());
                (Some(axes.collect()), *ty == TensorElementType::Int64)
            }
            _ => (None, false),
        };
        let name = input.name().to_owned();
        let found = FileInput {
            name: name.clone(),
            axes,
        };
        (Input { name, is_wide }, found)
    });
    described.unzip()
}

impl OrtNetwork {
    fn free_session(&self) -> MutexGuard<'_, MeteredSession> {
        let free = self.session.try_lock();
        free.unwrap_or_else(|| self.second_session().unwrap_or(&self.session).lock())
    }

    fn second_session(&self) -> Option<&Mutex<MeteredSession>> {
        self.second.as_ref()?.session.get()
    }
}

fn one_line_error(e: impl std::fmt::Display) -> String {
    one_line(&e.to_string())
}

/// Opens a network on the first provider that can, else on the CPU. Returns the provider's name.
fn session(
    environment: &Environment,
    data: &[u8],
    threads: usize,
) -> Result<(Session, &'static str), String> {
    for provider in Provider::available() {
        let opened = builder(environment, threads).and_then(|mut builder| {
            provider
                .register(&mut builder, threads)
                .map_err(one_line_error)?;
            builder.commit_from_memory(data).map_err(one_line_error)
        });
        match opened {
            Ok(session) => return Ok((session, provider.name())),
            Err(reason) => {
                let provider = provider.name();
                tracing::warn!(provider, %reason, "execution provider is not used");
            }
        }
    }
    let session = builder(environment, threads)?.commit_from_memory(data);
    Ok((session.map_err(one_line_error)?, CPU))
}

fn builder(environment: &Environment, threads: usize) -> Result<SessionBuilder, String> {
    Session::builder(environment)
        .map_err(one_line_error)?
        // Errors are returned as values; the library must not print them too.
        .with_log_level(LogLevel::Fatal)
        .map_err(one_line_error)?
        .with_optimization_level(GraphOptimizationLevel::All)
        .map_err(one_line_error)?
        .with_intra_threads(threads)
        .map_err(one_line_error)?
        .with_inter_threads(1)
        .map_err(one_line_error)?
        // Idle workers sleep. Spinning ones gain little on one stream and occupy the core that
        // decodes the next frame.
        .with_intra_op_spinning(false)
        .map_err(one_line_error)
}

/// Whether the library, which is opened, has execution providers besides the CPU's.
pub(crate) fn has_other_providers(settings: &OrtSettings) -> bool {
    environment(settings).is_ok() && Provider::available().next().is_some()
}

/// Execution providers of the library, which is opened.
///
/// # Errors
/// One clause: no library was found, or it can't be opened.
pub(crate) fn providers(settings: &OrtSettings) -> Result<Vec<&'static str>, String> {
    environment(settings)?;
    let providers = Provider::available().map(Provider::name);
    Ok(providers.chain([CPU]).collect())
}

impl Network for OrtNetwork {
    fn backend(&self) -> &'static str {
        NAME
    }

    fn provider(&self) -> Option<&'static str> {
        Some(self.provider)
    }

    fn threads(&self) -> Option<usize> {
        Some(self.threads)
    }

    fn lanes(&self) -> usize {
        1 + usize::from(self.second_session().is_some())
    }

    fn share(&self) -> Result<(), String> {
        match &self.second {
            Some(second) if second.session.get().is_none() => {
                let session = second.open()?;
                second.session.get_or_init(|| Mutex::new(session));
            }
            _ => {}
        }
        Ok(())
    }

    fn tensor_copies(&self) -> Option<u32> {
        Provider::tensor_copies(self.provider)
    }

    fn infer(
        &self,
        inputs: &[Feed<'_>],
        read: &mut dyn FnMut(&[Tensor<'_>]),
    ) -> Result<(), String> {
        let mut fed: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(inputs.len());
        for (input, feed) in self.inputs.iter().zip(inputs) {
            let value = match feed.numbers {
                Numbers::Floats(data) => TensorRef::from_array_view((feed.shape, data))
                    .map_err(one_line_error)?
                    .into(),
                Numbers::Whole(data) if input.is_wide => {
                    let wide: Vec<i64> = data.iter().copied().map(i64::from).collect();
                    OrtTensor::from_array((feed.shape, wide))
                        .map_err(one_line_error)?
                        .into()
                }
                Numbers::Whole(data) => TensorRef::from_array_view((feed.shape, data))
                    .map_err(one_line_error)?
                    .into(),
            };
            fed.push((&input.name, value));
        }
        let mut lane = self.free_session();
        let (session, workers) = &mut *lane;
        let outputs = workers.meter(|| session.run(fed)).map_err(one_line_error)?;
        let mut lent = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let value = outputs
                .get(name)
                .ok_or_else(|| format!("no output `{name}`"))?;
            let (shape, data) = value.try_extract_tensor::<f32>().map_err(one_line_error)?;
            let shape: Vec<_> = shape
                .iter()
                .map(|d| usize::try_from(*d).unwrap_or(0))
                .collect();
            lent.push((name, shape, data));
        }
        let tensors: Vec<_> = lent
            .iter()
            .map(|(name, shape, data)| Tensor { name, shape, data })
            .collect();
        read(&tensors);
        Ok(())
    }
}

/// The process's one ONNX Runtime. The next network repeats a failed search, because the library
/// may have been installed meanwhile.
fn environment(settings: &OrtSettings) -> Result<Environment, String> {
    static LOADED: Mutex<Option<Environment>> = Mutex::new(None);
    let mut loaded = LOADED.lock();
    if let Some(environment) = loaded.as_ref() {
        return Ok(environment.clone());
    }
    let library = find_library(
        settings,
        std::env::var_os(LIBRARY_VARIABLE),
        &system_folders(),
    )?;
    let environment = ort::init_from(&library)
        .map_err(one_line_error)?
        .with_telemetry(false)
        .build()
        .map_err(one_line_error)?;
    environment.set_log_level(LogLevel::Fatal);
    tracing::info!(library = %library.display(), "ONNX Runtime opened");
    *loaded = Some(environment.clone());
    Ok(environment)
}
