"""The peer of the comparison: RapidOCR with the networks of its package, on pictures with drawn text.

    peer.py FOLDER

Writes FOLDER/<picture>.png, FOLDER/models/ with the networks under their names in the manifest pp-ocr-v4, and
FOLDER/peer.json: by picture, `truth` (the drawn lines) and `lines` (what the peer read: text, upright box x1 y1 x2 y2,
score). Pictures are the same in every run: the font is Pillow's own, and the noise has a fixed seed.
"""

import json
import os
import random
import shutil
import sys

import rapidocr_onnxruntime
from PIL import Image, ImageDraw, ImageFilter, ImageFont

NETWORKS = {"ch_PP-OCRv4_rec_infer.onnx": "pp-ocr-v4.onnx", "ch_PP-OCRv4_det_infer.onnx": "ch_PP-OCRv4_det_infer.onnx"}


def drawn(size, back, lines):
    """A picture with lines `(x, y, height of letters, colour, text)`."""
    picture = Image.new("RGB", size, back)
    pen = ImageDraw.Draw(picture)
    for x, y, height, colour, text in lines:
        pen.text((x, y), text, fill=colour, font=ImageFont.load_default(size=height))
    return picture


def noisy(picture, seed):
    """Blurs a picture and adds noise, as at night."""
    chance = random.Random(seed)
    picture = picture.filter(ImageFilter.GaussianBlur(1.0))
    pixels = picture.load()
    for _ in range(picture.width * picture.height // 10):
        x, y = chance.randrange(picture.width), chance.randrange(picture.height)
        by = chance.randrange(-30, 31)
        pixels[x, y] = tuple(max(0, min(255, value + by)) for value in pixels[x, y])
    return picture


def slanted(text, degrees):
    line = drawn((560, 90), "white", [(14, 14, 46, "black", text)])
    picture = Image.new("RGB", (800, 600), "white")
    picture.paste(line.rotate(degrees, expand=True, fillcolor="white", resample=Image.BICUBIC), (110, 170))
    return picture


def pictures():
    dark, red = (20, 20, 24), (120, 10, 10)
    page = [
        (60, 30, 48, dark, "LOADING BAY 7"),
        (60, 112, 32, dark, "Authorised vehicles only"),
        (420, 178, 36, dark, "Max. height 3.85 m"),
        (200, 248, 60, dark, "AB 12 CDE"),
        (60, 342, 26, dark, "Tel. +44 20 7946 0018"),
        (600, 402, 22, dark, "Exit by the north gate"),
    ]
    signs = [
        (340, 250, 96, "white", "PLATFORM 12"),
        (1330, 715, 56, "black", "GK-4471 X"),
        (100, 950, 30, "white", "No parking 08:00 to 18:30"),
    ]
    sizes, y = [], 60
    texts = ["invoice number 2231-9", "delivery dock opens at 6", "forklift traffic ahead", "Keep left at all times", "Danger: high voltage"]
    for height, text in zip([16, 20, 24, 30, 40], texts):
        sizes += [(80, y, height, dark, text), (1000, y, height, red, text.upper())]
        y += height + 90
    letter = ["The quick brown fox jumps over", "the lazy dog, and nobody saw it", "because the camera was asleep.", "Page 3 of 17, $1,250.00"]
    letter = [(30, 24 + 46 * n, 32, "black", text) for n, text in enumerate(letter)]
    sign = drawn((1920, 1080), (70, 90, 70), [])
    pen = ImageDraw.Draw(sign)
    pen.rectangle((300, 200, 1200, 420), fill=(15, 50, 120))
    pen.rectangle((1300, 700, 1700, 800), fill=(250, 220, 40))
    for x, y, height, colour, text in signs:
        pen.text((x, y), text, fill=colour, font=ImageFont.load_default(size=height))
    said = lambda lines: [line[-1] for line in lines]  # noqa: E731
    yield "page", drawn((960, 540), (236, 236, 230), page), said(page)
    yield "night", noisy(drawn((960, 540), (236, 236, 230), page), 3), said(page)
    yield "signs", sign, said(signs)
    yield "sizes", drawn((1920, 1080), (200, 205, 210), sizes), said(sizes)
    yield "letter", drawn((900, 320), "white", letter), said(letter)
    yield "slanted", slanted("Slanted words 42", 12), ["Slanted words 42"]
    yield "small", drawn((220, 64), "white", [(10, 18, 22, "black", "Gate 15 closed")]), ["Gate 15 closed"]


def main():
    folder = sys.argv[1]
    models = os.path.join(folder, "models")
    os.makedirs(models, exist_ok=True)
    package = os.path.join(os.path.dirname(rapidocr_onnxruntime.__file__), "models")
    for name, ours in NETWORKS.items():
        shutil.copyfile(os.path.join(package, name), os.path.join(models, ours))
    reader = rapidocr_onnxruntime.RapidOCR()
    said = {}
    for name, picture, truth in pictures():
        path = os.path.join(folder, name + ".png")
        picture.save(path)
        # No text is upside down, and our package has no network that detects it.
        found, _ = reader(path, use_cls=False)
        lines = []
        for corners, text, score in found or []:
            xs, ys = zip(*corners)
            lines.append({"text": text, "box": [float(v) for v in (min(xs), min(ys), max(xs), max(ys))], "score": float(score)})
        said[name] = {"truth": truth, "lines": lines}
    with open(os.path.join(folder, "peer.json"), "w") as file:
        json.dump(said, file, indent=1)


if __name__ == "__main__":
    main()
