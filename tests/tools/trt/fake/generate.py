#!/usr/bin/env python3
"""Writes a class for each abstract class of TensorRT's NvInferImpl.h that answers nothing.

usage: generate.py HEADERS [--parser] > generated.h

With --parser it writes the same for the class IParser of NvOnnxParser.h.

TensorRT's public classes call a virtual class `apiv::VName`; the libraries implement it. For each,
`fake::FName` answers 0, null or false, so that a fake implements only what is used. A method that
would have to return a reference ends the program: the shim must not call it.
"""
import re
import sys

CLASSES = (
    "VHostMemory VRuntime VCudaEngine VExecutionContext VBuilder VNetworkDefinition "
    "VBuilderConfig VTimingCache VOptimizationProfile VTensor"
).split()

PROLOGUE = """#pragma once
#include <NvInfer.h>
namespace fake {
using namespace nvinfer1;
"""

METHOD = re.compile(
    r"virtual\s+([^;{}]+?)\s*(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*(const)?\s*noexcept\s*=\s*0;",
    re.S,
)


# No method says `override`: some exist only under a condition of the preprocessor.


def squeeze(text):
    return " ".join(text.split())


def write_class(name, base, body):
    print(f"struct {name} : {base} {{")
    for returned, method, arguments, const in METHOD.findall(body):
        returned = squeeze(re.sub(r"TRT_\w+", "", returned))
        arguments = squeeze(re.sub(r"=[^,]*", "", arguments))
        print(
            f"  {returned} {method}({arguments}) {const} noexcept "
            f"{{ return nothing<{returned}>(); }}"
        )
    print("};")


def write_parser():
    with open(f"{sys.argv[1]}/NvOnnxParser.h", encoding="utf-8") as file:
        header = file.read()
    body = re.search(r"class IParser\s*\{(.*?)\n\};", header, re.S)
    if not body:
        sys.exit("NvOnnxParser.h has no IParser")
    write_class("FParser", "IParser", re.sub(r"//.*", "", body.group(1)))


def main():
    if "--parser" in sys.argv:
        return write_parser()
    with open(f"{sys.argv[1]}/NvInferImpl.h", encoding="utf-8") as file:
        header = file.read()
    found = re.findall(r"class (V\w+) : public VRoot\s*\{(.*?)\n\};", header, re.S)
    bodies = {name: re.sub(r"//.*", "", body) for name, body in found}
    missing = [name for name in CLASSES if name not in bodies]
    if missing:
        sys.exit(f"NvInferImpl.h has no {', '.join(missing)}")
    print(PROLOGUE)
    for name in CLASSES:
        write_class(f"F{name[1:]}", f"apiv::{name}", bodies[name])
    print("}")


main()
