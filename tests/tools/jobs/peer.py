"""The same work as the plan of `run`, as a plain script: Pillow, imagehash and OpenCV.

    peer.py FOLDER OUTPUT

Lists the pictures with their EXIF time, scores sharpness by the variance of the Laplacian, finds near duplicates by
perceptual hash (64 bits, distance at most 10), keeps the sharpest of each set, and writes a contact sheet of the 25 best.
Prints the numbers of pictures, sets of duplicates and pictures that are kept, as JSON.
"""

import json
import os
import sys

import cv2
import imagehash
import numpy
from PIL import Image, ImageOps

NEAR = 10


def main():
    folder, output = sys.argv[1:]
    files = sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)
    pictures = []
    for file in files:
        with Image.open(file) as opened:
            taken = opened.getexif().get(306)
            upright = ImageOps.exif_transpose(opened)
            grey = upright.convert("L")
            look = imagehash.phash(grey)
        grey = numpy.asarray(grey)
        sharpness = cv2.Laplacian(grey, cv2.CV_64F).var()
        pictures.append({"file": file, "taken": taken, "look": look, "sharpness": sharpness})
    sets = list(range(len(pictures)))
    for a, one in enumerate(pictures):
        for b in range(a + 1, len(pictures)):
            if one["look"] - pictures[b]["look"] <= NEAR:
                old, new = max(sets[a], sets[b]), min(sets[a], sets[b])
                sets = [new if s == old else s for s in sets]
    best = {}
    for place, picture in zip(sets, pictures):
        if place not in best or picture["sharpness"] > best[place]["sharpness"]:
            best[place] = picture
    kept = sorted(best.values(), key=lambda p: -p["sharpness"])
    sheet = Image.new("RGB", (5 * 248 + 8, 5 * 272 + 8), (17, 20, 24))
    for n, picture in enumerate(kept[:25]):
        with Image.open(picture["file"]) as opened:
            small = ImageOps.exif_transpose(opened).convert("RGB")
            small.thumbnail((240, 240))
            sheet.paste(small, (8 + n % 5 * 248, 8 + n // 5 * 272))
    os.makedirs(output, exist_ok=True)
    sheet.save(os.path.join(output, "best.jpg"), quality=85)
    double = len({s for s in sets if sets.count(s) > 1}) if len(sets) < 5000 else None
    print(json.dumps({"pictures": len(pictures), "sets": double, "kept": len(kept)}))


main()
