#!/usr/bin/env python3
"""Verifies evidence bundles: python3 verify.py BUNDLE… [--key KEY] [--fingerprint HEX].

It shares no code with Watchkeeper and needs the standard library only. The form of a bundle is in
docs/design/0058-signed-bundles.md. Exit code 0: sound. 1: not sound. 2: wrong use.
"""

import argparse
import base64
import hashlib
import json
import re
import sys

DOMAIN = b"watchkeeper evidence bundle, format 1\n"
MAX_FILES, MAX_TEXT = 20_000, 64 << 20
TEXTS = ("manifest.json", "signature.json", "records.jsonl", "chain.jsonl", "log.jsonl")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*){0,2}")
LINE = re.compile(
    rb'\{"hash":"([0-9a-f]{64})","previous":(?:null|"([0-9a-f]{64})"),"record":(\{.*\})\}')
ENDINGS = {"image/jpeg": "jpg", "video/mp4": "mp4", "video/webm": "webm"}

class Unsound(Exception):
    pass

def require(condition, why):
    if not condition:
        raise Unsound(why)

# Ed25519, RFC 8032, section 5.1: checking only, so nothing here is secret.

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)

def add(a, b):
    x1, y1, z1, t1 = a
    x2, y2, z2, t2 = b
    e = (y1 - x1) * (y2 - x2) % P
    h = (y1 + x1) * (y2 + x2) % P
    c, d = 2 * D * t1 * t2 % P, 2 * z1 * z2 % P
    e, f, g, h = h - e, d - c, d + c, h + e
    return e * f % P, g * h % P, f * g % P, e * h % P

def multiply(number, point):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = add(result, point)
        point, number = add(point, point), number >> 1
    return result

def decompress(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P

BASE = decompress((4 * pow(5, -1, P) % P).to_bytes(32, "little"))

def signed_by(key, message, signature):
    if len(key) != 32 or len(signature) != 64:
        return False
    s = int.from_bytes(signature[32:], "little")
    public, r = decompress(key), decompress(signature[:32])
    if s >= ORDER or public is None or r is None:
        return False
    digest = hashlib.sha512(signature[:32] + key + message).digest()
    left = multiply(s, BASE)
    right = add(r, multiply(int.from_bytes(digest, "little") % ORDER, public))
    return not ((left[0] * right[2] - right[0] * left[2]) % P
                or (left[1] * right[2] - right[1] * left[2]) % P)

# The tar file: one form for given names and contents.

def header(name, size):
    before = name.encode().ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2
    before += b"%011o\0" % size + b"00000000000\0"
    after = b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
    return before + b"%07o\0" % (sum(before + after) + 8 * 32) + after

def read_files(stream):
    """Returns size and SHA-256 of each file, and the texts."""
    files, texts, last, text_bytes = {}, {}, "", 0

    def take(count):
        data = stream.read(count)
        require(len(data) == count, "the file ends early")
        return data

    while True:
        block = take(512)
        if block == bytes(512):
            require(take(512) == bytes(512) and not stream.read(1), "something follows the end")
            return files, texts
        name = block[:100].split(b"\0")[0].decode("ascii", "replace")
        octal = block[124:135]
        require(NAME.fullmatch(name) and re.fullmatch(rb"[0-7]{11}", octal), "no header of a file")
        size = int(octal, 8)
        require(block == header(name, size), f"the header of {name} has other fields")
        require(name > last, f"{name} is not in the order of names")
        require(len(files) < MAX_FILES, "too many files")
        last, digest, kept = name, hashlib.sha256(), []
        text_bytes += size if name in TEXTS else 0
        require(text_bytes <= MAX_TEXT, "the texts are too large")
        for at in range(0, size, 1 << 16):
            piece = take(min(size - at, 1 << 16))
            digest.update(piece)
            kept += [piece] if name in TEXTS else []
        require(not any(take(-size % 512)), f"something follows {name}")
        files[name] = (size, digest.hexdigest())
        if name in TEXTS:
            texts[name] = b"".join(kept)

# What the files say.

def check_signature(texts, expected):
    require("manifest.json" in texts and "signature.json" in texts, "manifest or signature missing")
    text = texts["signature.json"]
    try:
        parts = json.loads(text)
        key, signature = (base64.b64decode(parts[name], validate=True)
                          for name in ("key", "signature"))
    except (ValueError, KeyError, TypeError) as error:
        raise Unsound(f"signature.json: {error}") from error
    form = '{"algorithm":"Ed25519","key":"%s","signature":"%s"}\n'
    form %= base64.b64encode(key).decode(), base64.b64encode(signature).decode()
    require(text == form.encode(), "signature.json has another form")
    require(signed_by(key, DOMAIN + texts["manifest.json"], signature),
            "the signature does not fit the manifest")
    fingerprint = hashlib.sha256(key).hexdigest()
    require(expected in (None, fingerprint), f"another key signed it: {fingerprint}")
    return fingerprint

def check_files(manifest, files):
    listed = {file["name"]: (file["bytes"], file["sha256"]) for file in manifest["files"]}
    require(len(listed) == len(manifest["files"]), "the manifest lists a file twice")
    found = {name: file for name, file in files.items() if name not in TEXTS[:2]}
    for name in sorted(listed.keys() | found.keys()):
        require(listed.get(name) == found.get(name), f"{name} was changed, removed or added")

def read_lines(name, text):
    require(not text or text.endswith(b"\n"), f"{name} ends early")
    for line in text.split(b"\n")[:-1]:
        match = LINE.fullmatch(line)
        require(match, f"{name}: no record")
        digest, previous, record = match.groups()
        if previous:
            again = hashlib.sha256(previous + record).hexdigest()
            require(again == digest.decode(), f"{name}: a record has not the hash it carries")
        yield json.loads(record), digest.decode(), previous and previous.decode()

def check_event(manifest, files, texts):
    subject, missing = manifest["subject"], {part["name"] for part in manifest["missing"]}
    records = list(read_lines("records.jsonl", texts.get("records.jsonl", b"")))
    others = list(read_lines("chain.jsonl", texts.get("chain.jsonl", b"")))
    require([record["seq"] for record, _, _ in records] == subject["records"], "other records")
    require(all(record["id"] == subject["id"] for record, _, _ in records), "other records")
    require(all(record["id"] != subject["id"] for record, _, _ in others), "a record in the chain")
    linked, before = True, None
    for record, digest, previous in sorted(records + others, key=lambda line: line[0]["seq"]):
        number = record["seq"]
        if before:
            require(number > before[0], f"record {number} is there twice")
            linked = linked and number == before[0] + 1
            require(number > before[0] + 1 or previous == before[1],
                    f"record {number} does not follow from {before[0]}")
        before = (number, digest)
    head = (subject["head"]["seq"], subject["head"]["hash"])
    require(before and before[0] <= head[0], "records come after the signed head")
    require(before[0] < head[0] or before == head, "the head has another hash")
    linked = linked and before == head
    require(linked or "chain.jsonl" in missing, "records up to the signed head are missing")

    kept = [(media, media) for record, _, _ in records for media in record.get("media", [])]
    clips = [record["clip"] for record, _, _ in records if "clip" in record]
    kept += [(clip, clip["state"]["kept"]) for clip in clips if "kept" in clip["state"]]
    for item, file in kept:
        name = f"media/{item['id']}.{ENDINGS.get(file['content_type'])}"
        require(name in files or name in missing, f"{name} is neither there nor stated as missing")
        require(name not in files or files[name] == (file["bytes"], file["sha256"]),
                f"{name} is not the file of its record")
    if clips and "kept" not in clips[-1]["state"]:
        require("clip" in missing, "the clip is neither there nor stated as missing")
    unproven = sum(1 for _, _, previous in records if previous is None)
    return (f"{len(records) - unproven} records follow from the hash before them, {unproven} not; "
            + ("linked to" if linked else "NOT linked to") + f" record {head[0]}")

def check_job(manifest, files, texts):
    results = {}
    for line in texts.get("log.jsonl", b"").splitlines():
        line = json.loads(line)
        if line["record"] == "finished":
            results[f"results/{line['step']}.json"] = line["result"]["sha256"]
    missing = {part["name"] for part in manifest["missing"]}
    for name, digest in results.items():
        require(name in files or name in missing, f"{name} is neither there nor stated as missing")
        require(name not in files or files[name][1] == digest, f"{name} is not that of the log")
    return f"{len(results)} results as the log names them; the box has not seen the files"

def verify(path, expected):
    with open(path, "rb") as stream:
        files, texts = read_files(stream)
    fingerprint = check_signature(texts, expected)
    manifest = json.loads(texts["manifest.json"])
    require(manifest["format"] == 1, "this program knows format 1 only")
    require(manifest["box"]["fingerprint"] == fingerprint, "the manifest names another key")
    check_files(manifest, files)
    check = {"event": check_event, "job": check_job}[manifest["subject"]["kind"]]
    proof = check(manifest, files, texts)
    print(f"{path}: sound: {manifest['subject']['kind']} {manifest['subject']['id']}")
    print(f"  {len(manifest['files'])} files are those that the box signed; {proof}")
    print(f"  {'expected' if expected else 'UNKNOWN, compare it'}: key fingerprint {fingerprint}")
    for part in manifest["missing"]:
        print(f"  missing: {part['name']}: {part['why']}")

def main():
    parser = argparse.ArgumentParser(description="Verifies evidence bundles.")
    parser.add_argument("bundles", nargs="+", metavar="BUNDLE")
    parser.add_argument("--key", help="public key of the box, base64")
    parser.add_argument("--fingerprint", help="SHA-256 of that key, hex")
    args = parser.parse_args()
    expected = args.fingerprint and args.fingerprint.lower()
    if args.key:
        expected = hashlib.sha256(base64.b64decode(args.key)).hexdigest()
    all_sound = True
    for path in args.bundles:
        try:
            verify(path, expected)
        except OSError as error:
            parser.error(str(error))
        except (Unsound, ValueError, KeyError, TypeError, RecursionError) as error:
            print(f"{path}: NOT SOUND: {error or type(error).__name__}")
            all_sound = False
    sys.exit(not all_sound)

if __name__ == "__main__":
    main()
