"""Plants small faults in the code that decides, one at a time, and asks whether a test notices (`make mutants`).

Cosmic Ray makes the faults (a comparison turned, a number changed, a condition negated); what this adds is which tests
answer for which modules, a sample of stated size, and the list of survivors that are in order (`tests/mutants.toml`).
Of a group's tests those are run that call the changed function (`mutant_tests`). Everything happens in copies of the
checkout; the checkout itself is not touched.
"""

import argparse
import ast
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import parso
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import apply_mutation
from cosmic_ray.operators.number_replacer import NumberReplacer
from cosmic_ray.operators.provider import OperatorProvider
from mutant_tests import Tests, fails, record

ROOT = Path(__file__).parents[1]
COPY: Final = ROOT / "build" / "mutants" / "copy"
ROOMS: Final = ("schemas", "capture", "replay", "analyze", "cli")

# Annotations (X | None) and decorators decide nothing; numbers are changed by ChangeNumber.
_LEFT_OUT = re.compile(
    r"ReplaceBinaryOperator_BitOr_|RemoveDecorator|VariableReplacer|VariableInserter|NumberReplacer"
)


class ChangeNumber(NumberReplacer):
    """A number next to the one that stands there: 1 more or less for counts, half or double for larger ones."""

    def mutate(self, node: parso.tree.Leaf, index: int) -> parso.tree.Leaf:
        """Return the node with another number."""
        value = ast.literal_eval(node.value)
        other = value + (1, -1)[index] if abs(value) <= 10 else value * (2, 0.5)[index]
        other = int(other) if isinstance(value, int) and other == int(other) else other
        return parso.python.tree.Number(f" {other}", node.start_pos)


@dataclass(frozen=True)
class Mutant:
    """One fault: the ``occurrence``-th place in ``module`` that ``operator`` can change."""

    module: Path
    operator: str
    occurrence: int
    line: int


def operators() -> dict[str, Any]:
    """Every kind of fault that is planted, by name."""
    provider = OperatorProvider()
    kinds = {name: provider[name] for name in provider}
    plain = {
        name: kind for name, kind in kinds.items() if not _LEFT_OUT.search(name) and not kind.arguments()
    }
    return {name: kind() for name, kind in plain.items()} | {"ChangeNumber": ChangeNumber()}


def mutants_of(module: Path) -> Iterator[Mutant]:
    """Every fault that can be planted in ``module``, a path below the root."""
    nodes = list(ast_nodes(get_ast_from_path(ROOT / module)))
    for name, operator in operators().items():
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        yield from (Mutant(module, name, index, start[0]) for index, start in enumerate(places))


def make_copy(copy: Path) -> None:
    """A copy of the checkout whose rooms are imported before the installed ones."""
    shutil.rmtree(copy, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    natives = [path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).glob("*.so")]
    for name in [*listed.stdout.splitlines(), *natives]:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    (copy / "build/rooms/iotrace").mkdir(parents=True)
    for room in ROOMS:
        (copy / "build/rooms/iotrace" / room).symlink_to(copy / room)
    (copy.parent / "shared").unlink(missing_ok=True)
    if (ROOT.parent / "shared").exists():
        (copy.parent / "shared").symlink_to(ROOT.parent / "shared")


def changed_lines(before: str, after: str) -> str:
    """The changed line as it was and as it became, without indentation."""
    pairs = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=False) if a != b]
    was, became = pairs[0]
    return f"{was.strip()}  ->  {became.strip()}"


def function_at(module: Path, line: int) -> tuple[int, int] | None:
    """First and last line of the innermost function around a line, its decorators included; None outside of any."""
    tree = ast.parse((ROOT / module).read_text("utf-8"))
    spans = [
        (min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line <= (node.end_lineno or 0)
    ]
    return max(spans, default=None)


def survives(mutant: Mutant, copy: Path, tests: Tests) -> tuple[bool | None, str]:
    """Whether no test notices the fault while it is in ``copy``, None where it is no fault; and the fault in words."""
    path = copy / mutant.module
    original, times = path.read_text("utf-8"), path.stat()
    before, after = apply_mutation(path, operators()[mutant.operator], mutant.occurrence)
    if after is None or before == after:
        path.write_text(original, "utf-8")
        return None, ""
    change = changed_lines(before, after)
    span = function_at(mutant.module, mutant.line)
    # A constant is used by who knows whom.
    names = tests.calling(mutant.module.as_posix(), *span) if span else tests.calling_any()
    try:
        compile(after, str(path), "exec")
        path.write_text(after, "utf-8")
        return not fails(copy, tests, names), change
    except (SyntaxError, ValueError):
        return None, change
    finally:
        path.write_text(original, "utf-8")
        # Its bytecode is that of the original again.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def wilson(hits: int, count: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927)."""
    z = 1.96
    share, room = hits / count, z * z / count
    middle = (share + room / 2) / (1 + room)
    half = z / (1 + room) * math.sqrt(share * (1 - share) / count + room / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def drawn(
    plan: dict[str, Any], groups: list[str], size: int, seed: int
) -> tuple[dict[str, list[Mutant]], int]:
    """So many faults of all in these groups, each as likely as any other, by group; and how many there are."""
    every = [
        (name, mutant)
        for name in groups
        for module in modules_of(plan["groups"][name])
        for mutant in mutants_of(module)
    ]
    chosen = random.Random(seed).sample(every, size) if 0 < size < len(every) else every
    return {name: [mutant for group, mutant in chosen if group == name] for name in groups}, len(every)


def modules_of(group: dict[str, Any]) -> list[Path]:
    """The modules that a group's globs name. Raises `SystemExit` where one names none."""
    named = {glob: [path.relative_to(ROOT) for path in ROOT.glob(glob)] for glob in group["modules"]}
    if lost := [glob for glob, paths in named.items() if not paths]:
        sys.exit(f"no module is named {' or '.join(lost)}; say in tests/mutants.toml where it went")
    return sorted({path for paths in named.values() for path in paths})


def main() -> int:
    """Try a sample of faults; the status is 1 where more than one in twenty survived without a reason."""
    plan = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text("utf-8"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--group", action="append", choices=sorted(plan["groups"]), help="all of them unless named"
    )
    parser.add_argument("--sample", type=int, default=150, help="mutants drawn by chance; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="another one draws others")
    asked = parser.parse_args()
    reasons = {(entry["module"], entry["change"]): entry["why"] for entry in plan.get("survivors", [])}
    chosen, count = drawn(plan, asked.group or sorted(plan["groups"]), asked.sample, asked.seed)
    make_copy(COPY)
    tried = survived = unexplained = 0
    for name, mutants in chosen.items():
        group = plan["groups"][name]
        tests = record(COPY, group["tests"], modules_of(group), COPY.parent / "calls.json")
        if tests is None:
            print(f"{name}: its tests fail without any fault planted; mend that first")
            return 2
        for mutant in mutants:
            is_alive, change = survives(mutant, COPY, tests)
            tried += is_alive is not None
            if not is_alive:
                continue
            survived += 1
            why = reasons.get((str(mutant.module), change))
            unexplained += why is None
            print(f"  {mutant.module}:{mutant.line}  {change}{f'  ({why})' if why else ''}", flush=True)
        print(f"{name}: {len(mutants)} tried; so far {survived} of {tried} survived", flush=True)
    low, high = wilson(unexplained, tried)
    print(
        f"in all: {unexplained} of {tried} survived without a reason ({low:.1%} to {high:.1%} of all {count:,} mutants)"
    )
    return int(unexplained > tried / 20)


if __name__ == "__main__":
    sys.exit(main())
