#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the node tests of the installed onnx package as backend-test folders.

The onnx package generates its node tests in memory, for the newest operator sets. This script
writes chosen ones to disk in the form that `upconv test` reads: NAME/model.onnx,
NAME/test_data_set_0/input_0.pb, output_0.pb and so on.
"""

import argparse
import collections
import fnmatch
import os
import shutil
import sys
import warnings
from pathlib import Path

import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

ANY_RANK_TYPES = "float,float16,bfloat16"
VECTOR_TYPES = "int64,int32"


def parse(argv):
    parser = argparse.ArgumentParser(
        description="Write the onnx package's own node tests as backend-test folders.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""A case is written if its name fits a --match (when given), no --exclude, and every
operator in its graph is in the --ops-file (when given) with element types that --types or
--vector-types allow. With --match alone the element types do not matter.

examples:
  python scripts/make_onnx_node_tests.py --out build/node --match 'test_convtranspose*'
  python scripts/make_onnx_node_tests.py --out build/node --ops-file ops.txt
  python scripts/make_onnx_node_tests.py --ops-file ops.txt --list

exit codes: 0 done, 1 no case fits, 2 bad usage or input
""",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder to write the cases into")
    parser.add_argument(
        "--match",
        action="append",
        default=[],
        metavar="GLOB",
        help="name of the cases, as 'test_convtranspose*'; may be repeated",
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="GLOB",
        help="name of cases to leave out; may be repeated",
    )
    parser.add_argument(
        "--ops-file",
        type=Path,
        metavar="FILE",
        help="supported operators, one a line, # starts a comment; DOMAIN:NAME outside the"
        " default domain",
    )
    parser.add_argument(
        "--types",
        default=ANY_RANK_TYPES,
        metavar="LIST",
        help=f"element types allowed for every input and output (default: {ANY_RANK_TYPES})",
    )
    parser.add_argument(
        "--vector-types",
        default=VECTOR_TYPES,
        metavar="LIST",
        help="element types allowed besides for inputs and outputs of rank 0 and 1, such as"
        f" shapes and axes (default: {VECTOR_TYPES})",
    )
    parser.add_argument("--list", action="store_true", help="print the names, write nothing")
    args = parser.parse_args(argv)
    if not args.match and not args.ops_file:
        parser.error("give --match, --ops-file or both")
    if not args.out and not args.list:
        parser.error("give --out, or --list to write nothing")
    for option in ("types", "vector_types"):
        names = [name for name in getattr(args, option).split(",") if name]
        for name in names:
            if name.upper() not in TensorProto.DataType.keys():
                parser.error(f"--{option.replace('_', '-')}: '{name}' is no ONNX element type")
        setattr(args, option, {TensorProto.DataType.Value(name.upper()) for name in names})
    args.ops = None
    if args.ops_file:
        try:
            lines = args.ops_file.read_text().splitlines()
        except OSError as error:
            parser.error(f"--ops-file {args.ops_file}: {error.strerror}")
        args.ops = {line.partition("#")[0].strip() for line in lines} - {""}
    return args


def collect():
    """Every node test of the package. It takes some seconds, and warns about infinities."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def operators(graph):
    """Names of the operators of a graph, subgraphs included."""
    for node in graph.node:
        domain = "" if node.domain in ("", "ai.onnx") else node.domain + ":"
        yield domain + node.op_type
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from operators(attribute.g)
            for subgraph in attribute.graphs:
                yield from operators(subgraph)


def refusal(case, args):
    """Why this case is not wanted, or None."""
    if args.match and not any(fnmatch.fnmatchcase(case.name, glob) for glob in args.match):
        return "name"
    if any(fnmatch.fnmatchcase(case.name, glob) for glob in args.exclude):
        return "excluded"
    values = [*case.model.graph.input, *case.model.graph.output]
    if args.ops is not None:
        if not set(operators(case.model.graph)) <= args.ops:
            return "operator"
        for value in values:
            tensor = value.type.tensor_type
            vector = tensor.HasField("shape") and len(tensor.shape.dim) <= 1
            if tensor.elem_type in args.types or (vector and tensor.elem_type in args.vector_types):
                continue
            return "element type"
    if not all(value.type.HasField("tensor_type") for value in values):
        return "not a tensor"
    return None


def write_case(case, folder):
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    graph = case.model.graph
    (folder / "model.onnx").write_bytes(case.model.SerializeToString(deterministic=True))
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data_set = folder / f"test_data_set_{number}"
        data_set.mkdir()
        for kind, values, infos in (
            ("input", inputs, graph.input),
            ("output", outputs, graph.output),
        ):
            for i, (value, info) in enumerate(zip(values, infos)):
                if not isinstance(value, TensorProto):
                    value = numpy_helper.from_array(value, info.name)
                path = data_set / f"{kind}_{i}.pb"
                path.write_bytes(value.SerializeToString(deterministic=True))


def main(argv=None):
    args = parse(argv)
    reasons, chosen, covered = collections.Counter(), [], set()
    for case in collect():
        reason = refusal(case, args)
        if reason:
            reasons[reason] += 1
            continue
        chosen.append(case)
        covered.update(operators(case.model.graph))
    for case in chosen:
        if args.list:
            print(case.name)
            continue
        try:
            write_case(case, args.out / case.name)
        except OSError as error:
            print(f"make_onnx_node_tests.py: {error}", file=sys.stderr)
            return 2
    summary = ", ".join(f"{count} by {reason}" for reason, count in sorted(reasons.items()))
    print(
        f"onnx {onnx.__version__}: {len(chosen)} cases"
        + ("" if args.list else f" written to {os.fspath(args.out)}")
        + (f"; left out {summary}" if summary else ""),
        file=sys.stderr if args.list else sys.stdout,
    )
    if args.ops is not None and not args.match and args.ops - covered:
        print(f"no case for: {', '.join(sorted(args.ops - covered))}", file=sys.stderr)
    return 0 if chosen else 1


if __name__ == "__main__":
    sys.exit(main())
