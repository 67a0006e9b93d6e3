//! Writes an ONNX file as TensorRT builds it with `precision = "fp16"`, so that other programs can
//! measure what float16 changes.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(from), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err("usage: to-half FROM.onnx TO.onnx".into());
    };
    let file = std::fs::read(from)?;
    std::fs::write(to, watchkeeper_models::onnx::half::convert(file.into())?)?;
    Ok(())
}
