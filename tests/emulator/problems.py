#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random problems for one kind of kernel, run on the emulator: problems.py THEME COUNT [SEED].
Says what failed, how often candidates ran, and what the kernels that ran were like."""

import collections
import os
import random
import re
import subprocess
import sys
import tempfile

FAR = [
    "gelu",
    "silu",
    "mish",
    "gelu_tanh",
    "softplus",
    "tanh",
    "selu",
    "elu",
    "sigmoid",
    "add #t",
    "mul #t",
    "leaky_relu 0.2",
    "mul @m",
    "hardswish",
]
LONG = ["gelu", "silu", "mish", "gelu_tanh", "softplus", "tanh", "log_softmax c"]


def axis(r, largest):
    k, s, p = r.choice(
        [
            (2, 2, 0),
            (3, 2, 1),
            (4, 2, 1),
            (3, 1, 1),
            (3, 3, 0),
            (4, 4, 0),
            (5, 2, 2),
            (3, 2, 0),
            (4, 3, 1),
            (1, 1, 0),
            (2, 3, 0),
            (5, 1, 1),
            (6, 2, 2),
        ]
    )
    d = r.choice([1, 1, 1, 1, 2])
    return dict(
        i=r.randint(2, largest),
        k=k,
        s=s,
        d=d,
        p=min(p, d * (k - 1)),
        pe=min(p, d * (k - 1)) if r.random() < 0.7 else r.randint(0, d * (k - 1)),
        op=r.randint(0, max(s, d) - 1) if r.random() < 0.3 else 0,
    )


def size(a):
    return (a["i"] - 1) * a["s"] - a["p"] - a["pe"] + a["d"] * (a["k"] - 1) + a["op"] + 1


def geometry(r, nd, largest, n, ci, co, groups, most=6e6):
    while True:
        axes = [
            axis(r, largest if i + 1 < nd or r.random() < 0.5 else 3 * largest) for i in range(nd)
        ]
        if r.random() < 0.4:
            for i, a in enumerate(axes):
                axes[i] = dict(axes[0], i=a["i"])
        macs, outputs = n * ci * co / groups, n * co
        for a in axes:
            macs *= a["i"] * a["k"]
            outputs *= size(a)
        if macs <= most and 0 < outputs <= 60000 and min(size(a) for a in axes) > 0:
            break
    text = f"n{n} ci{ci} co{co} g{groups}"
    for name in ("in", "k", "s", "d", "p", "pe", "op"):
        text += f" {name}" + "x".join(str(a[name if name != "in" else "i"]) for a in axes)
    return text + (" bias" if r.random() < 0.7 else "")


def types(r, dense=True):
    text = (
        r.choice(["x=f16 w=f16", "x=bf16 w=bf16", "math=tf32", "x=f16 math=tf32", "math=tf32"])
        if dense
        else r.choice(["", "", "x=f16", "x=bf16 w=bf16", "w=f16"])
    )
    text += " y=" + r.choice(["f32", "f16", "bf16"])
    return text + r.choice(["", "", " xlayout=ndhwc"]) + r.choice(["", "", " ylayout=ndhwc"])


def number(ops):
    """Names of tensors and parameters are told apart."""
    out, count = [], 0
    for op in ops:
        while re.search(r"([#@])[tm]\b", op):
            op = re.sub(r"([#@])([tm])\b", lambda m, c=count: f"{m[1]}{m[2]}{c}", op, count=1)
            count += 1
        out.append(op)
    return out


def tensors(r, nd):
    axes = ["nc" + "dhw"[3 - nd :], "nc", "c", "n" + "dhw"[3 - nd :], "dhw"[3 - nd :]]
    return "#t" if r.random() < 0.6 else f"#t[{r.choice(axes)}]" + r.choice(["", ":f16", ":bf16"])


def chain(r, nd, pool):
    ops = [r.choice(LONG[:6]) for _ in range(r.randint(1, 3))] + [
        r.choice(FAR) for _ in range(r.randint(0, 2))
    ]
    r.shuffle(ops)
    ops = [o.replace("#t", tensors(r, nd)) for o in ops]
    if pool:
        ops.insert(r.randint(0, len(ops)), pool)
    return ops


def any_pool(r):
    return r.choice(
        [
            "max_pool 2",
            "max_pool 3",
            "avg_pool 2",
            "extreme_pool 2 dir=-1",
            "extreme_pool 2 dir=@m",
            "max_pool 3 s2",
            "max_pool 2 s1",
            "max_pool 1 s2",
            "max_pool 3 s2 p1",
            "max_pool 2x2x2 s2x2x1",
            "extreme_pool 3 s2 p1 dir=@m",
            "max_pool 2 s2 d2",
            "max_pool 1x1x2 s1x1x2",
            "avg_pool 3 s2 p1 exclude_pad",
            "max_pool 4",
        ]
    )


def fit_pool(pool, nd):
    return re.sub(r"\d+x\d+x\d+", lambda m: "x".join(m[0].split("x")[3 - nd :]), pool)


def write_mma(r):
    nd = r.randint(1, 3)
    groups = r.choice([1, 1, 1, 2, 3])
    text = geometry(
        r,
        nd,
        r.choice([5, 9, 14]),
        r.choice([1, 2, 3]),
        groups * r.choice([2, 3, 4, 5, 8, 8, 12, 16, 17, 24, 40]),
        groups * r.choice([4, 5, 7, 8, 9, 16, 17, 24, 32, 40]),
        groups,
    )
    ops = (
        chain(r, nd, fit_pool(any_pool(r), nd) if r.random() < 0.45 else None)
        if r.random() < 0.85
        else ["relu"]
    )
    return f"{text} {types(r)}", ops, "cuda-mma"


def write_pool(r):
    nd = r.randint(1, 3)
    groups = r.choice([1, 1, 1, 2, 3])
    depthwise = r.random() < 0.25
    if depthwise:
        groups = r.randint(2, 9)
        ci, co = groups, groups * r.choice([1, 1, 2])
    else:
        ci, co = (
            groups * r.choice([1, 2, 3, 4, 8, 16]),
            groups * r.choice([1, 2, 3, 5, 8, 16, 17, 32]),
        )
    text = geometry(r, nd, r.choice([5, 9]), r.choice([1, 2, 3]), ci, co, groups, 3e6)
    ops = [r.choice(FAR) for _ in range(r.randint(0, 2))]
    pool = any_pool(r)
    while pool.startswith("avg"):
        pool = any_pool(r)
    ops = [o.replace("#t", tensors(r, nd)) for o in ops]
    ops.insert(r.randint(0, len(ops)), fit_pool(pool, nd))
    return (
        f"{text} {types(r, r.random() < 0.6)}",
        ops,
        "cuda-ffma,cuda-gemm,cuda-flat,cuda-depthwise,cuda-scatter",
    )


def write_poolfit(r):
    """Windows that are the convolution's cells: what kernels on the tensor cores pool."""
    nd = r.randint(1, 3)
    groups = r.choice([1, 1, 1, 2])
    few = r.random() < 0.4
    ci, co = (
        (r.choice([2, 3, 4, 8]), r.choice([4, 5, 8, 16, 17]))
        if few
        else (r.choice([8, 16, 17, 24]), r.choice([1, 2, 3, 5, 8, 16, 32]))
    )
    text = geometry(
        r, nd, r.choice([5, 9, 14]), r.choice([1, 2, 3]), groups * ci, groups * co, groups, 3e6
    )
    strides = re.search(r" s(\S+)", text)[1]
    ops = [r.choice(FAR).replace("#t", tensors(r, nd)) for _ in range(r.randint(0, 2))]
    ops.insert(
        r.randint(0, len(ops)),
        r.choice(
            [
                f"max_pool {strides}",
                f"max_pool {strides}",
                f"extreme_pool {strides} dir=@m",
                f"extreme_pool {strides} dir=-1",
                f"max_pool {strides} ceil",
            ]
        ),
    )
    return (
        f"{text} {types(r)}",
        ops,
        "cuda-gemm,cuda-flat,cuda-scatter,cuda-mma,cuda-phase,cuda-panel",
    )


def write_flat(r):
    """Few input channels; cells often lie one input and one output apart along W."""
    nd = r.randint(1, 3)
    groups = r.choice([1, 1, 1, 2])
    ci, co = groups * r.choice([1, 2, 3, 4, 4, 5, 8]), groups * r.choice([4, 8, 9, 16, 17, 24])
    size = [r.choice([3, 6, 9, 14]) for _ in range(nd - 1)]
    size.append(r.choice([8, 12, 15, 16, 17, 20, 31, 32, 33, 63]))
    k, s, p = r.choice(
        [(3, 2, 1), (3, 2, 1), (2, 1, 0), (2, 1, 1), (3, 1, 1), (4, 2, 1), (5, 1, 2)]
    )
    text = f"n{r.choice([1, 2, 3])} ci{ci} co{co} g{groups}"
    text += f" in{'x'.join(map(str, size))} k{k} s{s} p{p}"
    ops = [r.choice(FAR).replace("#t", tensors(r, nd)) for _ in range(r.randint(0, 2))]
    if s > 1:
        ops.insert(0, r.choice(["avg_pool 2", "scale 0.5 | avg_pool 2", "max_pool 2"]))
    if s > 1 and r.random() < 0.3:
        ops.insert(0, r.choice(["relu", "leaky_relu 0.2"]))
    return f"{text}{r.choice(['', ' bias'])} {types(r)}", ops, "cuda-flat"


def write_phase(r):
    nd = r.choice([1, 2, 2, 3, 3])
    groups = r.choice([1, 1, 1, 2])
    text = geometry(
        r,
        nd,
        r.choice([5, 9, 17, 30]),
        r.choice([1, 2, 3]),
        groups * r.choice([2, 3, 4, 8, 8, 12, 16, 24, 32]),
        groups * r.choice([4, 7, 8, 16, 17, 24, 32, 64]),
        groups,
        8e6,
    )
    ops = (
        []
        if r.random() < 0.4
        else chain(r, nd, None)
        if r.random() < 0.5
        else [r.choice(FAR).replace("#t", tensors(r, nd))]
    )
    return f"{text} {types(r)}", ops, "cuda-phase"


def write_rows(r):
    """Long rows of y that are no whole sectors."""
    while True:
        text, ops, candidates = write_phase(r)
        width = re.search(r" in(?:\d+x)*(\d+)", text)
        stride = int(re.search(r" s(?:\d+x)*(\d+)", text)[1])
        if "ylayout" not in text and 68 <= (int(width[1]) - 1) * stride <= 220 and stride > 1:
            return text, ops, candidates


def write_panel(r):
    nd = r.choice([1, 2, 2, 3, 3])
    groups = r.choice([1, 1, 1, 2])
    text = geometry(
        r,
        nd,
        r.choice([5, 9, 17]),
        r.choice([1, 2, 3]),
        groups * r.choice([8, 16, 17, 24, 32, 64]),
        groups * r.choice([8, 16, 17, 32, 40, 64]),
        groups,
        8e6,
    )
    ops = (
        chain(r, nd, None)
        if r.random() < 0.4
        else [r.choice(FAR).replace("#t", tensors(r, nd)) for _ in range(r.randint(0, 1))]
    )
    if r.random() < 0.75:
        ops.insert(r.randint(0, len(ops)), r.choice(["add ", "mul ", "sub "]) + tensors(r, nd))
    return f"{text} {types(r)}", ops, "cuda-panel"


def write_panelrows(r):
    """Short rows of y along W that are no whole sectors, with tensors in the tail, or a pool of
    what a cell has."""
    while True:
        text, ops, candidates = write_panel(r)
        if "ylayout" in text or not any("#t" in op for op in ops):
            continue
        strides = re.search(r" s(\S+)", text)[1].split("x")
        if r.random() < 0.3 and len(set(strides)) == 1 and strides[0] in ("2", "4"):
            ops.insert(
                r.randint(0, len(ops)),
                r.choice(["max_pool ", "avg_pool ", "extreme_pool "]) + strides[0],
            )
            ops = [op + " dir=-1" if op.startswith("extreme") else op for op in ops]
        return text, ops, candidates


def write_direct(r):
    """Few input channels a group, whose windows threads of the FP32 units load by themselves."""
    nd = r.choice([1, 2, 2, 3, 3])
    groups = r.choice([1, 1, 1, 2, 3])
    text = geometry(
        r,
        nd,
        r.choice([5, 9, 14]),
        r.choice([1, 2, 3, 5]),
        groups * r.choice([1, 2, 3, 3, 4]),
        groups * r.choice([1, 2, 3, 5, 6, 8, 12, 16, 17, 24]),
        groups,
    )
    ops = [r.choice(FAR).replace("#t", tensors(r, nd)) for _ in range(r.randint(0, 2))]
    strides = re.search(r" s(\S+)", text)[1]
    if r.random() < 0.3 and len(set(strides.split("x"))) == 1:
        ops.insert(r.randint(0, len(ops)), r.choice(["max_pool ", "avg_pool "]) + strides[0])
    return f"{text} {types(r, r.random() < 0.3)}".replace(" xlayout=ndhwc", ""), ops, "cuda-ffma"


# What is written at the top of the file that only these kernels have.
MARKS = [
    ("ffma direct", "// The FP32 units where a group has few input channels"),
    ("ffma", "// Inner product on the FP32 units. A thread holds CELLS"),
    ("flat", "// Inner product on the tensor cores for few input channels"),
    ("scatter", "// Inner product on the tensor cores for few output channels"),
    ("depthwise", "// One input channel a group: nothing to share"),
    ("gemm sync", "// A tile of many channels where each warp multiplies"),
    ("gemm wgmma", "// A tile of many channels on sm_90a"),
    ("panel rows", "enum { ROW_BY_ROW"),
    ("panel direct", "// Inner product for many channels on the tensor cores of sm_90a"),
    ("phase rows", "void copy_together("),
    ("phase direct", "MOST_UNROLLED"),
    ("mma", "Finishing what a lane has: of every channel"),
]


def kinds_of(path):
    """What is worth counting of a kernel's text."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    name = next((name for name, mark in MARKS if mark in text), None)
    if not name:
        return []
    define = dict(re.findall(r"#define (\w+) (.*)", text))
    extra = re.search(r"EXTRA_FLOATS = (\d+) \* STRIP \* RT \+ (\d+)", text)
    about = [name]
    if name.startswith(("mma", "phase", "panel")):
        about.append("long tail" if define.get("ROLLED") == "1" else "short tail")
    if name == "mma" and "wgmma.mma_async" in text:
        about.append("wgmma")
    if extra and extra.groups() != ("0", "0"):
        about.append("reads tensors")
    if "float most[2]" in text:
        about.append("maximum")
    elif "float pooled = 0" in text:
        about.append("average")
    found = [", ".join(about)]
    if name == "flat":
        found.append(f"flat: {('single cells', 'strips')[int(define['STRIPS'])]}")
        if define["STRIPS"] == "1":
            found.append(f"flat: strips stored {'whole' if define['STRIP'] == '4' else 'by cells'}")
            found.append(f"flat: strips, {'vectors' if define['VX'] == '4' else 'elements'} of x")
    if name.startswith("phase"):
        main = re.search(r"HELD = (\d+), PRODUCTS = (\d+)", text)
        if main and "STEPS" in define:
            most = int(re.search(r"MOST_UNROLLED = (\d+)", text)[1])
            unrolled = int(define["STEPS"]) * int(main[1]) * int(main[2]) <= most
            found.append(f"phase: products {'unrolled' if unrolled else 'a step at a time'}")
        if define.get("REST") == "1":
            found.append("phase: last channels by themselves")
        if name == "phase direct" and define.get("SUMS_POOLED") == "1" and "SLOTS = 1," not in text:
            found.append("phase: sums meet")
        found.append(f"phase: {'gaps' if define.get('GAPS') == '1' else 'no gaps'}")
    if name == "phase rows":
        of_cell = int(define["Y_CELL2"])
        vector = 4 if define["Y_TYPE"] == "F32" else 8
        pieces = (int(define["GROUPS"]) * 8 * of_cell // vector + 7) // 8
        found.append(f"phase: rows copied {'one by one' if pieces > 2 else 'by twos'}")
    return found


def run(theme, text, seed, candidates):
    """How test_random ended, and what it noted: sources that were compiled, candidates that ran."""
    with tempfile.TemporaryDirectory() as folder:
        used = os.path.join(folder, "used")
        env = dict(os.environ, EMULATOR_CANDIDATES=candidates, EMULATOR_USED=used)
        command = [os.environ["EMULATOR_PROGRAM"], "--device", "cuda", "--seed", str(seed)]
        try:
            done = subprocess.run(
                [*command, "--replay", text], env=env, text=True, capture_output=True, timeout=240
            )
        except subprocess.TimeoutExpired:
            print(f"TIMEOUT {theme} seed {seed}: {text}", flush=True)
            return "failed", set(), set()
        noted = set()
        if os.path.exists(used):
            with open(used, encoding="utf-8") as file:
                noted = set(file.read().split())
    sources = {name for name in noted if "/" in name}
    return judge(theme, text, seed, done), sources, noted - sources


def judge(theme, text, seed, done):
    if done.returncode == 0:
        return "passed"
    said = done.stdout + done.stderr
    # drawn so that a window is larger than what it pools
    if "upconv_output_shape" in said and "returned 1, not 0 (UPCONV_OK)" in said:
        return "invalid"
    lines = [line for line in said.splitlines() if not line.startswith("cuda:0")][:14]
    print(f"FAILED {done.returncode} {theme} seed {seed}: {text}", *lines, sep="\n  ", flush=True)
    return "failed"


def main():
    theme, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    kinds, ends = collections.Counter(), collections.Counter()
    for i in range(count):
        text, ops, candidates = globals()["write_" + theme](random.Random(f"{theme} {seed} {i}"))
        text = " | ".join([text, *number(ops)])
        end, sources, ran = run(theme, text, seed * 1000 + i, candidates)
        ends[end] += 1
        kinds.update(kind for source in sources for kind in kinds_of(source))
        kinds.update(f"candidate {name}" for name in ran)
    passed, failed, invalid = (ends[end] for end in ("passed", "failed", "invalid"))
    print(f"{theme}: {passed} passed, {failed} failed, {invalid} are no problems")
    for kind, number_of in sorted(kinds.items()):
        print(f"  {number_of:5} {kind}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
