//! OpenAI's Responses API: `POST /v1/responses`, with nothing kept on the server.

mod encode;
mod fault;
mod read;
mod stream;

pub(super) use encode::encode;
pub(super) use fault::fault;
pub(super) use read::whole;
pub(super) use stream::Stream;
