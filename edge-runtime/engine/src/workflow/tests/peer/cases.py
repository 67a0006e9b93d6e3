"""The cases, by the family of the block. See make.py."""

import numpy as np

from make import box, boxes, outlined, picture

CASES = {}


def case(family, name, step, inputs, *frames, **more):
    step = dict(step)
    step = {"type": step.pop("type", None) or f"roboflow_core/{family}@v1", **step}
    CASES.setdefault(family, []).append(
        {"name": name, "step": step, "inputs": inputs, "frames": list(frames), **more}
    )


BLACK = np.zeros((8, 8, 3), dtype=np.uint8)
DETECTIONS = "object_detection_prediction"
MASKS = "instance_segmentation_prediction"
EMBEDDING = "embedding"
SIZE = [200, 100]


def frame(number):
    return picture(BLACK, number)


# Analytics.
people = boxes(
    SIZE,
    box(50, 50, 20, 30),
    box(60, 55, 30, 40, **{"class": "bicycle", "class_id": 1}),
    box(150, 50, 20, 20),
    box(80, 75, 12, 6),
)
for how in ["Center Overlap", "Any Overlap"]:
    case(
        "overlap", how, {"predictions": "$inputs.boxes", "overlap_type": how, "overlap_class_name": "bicycle"},
        {"boxes": DETECTIONS}, {"boxes": people}, {"boxes": boxes(SIZE)},
    )


crowd = np.random.default_rng(5)
for how in ["Center Overlap", "Any Overlap"]:
    rows = [
        box(*crowd.uniform(10, 90, 2), *crowd.uniform(4, 20, 2), **({} if i % 6 else {"class": "bicycle"}))
        for i in range(60)
    ]
    case(
        "overlap", f"of a crowd, {how}", {"predictions": "$inputs.boxes", "overlap_type": how, "overlap_class_name": "bicycle"},
        {"boxes": DETECTIONS}, {"boxes": boxes(SIZE, *rows)},
    )


def walk(*steps):
    """Tracked boxes, one frame after the other: lists of (track, x, y)."""
    for number, tracks in enumerate(steps, start=1):
        rows = [box(x, y, 10, 20, tracker_id=t, detection_id=f"d{t}") for t, x, y in tracks]
        yield {"image": frame(number), "boxes": boxes(SIZE, *rows)}


case(
    "detection_event_log", "one that stays and one that goes",
    {"image": "$inputs.image", "detections": "$inputs.boxes", "frame_threshold": 2, "flush_interval": 2,
     "stale_frames": 1},
    {"image": "image", "boxes": DETECTIONS},
    *walk([(1, 10, 10), (2, 50, 50)], [(1, 10, 10), (2, 50, 50)], [(1, 11, 10)], [(1, 12, 10), (3, 90, 9)], [(1, 12, 10)],
          [(1, 12, 10)], [(1, 12, 10)]),
)

# Sets of detections.
case(
    "detections_combine", "two sets", {"prediction_one": "$inputs.a", "prediction_two": "$inputs.b"},
    {"a": DETECTIONS, "b": DETECTIONS},
    {"a": boxes(SIZE, box(10, 10, 4, 4)), "b": boxes(SIZE, box(20, 20, 6, 6, detection_id="d7"))},
)
case(
    "detections_merge", "three and none", {"predictions": "$inputs.a", "class_name": "group"}, {"a": DETECTIONS},
    {"a": boxes(SIZE, box(10, 10, 4, 4), box(60, 30, 20, 10, confidence=0.25), box(40, 80, 2, 9))},
    {"a": boxes(SIZE)},
)
case(
    "per_class_confidence_filter", "by class",
    {"predictions": "$inputs.a", "class_thresholds": {"person": 0.5, "car": 0.9}, "default_threshold": 0.2},
    {"a": DETECTIONS},
    {"a": boxes(SIZE, box(9, 9, 2, 2, confidence=0.5), box(9, 9, 2, 2, confidence=0.49),
                box(9, 9, 2, 2, confidence=0.8, **{"class": "car"}),
                box(9, 9, 2, 2, confidence=0.2, **{"class": "dog"}))},
)
before = boxes(SIZE, box(20, 20, 20, 20), box(60, 20, 20, 20), box(100, 20, 20, 20), box(180, 90, 10, 10))
after = boxes(
    SIZE,
    box(24, 21, 20, 20, detection_id="d4"),
    box(75, 20, 20, 20, detection_id="d5"),
    box(101, 22, 20, 20, detection_id="d6", **{"class": "car", "class_id": 1}),
    box(20, 90, 6, 6, detection_id="d7"),
)
for more in [{}, {"class_strict": True}, {"spatial_weight": 0.9, "reject_cost": 1.2, "min_removed_to_verify": 3}]:
    case(
        "detections_difference", f"with {more}",
        {"reference_predictions": "$inputs.a", "candidate_predictions": "$inputs.b", **more},
        {"a": DETECTIONS, "b": DETECTIONS},
        {"a": before, "b": after}, {"a": before, "b": boxes(SIZE)}, {"a": boxes(SIZE), "b": after},
    )
case(
    "overlap_analysis", "boxes", {"reference_predictions": "$inputs.a", "candidate_predictions": "$inputs.b"},
    {"a": DETECTIONS, "b": DETECTIONS}, {"a": before, "b": after},
)
corner = [(20, 20), (60, 20), (60, 40), (40, 40), (40, 70), (20, 70)]
case(
    "overlap_analysis", "masks",
    {"reference_predictions": "$inputs.a", "candidate_predictions": "$inputs.b", "min_overlap": 0.01},
    {"a": MASKS, "b": MASKS},
    {"a": boxes(SIZE, outlined(corner)),
     "b": boxes(SIZE, outlined([(30, 30), (80, 30), (80, 80), (30, 80)], detection_id="d5"))},
    within=0.03,
)

# Measures.
case(
    "mask_area_measurement", "masks and boxes", {"predictions": "$inputs.a", "pixels_per_unit": 4.0}, {"a": MASKS},
    {"a": boxes(SIZE, outlined([(20, 20), (60, 20), (60, 50), (20, 50)]))}, {"a": boxes(SIZE, box(20, 20, 11, 13))},
)
pair = boxes(
    SIZE, box(20, 20, 10, 10, **{"class": "a"}), box(81, 30, 20, 10, **{"class": "b"}),
    box(150, 50, 12, 30, **{"class": "coin"}),
)
for axis in ["horizontal", "vertical"]:
    step = {"predictions": "$inputs.a", "object_1_class_name": "a", "object_2_class_name": "b", "reference_axis": axis}
    case(
        "distance_measurement", f"{axis} by ratio",
        {**step, "calibration_method": "pixel to centimeter", "pixel_ratio": 8.0}, {"a": DETECTIONS}, {"a": pair},
    )
    case(
        "distance_measurement", f"{axis} by reference",
        {**step, "calibration_method": "reference object", "reference_object_class_name": "coin",
         "reference_width": 2.0, "reference_height": 3.0},
        {"a": DETECTIONS}, {"a": pair},
    )

# Embeddings.
case(
    "cosine_similarity", "three pairs", {"embedding_1": "$inputs.a", "embedding_2": "$inputs.b"},
    {"a": EMBEDDING, "b": EMBEDDING},
    {"a": [1.0, 2.0, 3.0], "b": [2.0, 4.0, 6.0]}, {"a": [1.0, 0.0], "b": [0.0, 3.0]}, {"a": [1.0, 2.0], "b": [-2.0, 0.5]},
    {"a": [1.0], "b": [1.0, 2.0]},
)
# A seed for which rounding decides nothing.
walks = np.random.default_rng(3).normal(size=(12, 4))
walks[:, 0] += 4.0
walks[9] = [-3.0, 2.0, 1.0, 0.0]
frames = [{"e": [round(float(n), 4) for n in row]} for row in walks]
for strategy in ["Exponential Moving Average (EMA)", "Simple Moving Average (SMA)", "Sliding Window"]:
    case(
        "identify_changes", strategy,
        {"strategy": strategy, "embedding": "$inputs.e", "window_size": 4, "smoothing_factor": 0.3}, {"e": EMBEDDING},
        *frames,
    )
case(
    "identify_outliers", "a window", {"embedding": "$inputs.e", "window_size": 6, "threshold_percentile": 0.1},
    {"e": EMBEDDING}, *frames,
)

# Tracks over time.
KINDS = {"image": "image", "boxes": DETECTIONS}


def classes(*steps):
    """Tracked boxes with classes and scores: lists of (track, x, class id, score)."""
    for number, tracks in enumerate(steps, start=1):
        rows = [
            box(x, 40, 20, 20, tracker_id=t, detection_id=f"d{t}", class_id=c, confidence=s, **{"class": "abc"[c]})
            for t, x, c, s in tracks
        ]
        yield {"image": frame(number), "boxes": boxes(SIZE, *rows)}


case(
    "track_class_lock", "votes, a challenge and a lost track",
    {"image": "$inputs.image", "detections": "$inputs.boxes", "min_votes": 3, "lead_margin": 2, "switch_after": 2,
     "vote_confidence": 0.5, "reattach_window": 3, "state_ttl": 5},
    KINDS,
    *classes(
        [(1, 20, 0, 0.9), (2, 120, 1, 0.9)], [(1, 20, 1, 0.6), (2, 120, 1, 0.3)], [(1, 21, 0, 0.8)], [(1, 21, 0, 0.7)],
        [(1, 22, 0, 0.5), (2, 120, 1, 0.9)], [(1, 22, 1, 0.9)], [(1, 22, 2, 0.9)], [], [(3, 24, 2, 0.9)],
        [(3, 24, 2, 0.8)], [(3, 24, 2, 0.8)], [], [], [], [], [], [], [(4, 24, 1, 0.9)],
    ),
)
case(
    "stabilize_detections", "one that goes and one that comes",
    {"image": "$inputs.image", "detections": "$inputs.boxes", "smoothing_window_size": 2,
     "bbox_smoothing_coefficient": 0.4},
    KINDS,
    *walk([(1, 10, 10)], [(1, 14, 11), (2, 90, 50)], [(1, 19, 12), (2, 80, 52)], [(2, 72, 55)], [(2, 66, 55)], [(2, 60, 56)],
          [(1, 50, 20), (2, 55, 57)], []),
)

# Detections beside each other.
spots = boxes(SIZE, box(20, 20, 10, 10), box(60, 20, 10, 10), box(40, 60, 30, 10), box(150, 90, 4, 4))
others = boxes(
    SIZE, box(24, 20, 10, 10, detection_id="d5"), box(40, 20, 10, 10, detection_id="d6"),
    box(150, 90, 4, 4, detection_id="d3"), box(76, 20, 10, 10, detection_id="d8"),
)
for more in [{}, {"query_point": "BOTTOM_LEFT", "target_point": "TOP_RIGHT", "max_distance": 40}]:
    case(
        "detections_nearest_neighbor", f"with {more}",
        {"query_predictions": "$inputs.a", "target_predictions": "$inputs.b", **more},
        {"a": DETECTIONS, "b": DETECTIONS}, {"a": spots, "b": others}, {"a": spots, "b": spots},
        {"a": spots, "b": boxes(SIZE)},
    )
for heading in [0.0, 120.0]:
    case(
        "geotag_detection", f"heading {heading}",
        {"image": "$inputs.image", "predictions": "$inputs.boxes", "latitude": 48.2, "longitude": 16.37, "altitude": 80.0,
         "heading": heading},
        KINDS, {"image": picture(np.zeros((100, 200, 3), dtype=np.uint8)), "boxes": spots},
    )

# Turned shapes.
tilted = [(40, 20), (120, 60), (110, 80), (30, 40)]
blob = [(150, 20), (170, 30), (175, 60), (160, 70), (140, 50)]
shapes = boxes(SIZE, outlined(tilted, confidence=0.5), outlined(blob))
# None of whose corners is so near a whole pixel that rounding decides.
leaning = boxes(SIZE, outlined([(40, 20), (121, 63), (108, 84), (27, 43)], confidence=0.5), outlined(blob))
case("bounding_rect", "two shapes", {"predictions": "$inputs.a"}, {"a": MASKS}, {"a": leaning}, within=0.01)
case(
    "size_measurement", "by a mask",
    {"object_predictions": "$inputs.a", "reference_predictions": "$inputs.b", "reference_dimensions": "5.0, 4.0"},
    {"a": MASKS, "b": MASKS}, {"a": shapes, "b": shapes}, {"a": shapes, "b": boxes(SIZE)}, within=0.02,
)
case(
    "size_measurement", "by corners",
    {"object_predictions": "$inputs.a", "reference_predictions": [[10, 10], [50, 10], [50, 30], [10, 30]],
     "reference_dimensions": [8, 4]},
    {"a": DETECTIONS}, {"a": spots}, within=0.02,
)


# Letters.
def letters(text, **more):
    """A word for each line; a letter is 8 wide, a blank leaves a gap."""
    rows = []
    for line, words in enumerate(text):
        for place, letter in enumerate(words):
            if letter != " ":
                x, y = 20 + 10 * place, 20 + 25 * line + 3 * (place % 2)
                rows.append(box(x, y, 8, 14, detection_id=f"d{len(rows)}", **{"class": letter}))
    rows = rows[::2] + rows[1::2]
    if more.get("turned"):
        rows = [{**r, "x": r["y"], "y": r["x"], "width": r["height"], "height": r["width"]} for r in rows]
    return boxes(SIZE, *rows)


text = letters(["AB CDE", "FG", "H IJ"])
for direction in ["left_to_right", "right_to_left", "vertical_top_to_bottom", "vertical_bottom_to_top", "auto"]:
    turned = letters(["AB CDE", "FG", "H IJ"], turned=True)
    case(
        "stitch_ocr_detections", f"rows {direction}",
        {"predictions": "$inputs.a", "reading_direction": direction, "tolerance": 20}, {"a": DETECTIONS},
        {"a": text}, {"a": turned}, {"a": boxes(SIZE)},
    )
    for algorithm in ["otsu", "collimate", "tolerance"]:
        case(
            "stitch_ocr_detections", f"{algorithm} {direction}",
            {"type": "roboflow_core/stitch_ocr_detections@v2", "predictions": "$inputs.a", "reading_direction": direction,
             "stitching_algorithm": algorithm, "delimiter": "-" if algorithm == "tolerance" else "", "tolerance": 15},
            {"a": DETECTIONS}, {"a": text}, {"a": turned}, {"a": boxes(SIZE)},
        )


# Pixels.
def scene(width=28, height=20, seed=5):
    """Smooth colours with hard edges and some noise."""
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([x * 5, y * 7, (x + y) * 3], axis=-1).astype(float)
    rgb[5:14, 6:17] = [220, 40, 30]
    rgb[8:11, 20:24] = [10, 10, 12]
    noise = np.random.default_rng(seed).integers(-3, 4, (height, width, 1))
    return np.clip(rgb + noise, 0, 255).astype(np.uint8)


def blobs(*places, size=(20, 28)):
    """White shapes on black."""
    out = np.zeros((*size, 3), dtype=np.uint8)
    for x1, y1, x2, y2 in places:
        out[y1:y2, x1:x2] = 255
    return out


ONE = {"image": "image"}


def pixels(family, name, step, *arrays, **more):
    frames = [{"image": picture(a, n)} for n, a in enumerate(arrays, start=1)]
    case(family, name, {"image": "$inputs.image", **step}, ONE, *frames, **more)


pixels("convert_grayscale", "a scene", {}, scene(), pixels_within=0.01)
for kind, size in [("average", 5), ("average", 4), ("gaussian", 5), ("gaussian", 9), ("gaussian", 4), ("median", 3), ("median", 6),
                   ("bilateral", 5)]:
    pixels("image_blur", f"{kind} {size}", {"blur_type": kind, "kernel_size": size}, scene(), pixels_within=0.6)
for kind in ["binary", "binary_inv", "trunc", "tozero", "tozero_inv"]:
    pixels("threshold", kind, {"threshold_type": kind, "thresh_value": 100, "max_value": 200}, scene(), pixels_within=0.01)
for version, operation in [(1, "Erosion"), (1, "Closing"), (1, "Black Hat"), (2, "Dilation"), (2, "Opening"),
                           (2, "Opening then Closing"), (2, "Gradient"), (2, "Top Hat")]:
    pixels(
        "morphological_transformation", operation,
        {"type": f"roboflow_core/morphological_transformation@v{version}", "kernel_size": 2 + version, "operation": operation},
        scene(), pixels_within=0.01,
    )
pixels("contrast_equalization", "stretching", {"equalization_type": "Contrast Stretching"}, scene(), pixels_within=1.0)
pixels("contrast_equalization", "histogram", {"equalization_type": "Histogram Equalization"}, scene(), pixels_within=2.0)
pixels("contrast_equalization", "histogram of a few numbers", {"equalization_type": "Histogram Equalization"}, scene() // 6 + 90, pixels_within=1.0)
pixels("contrast_enhancement", "plain", {}, scene(), pixels_within=0.6)
pixels(
    "contrast_enhancement", "all of it", {"clip_limit": 5, "contrast_multiplier": 1.4, "normalize_brightness": True}, scene(),
    pixels_within=1.0,
)
pixels("pixel_color_count", "red", {"target_color": "#dc281e", "tolerance": 15}, scene())
pixels("pixel_color_count", "a triple", {"target_color": "(220, 40, 30)", "tolerance": 5}, scene())
pixels("camera_focus", "of edges", {"type": "roboflow_core/camera_focus@v1"}, scene(80, 60), scene(), pixels_within=60.0)
case(
    "camera_focus", "of boxes",
    {"type": "roboflow_core/camera_focus@v2", "image": "$inputs.image", "detections": "$inputs.boxes"}, KINDS,
    {"image": picture(scene(80, 60)), "boxes": boxes([80, 60], box(20, 15, 30, 20), box(500, 15, 3, 2), box(60, 40, 9, 9))},
    pixels_within=100.0,
)
shapes = blobs((2, 2, 10, 8), (12, 5, 25, 18))
shapes[9:13, 15:20] = 0
pixels("contours_detection", "two shapes and a hole", {"line_thickness": 1}, shapes, blobs(), pixels_within=20.0)

street = [scene(seed=s) for s in range(12)]
walker = [scene(seed=s) for s in range(20, 26)]
for step, array in enumerate(walker):
    array[3:15, 1 + 4 * step:9 + 4 * step] = [250, 250, 250]
pixels("background_subtraction", "a walker", {"threshold": 30, "history": 10}, *street, *walker, pixels_within=2.0)
for zone in [None, [[0, 0], [14, 0], [14, 19], [0, 19]]]:
    pixels(
        "motion_detection", f"a walker in {zone}",
        {"threshold": 30, "history": 10, "minimum_contour_area": 30, **({"detection_zone": zone} if zone else {})},
        *street, *walker, *street[:3], within=0.12,
    )
case(
    "template_matching", "two places",
    {"image": "$inputs.image", "template": "$inputs.template", "matching_threshold": 0.9}, {"image": "image", "template": "image"},
    {"image": picture(shapes), "template": picture(blobs((2, 2, 10, 8), size=(11, 12)))},
)
lens = {"fx": 22.0, "fy": 23.0, "cx": 14.0, "cy": 10.0, "k1": 0.1, "k2": -0.02, "k3": 0.0, "p1": 0.001, "p2": -0.002}
pixels("camera_calibration", "a lens", {"type": "roboflow_core/camera-calibration@v1", **lens}, scene(), pixels_within=4.0)
pixels(
    "camera_calibration", "a fisheye",
    {"type": "roboflow_core/camera-calibration@v1", **lens, "k1": -0.3, "use_fisheye_model": True}, scene(), pixels_within=1.5,
)


def traffic(seed, frames=24, size=(320, 200)):
    """Boxes that cross, hide, come, go and are told apart badly."""
    import random

    dice = random.Random(seed)
    things = [
        (dice.uniform(20, 300), dice.uniform(30, 170), dice.uniform(-6, 6), dice.uniform(-3, 3), dice.uniform(18, 40),
         dice.uniform(24, 60), dice.randrange(0, 7), dice.randrange(12, 30))
        for _ in range(5)
    ]
    out = []
    for t in range(frames):
        rows = []
        for i, (x, y, vx, vy, w, h, start, end) in enumerate(things):
            if not start <= t < end or dice.random() < 0.12:
                continue
            noise = [dice.gauss(0, 1.2) for _ in range(4)]
            score = round(dice.choice([0.95, 0.9, 0.85, 0.75, 0.65, 0.5, 0.3]), 2)
            rows.append(box(round(x + vx * t + noise[0], 2), round(y + vy * t + noise[1], 2), round(w + noise[2], 2),
                            round(h + noise[3], 2), confidence=score, detection_id=f"d{i}"))
        if dice.random() < 0.3:
            rows.append(box(round(dice.uniform(10, 310), 2), round(dice.uniform(10, 190), 2), 30.0, 40.0,
                            confidence=0.8, detection_id="d20"))
        out.append({"image": picture(np.zeros((2, 2, 3), np.uint8), t + 1), "boxes": boxes(size, *rows)})
    return out


for family, variants in {
    "trackers_sort": [{}, {"minimum_iou_threshold": 0.1, "minimum_consecutive_frames": 1, "lost_track_buffer": 4}],
    "trackers_bytetrack": [{}, {"minimum_consecutive_frames": 3, "lost_track_buffer": 5, "high_conf_det_threshold": 0.8}],
    "trackers_ocsort": [{}, {"delta_t": 1, "direction_consistency_weight": 0.5, "minimum_consecutive_frames": 2,
                             "high_conf_det_threshold": 0.4, "lost_track_buffer": 6}],
    "trackers_botsort": [{}, {"instant_first_frame_activation": True, "minimum_consecutive_frames": 3,
                              "lost_track_buffer": 5, "track_activation_threshold": 0.5}],
}.items():
    for i, more in enumerate(variants):
        case(
            family, f"with {more}", {"image": "$inputs.image", "detections": "$inputs.boxes", **more}, KINDS,
            *traffic(i + 1),
        )


# Points, directions and codes.
def spots(width=96, height=80, turn=0.0, move=(0.0, 0.0)):
    """Soft blobs of several sizes, turned around the middle and moved."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    x, y = x - width / 2 - move[0], y - height / 2 - move[1]
    angle = np.radians(turn)
    x, y = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    light = np.full(x.shape, 20.0)
    for cx, cy, r, h in [(-24, -18, 4, 150), (8, -14, 6, 110), (-10, 16, 3, 190), (22, 12, 5, 130), (-2, -2, 2.5, 90)]:
        light += h * np.exp(-((x - cx) ** 2 + 1.7 * (y - cy) ** 2 + 0.5 * (x - cx) * (y - cy)) / (2.0 * r * r))
    rgb = np.stack([light * 0.9, light, light * 0.7], axis=-1)
    return np.clip(rgb, 0, 255).astype(np.uint8)


TWO = {"a": "image", "b": "image"}
pixels("sift", "blobs and nothing", {}, spots(), spots(turn=35.0), np.full((30, 40, 3), 90, np.uint8), pixels_within=255.0)
case(
    "sift_comparison", "moved and turned",
    {"type": "roboflow_core/sift_comparison@v2", "input_1": "$inputs.a", "input_2": "$inputs.b", "matcher": "BFMatcher",
     "good_matches_threshold": 5},
    TWO,
    {"a": picture(spots()), "b": picture(spots(turn=20.0, move=(3.0, -4.0)))},
    {"a": picture(spots()), "b": picture(scene(96, 80))},
    {"a": picture(spots()), "b": picture(np.full((30, 40, 3), 90, np.uint8))},
)


def striped(tilt, width=96, height=72):
    y, x = np.mgrid[0:height, 0:width]
    angle = np.radians(tilt)
    light = np.where(np.mod(x * np.cos(angle) + y * np.sin(angle), 20) < 10, 220, 30)
    return np.repeat(light[:, :, None], 3, axis=-1).astype(np.uint8)


# Edges are rounded in another way, and a picture of one degree more is a pixel larger.
for more in [{}, {"target_orientation": "horizontal"}, {"target_orientation": "either", "skip_below_degrees": 12.0}]:
    pixels("auto_rotate_on_edges", f"with {more}", more, striped(9.0), striped(-25.0), striped(0.0),
           np.full((30, 40, 3), 90, np.uint8), within=0.03, pixels_within=20.0)


def in_midst(code, room=30):
    """A code of 0 and 255 in the midst of light."""
    grey = np.pad(np.asarray(code, dtype=np.uint8), room, constant_values=255)
    return np.repeat(grey[:, :, None], 3, axis=-1)


def codes():
    import qrcode
    import zxingcpp

    qr = qrcode.QRCode(box_size=4, border=0)
    qr.add_data("Gate 7, hall 2")
    qr.make()
    square = np.where(np.kron(qr.get_matrix(), np.ones((4, 4))) > 0, 0, 255)
    bars = zxingcpp.write_barcode(zxingcpp.BarcodeFormat.EAN13, "4006381333931", width=240, height=60)
    return in_midst(square), in_midst(np.array(bars))


square, bars = codes()
# The corners of a code are known to a few pixels. Where there is no QR code, the peer fails.
for family, arrays in {"qr_code_detector": [square], "barcode_detector": [bars, square]}.items():
    frames = [{"images": picture(a, n)} for n, a in enumerate(arrays, start=1)]
    case(family, "a QR code and a bar code", {"images": "$inputs.images"}, {"images": "image"}, *frames, within=0.06)
