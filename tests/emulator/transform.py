#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a preprocessed kernel text into C++ for the emulator: asm statements become calls, kernels
get an entry point."""

import re
import sys


def end_of_string(text, at):
    """The index of the quote that ends the string which begins at `at`."""
    at += 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at


def find_end(text, at):
    """The index behind the parenthesis that matches the one at `at`."""
    depth = 0
    while True:
        c = text[at]
        if c == '"':
            at = end_of_string(text, at)
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1


def split(text, separator):
    parts, begin, at = [], 0, 0
    while at < len(text):
        c = text[at]
        if c == '"':
            at = end_of_string(text, at)
        elif c in "([{":
            at = find_end(text, at) - 1
        elif c == separator:
            parts.append(text[begin:at])
            begin = at + 1
        at += 1
    parts.append(text[begin:])
    return parts


def operands(text):
    found = []
    for part in split(text, ","):
        part = part.strip()
        if part:
            constraint, expression = re.match(r'"([^"]*)"\s*\((.*)\)$', part, re.S).groups()
            found.append(
                f"(unsigned long long)({expression})" if constraint == "l" else f"({expression})"
            )
    return found


TYPES = {"tf32": 0, "f16": 1, "bf16": 2}


def wgmma(match, outs, ins):
    d = ", ".join(f"&{o}" for o in outs)
    kind = "shared" if len(ins) == 3 else "registers"
    return (
        f"do {{ float *emu_d[] = {{{d}}}; emu_wgmma_{kind}({TYPES[match[2]]}, {match[1]}, emu_d, "
        f"{', '.join(ins)}); }} while (0)"
    )


def mma(match, outs, ins):
    words = 8 if len(ins) == 6 else 4
    a = ins[:-2] if words == 8 else ins[:2] + ["0u", "0u"]
    b = ins[-2:] if words == 8 else ins[2:] + ["0u"]
    return f"emu_mma({TYPES[match[1]]}, {words}, {', '.join(outs + a + b)})"


def call(name, *more, cast=()):
    def write(match, outs, ins):
        ins = [f"(const void *){x}" if i in cast else x for i, x in enumerate(ins)]
        return f"{name}({', '.join(outs + ins + list(more))})"

    return write


def nothing(_match, _outs, _ins):
    return "((void)0)"


RULES = [
    (r"^$", nothing),
    (r"^mov\.u32 %0, %%tid\.x;$", lambda m, o, i: f"{o[0]} = threadIdx.x"),
    (r"^bar\.sync ", lambda m, o, i: f"emu_barrier({', '.join(i if len(i) == 2 else ['1'] + i)})"),
    (r"^mbarrier\.init", call("emu_mbarrier_init")),
    (r"^mbarrier\.arrive\.shared", lambda m, o, i: f"emu_mbarrier_arrive({i[0]}, 0)"),
    (
        r"^\{ \.reg \.pred first;.*mbarrier\.arrive",
        lambda m, o, i: f"((void)({i[1]} == 0 ? emu_mbarrier_arrive({i[0]}, 0) : (void)0))",
    ),
    (
        r"^\{ \.reg \.pred ours;.*mbarrier\.arrive",
        lambda m, o, i: (
            f"do {{ unsigned emu_b = {i[0]}; if (emu_b) emu_mbarrier_arrive(emu_b, 0); }} while (0)"
        ),
    ),
    (r"^mbarrier\.arrive\.expect_tx", call("emu_mbarrier_arrive")),
    (r"mbarrier\.try_wait\.parity", call("emu_mbarrier_wait")),
    (r"^cp\.async\.bulk\.shared::cluster\.global\.mbarrier", call("emu_bulk_to_shared", cast=(1,))),
    (
        r"^cp\.async\.bulk\.global\.shared::cta",
        lambda m, o, i: f"emu_bulk_to_global((void *){i[0]}, {i[1]}, {i[2]})",
    ),
    (r"^cp\.async\.bulk\.commit_group", call("emu_bulk_commit")),
    (r"^cp\.async\.bulk\.wait_group(?:\.read)? (\d)", lambda m, o, i: f"emu_bulk_wait({m[1]})"),
    (r"^cp\.async\.bulk\.tensor\.5d", call("emu_bulk_tensor", cast=(1,))),
    (r"^cp\.async\.ca\.shared\.global", call("emu_copy_async", cast=(1,))),
    (
        r"^cp\.async\.cg\.shared\.global",
        lambda m, o, i: f"emu_copy_async({i[0]}, (const void *){i[1]}, 16, {i[2]})",
    ),
    (r"^cp\.async\.wait_all", lambda m, o, i: "emu_copy_wait(-1)"),
    (r"^cp\.async\.commit_group", call("emu_copy_commit")),
    (r"^cp\.async\.wait_group (\S+);", lambda m, o, i: f"emu_copy_wait({i[0] if i else m[1]})"),
    (r"^fence\.", nothing),
    (r"^setmaxnreg", nothing),
    (r"^griddepcontrol", nothing),
    (r"prefetch\.global", nothing),
    (r"^wgmma\.fence", call("emu_wgmma_fence")),
    (
        r"^wgmma\.commit_group\S+ wgmma\.wait_group\S+ (\d)",
        lambda m, o, i: f"(emu_wgmma_commit(), emu_wgmma_wait({m[1]}))",
    ),
    (r"^wgmma\.commit_group", call("emu_wgmma_commit")),
    (r"^wgmma\.wait_group\S+ (\S+);", lambda m, o, i: f"emu_wgmma_wait({i[0] if i else m[1]})"),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k\d+\.f32\.(\w+)\.", wgmma),
    (r"^mma\.sync\.aligned\.m16n8k\d+\.row\.col\.f32\.(\w+)\.", mma),
    (r"^ldmatrix\.sync\.aligned\.m8n8\.x4\.shared", call("emu_ldmatrix4")),
    (r"^cvt\.f32\.f16 ", lambda m, o, i: f"{o[0]} = emu_from_f16({i[0]})"),
    (r"^cvt\.rn\.f16\.f32 ", lambda m, o, i: f"{o[0]} = emu_to_f16({i[0]})"),
    (r"^cvt\.rn\.bf16\.f32 ", lambda m, o, i: f"{o[0]} = emu_to_bf16({i[0]})"),
    (r"^cvt\.rn\.tf32\.f32 ", lambda m, o, i: f"{o[0]} = emu_to_tf32({i[0]}, true)"),
    (r"^cvt\.rna\.tf32\.f32 ", lambda m, o, i: f"{o[0]} = emu_to_tf32({i[0]}, false)"),
    (
        r"^cvt\.rn\.(b?f16)x2\.f32 ",
        lambda m, o, i: f"{o[0]} = (unsigned)emu_to_{m[1]}({i[0]}) << 16 | emu_to_{m[1]}({i[1]})",
    ),
    (r"^max\.NaN\.f32 ", lambda m, o, i: f"{o[0]} = emu_max_nan({i[0]}, {i[1]})"),
    (
        r"^max\.NaN\.(b?f16)x2 ",
        lambda m, o, i: f"{o[0]} = emu_max_nan_pair({i[0]}, {i[1]}, {int(m[1] == 'bf16')})",
    ),
    (r"@p ld\.global\.nc\.f32 ", call("emu_load_f32_if", cast=(0,))),
    (r"@p ld\.global\.nc\.u16 ", call("emu_load_u16_if", cast=(0,))),
    (r"@p ld\.global\.nc\.v4\.u32 ", call("emu_load_v4_if", cast=(0,))),
    (r"@p ld\.global\.nc\.v2\.u32 ", call("emu_load_v2_if", cast=(0,))),
]


def replace_asm(body):
    sections = split(body, ":")
    template = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', sections[0]))
    template = re.sub(r"\s+", " ", template.replace("\\n", " ").replace("\\t", " ")).strip()
    outs = operands(sections[1]) if len(sections) > 1 else []
    ins = operands(sections[2]) if len(sections) > 2 else []
    for pattern, write in RULES:
        match = re.search(pattern, template)
        if match:
            return write(match, outs, ins)
    print(f"emulator: unknown asm: {template}", file=sys.stderr)
    return 'emu_fail("unknown asm")'


def transform(text):
    out, at = [], 0
    for match in re.finditer(r"\basm\b(\s+volatile)?\s*\(", text):
        if match.start() < at:
            continue
        end = find_end(text, match.end() - 1)
        out += [text[at : match.start()], replace_asm(text[match.end() : end - 1])]
        at = end
    text = "".join(out) + text[at:]
    text = re.sub(
        r"extern\s+__shared__\s+__align__\(\d+\)\s+(\w+)\s+(\w+)\s*\[\s*\]\s*;",
        r"static \1 *const \2 = (\1 *)EMU_SHARED_BEGIN;",
        text,
    )
    entries = []
    for match in re.finditer(r"__global__\s+void\s+(?:__launch_bounds__\s*)?", text):
        at = match.end()
        if text[at] == "(":
            at = find_end(text, at)
        name = re.compile(r"\s*(\w+)\s*").match(text, at)
        end = find_end(text, name.end())
        arguments = []
        for i, p in enumerate(split(text[name.end() + 1 : end - 1], ",")):
            kind = re.match(r"(.*[\s*&])\w+\s*$", p.replace("__grid_constant__", "").strip(), re.S)[
                1
            ]
            arguments.append(f"*({kind} *)p[{i}]")
        call_of_it = f"{name[1]}({', '.join(arguments)});"
        entries.append(f'extern "C" void emu_entry_{name[1]}(void **p) {{ {call_of_it} }}')
    return text + "\n" + "\n".join(entries) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        source = file.read()
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write('#include "prelude.h"\n' + transform(source))
