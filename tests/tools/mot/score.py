"""HOTA, MOTA, IDF1 and identity switches of trackers' outputs, by TrackEval.

    score.py TRUTH_DIR RESULTS_DIR… [--json FILE]

TRUTH_DIR/<sequence>/ has gt.txt (frame,id,x,y,w,h,consider,class,visibility) and seqinfo.json (set, fps, frames, width,
height); mot-track writes RESULTS_DIR/<sequence>.txt. Groups are the values of `set`. Each data set has its rules, by
TrackEval's dataset classes: MOT15 scores everything marked as considered; MOT17 and MOT20 first drop boxes on distractors
(classes 2, 7, 8, 12); KITTI drops boxes on vans and hidden cars (class 12), and unmatched boxes that are small or in an
unlabelled region (class 0). Prints HOTA / MOTA / IDF1 / IDSW, a line for each sequence and group.
"""

import argparse
import contextlib
import io
import json
import os
import tempfile

import trackeval

QUIET = {"PRINT_CONFIG": False}
KITTI_CLASS = {0: "DontCare", 1: "Car", 12: "Van"}


def rows(path):
    with open(path) as file:
        return [line.rstrip("\n").split(",") for line in file if line.strip()]


def kitti_line(row, kind, score=None):
    frame, track = int(row[0]) - 1, int(row[1])
    x, y, w, h = (float(v) for v in row[2:6])
    fields = [frame, track, kind, 0, 0, 0, x, y, x + w, y + h, -1, -1, -1, 0, 0, 0, 0]
    return " ".join(str(f) for f in fields + ([score] if score is not None else [])) + "\n"


def write(path, lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.writelines(lines)


def kitti(truth, results, names, infos, folder):
    for name in names:
        labels = [kitti_line(r, KITTI_CLASS[int(r[7])]) for r in rows(os.path.join(truth, name, "gt.txt"))]
        write(os.path.join(folder, "gt", "label_02", name + ".txt"), labels)
        tracks = [kitti_line(r, "Car", 1) for r in rows(os.path.join(results, name + ".txt"))]
        write(os.path.join(folder, "tracks", "one", "data", name + ".txt"), tracks)
    seqmap = [f"{name} empty 000000 {infos[name]['frames']:06d}\n" for name in names]
    write(os.path.join(folder, "gt", "evaluate_tracking.seqmap.training"), seqmap)
    config = {
        "GT_FOLDER": os.path.join(folder, "gt"),
        "TRACKERS_FOLDER": os.path.join(folder, "tracks"),
        "CLASSES_TO_EVAL": ["car"],
    }
    return trackeval.datasets.Kitti2DBox(config | QUIET), "car"


def mot(benchmark, truth, results, names, infos, folder):
    for name in names:
        tracks = [",".join(r) + "\n" for r in rows(os.path.join(results, name + ".txt"))]
        write(os.path.join(folder, "tracks", "one", "data", name + ".txt"), tracks)
    config = {
        "GT_FOLDER": truth,
        "GT_LOC_FORMAT": "{gt_folder}/{seq}/gt.txt",
        "TRACKERS_FOLDER": os.path.join(folder, "tracks"),
        "SEQ_INFO": {name: infos[name]["frames"] for name in names},
        "BENCHMARK": benchmark,
        "SKIP_SPLIT_FOL": True,
    }
    return trackeval.datasets.MotChallenge2DBox(config | QUIET), "pedestrian"


def group_scores(group, truth, results, names, infos):
    """Scores by sequence; those of all under COMBINED_SEQ."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        if group.startswith("KITTI"):
            dataset, kind = kitti(truth, results, names, infos, folder)
        else:
            dataset, kind = mot(group, truth, results, names, infos, folder)
        metrics = [trackeval.metrics.HOTA(), trackeval.metrics.CLEAR(QUIET), trackeval.metrics.Identity(QUIET)]
        settings = {"PRINT_RESULTS": False, "OUTPUT_SUMMARY": False, "OUTPUT_DETAILED": False, "PLOT_CURVES": False}
        settings |= {"TIME_PROGRESS": False, "LOG_ON_ERROR": None} | QUIET
        found, _ = trackeval.Evaluator(settings).evaluate([dataset], metrics)
    scores = {}
    for name, by_class in found[dataset.get_name()]["one"].items():
        by_metric = by_class[kind]
        scores[name] = {
            "HOTA": 100 * float(by_metric["HOTA"]["HOTA"].mean()),
            "MOTA": 100 * float(by_metric["CLEAR"]["MOTA"]),
            "IDF1": 100 * float(by_metric["Identity"]["IDF1"]),
            "IDSW": int(by_metric["CLEAR"]["IDSW"]),
        }
    return scores


def score(truth, results):
    """`{group: {sequence or COMBINED_SEQ: {HOTA, MOTA, IDF1, IDSW}}}` of one tracker."""
    groups, infos = {}, {}
    for name in sorted(os.listdir(truth)):
        path = os.path.join(truth, name, "seqinfo.json")
        if os.path.exists(path):
            with open(path) as file:
                infos[name] = json.load(file)
            groups.setdefault(infos[name]["set"], []).append(name)
    return {g: group_scores(g, truth, results, names, infos) for g, names in sorted(groups.items())}


def cell(s):
    return f"{s['HOTA']:.1f} / {s['MOTA']:.1f} / {s['IDF1']:.1f} / {s['IDSW']}"


def table(truth, folders):
    """Prints the scores of all trackers by sequence and by group, and returns them."""
    trackers = {os.path.basename(os.path.normpath(folder)): score(truth, folder) for folder in folders}
    print("| sequence | " + " | ".join(trackers) + " |")
    print("|---" * (1 + len(trackers)) + "|")
    first = next(iter(trackers.values()))
    for group, by_sequence in first.items():
        for name in by_sequence:
            cells = [cell(scores[group][name]) for scores in trackers.values()]
            label = f"**{group} combined**" if name == "COMBINED_SEQ" else name
            print(f"| {label} | " + " | ".join(cells) + " |")
    print("\n| tracker | " + " | ".join(first) + " |")
    print("|---" * (1 + len(first)) + "|")
    for tracker, scores in trackers.items():
        print(f"| {tracker} | " + " | ".join(cell(scores[group]["COMBINED_SEQ"]) for group in first) + " |")
    return trackers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("truth")
    parser.add_argument("results", nargs="+")
    parser.add_argument("--json", help="file for the same numbers, unrounded")
    args = parser.parse_args()
    trackers = table(args.truth, args.results)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(trackers, file, indent=1)


if __name__ == "__main__":
    main()
