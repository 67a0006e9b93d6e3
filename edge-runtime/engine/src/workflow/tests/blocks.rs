//! Blocks that exist only in tests: one makes many elements of one, one always fails.

use crate::workflow::block_api::block::Block;
use crate::workflow::block_api::call::Call;
use crate::workflow::block_api::manifest::{Depth, Manifest, Output, Role};
use crate::workflow::block_api::property::Property;
use crate::workflow::language::kinds::Kind;

const BASE: Manifest = Manifest {
    summary: "Exists only in tests.",
    role: Role::Other,
    properties: &[Property::data("data", &[Kind::Any]).about("anything")],
    outputs: &[Output::new("output", &[Kind::Any])],
    build: |_| Ok(Box::new(Pass)),
    ..Manifest::of("test")
};

pub(in super::super) const BLOCKS: &[Manifest] = &[
    Manifest {
        name: "test/split@v1",
        depth: Depth::Deeper,
        ..BASE
    },
    Manifest {
        name: "test/fail@v1",
        build: |_| Ok(Box::new(Fail)),
        ..BASE
    },
    Manifest {
        name: "test/pair@v1",
        properties: &[
            Property::data("data", &[Kind::Any]).about("anything"),
            Property::data("other", &[Kind::Any]).about("anything"),
        ],
        ..BASE
    },
];

struct Pass;

impl Block for Pass {
    fn run(&self, call: &mut Call<'_>) -> Result<(), String> {
        call.put(0, call.arg(arg!("data")).clone());
        Ok(())
    }
}

struct Fail;

impl Block for Fail {
    fn run(&self, _: &mut Call<'_>) -> Result<(), String> {
        Err("always".to_owned())
    }
}
