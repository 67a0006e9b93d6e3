"""The peers of the comparison: zxing-cpp and zbar (by pyzbar) on picture files.

    peer.py NAME FILE…
    peer.py NAME --try                    # reads a blank picture, to show that the peer runs

NAME is `zxing-cpp` or `zbar`. Prints one JSON object a picture, as the example `read-codes` does: `file`, the `texts` read, and
`ms`, the shortest of five readings of a grey picture in memory. An EAN-13 code that begins with 0 is printed as the UPC-A code
that it is.
"""

import json
import sys
import time
import warnings

import numpy
from PIL import Image

READINGS = 5


def zxing_cpp(picture):
    import zxingcpp

    return [upc_a(code.text, code.format.name == "EAN13") for code in zxingcpp.read_barcodes(picture)]


def zbar(picture):
    from pyzbar import pyzbar

    return [upc_a(code.data.decode(errors="replace"), code.type == "EAN13") for code in pyzbar.decode(picture)]


def upc_a(text, is_ean_13):
    return text[1:] if is_ean_13 and len(text) == 13 and text.startswith("0") else text


def main():
    warnings.simplefilter("ignore")
    name, *files = sys.argv[1:]
    read = {"zxing-cpp": zxing_cpp, "zbar": zbar}[name]
    if files == ["--try"]:
        read(numpy.full((64, 64), 255, dtype=numpy.uint8))
        return
    for file in files:
        picture = numpy.array(Image.open(file).convert("L"))
        best = float("inf")
        for _ in range(READINGS):
            began = time.perf_counter()
            texts = read(picture)
            best = min(best, (time.perf_counter() - began) * 1e3)
        print(json.dumps({"file": file, "texts": texts, "ms": best}))


if __name__ == "__main__":
    main()
