"""Plants small faults in the code that decides, one at a time, and asks whether a test notices (`make mutants`).

Cosmic Ray makes the faults (a comparison turned, a number changed, a condition negated); what this adds is which tests
answer for which modules, a sample of stated size, and the list of survivors that are in order (`tests/mutants.toml`).
Everything happens in copies of the checkout; the checkout itself is not touched.
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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any, Final

import parso
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import apply_mutation
from cosmic_ray.operators.number_replacer import NumberReplacer
from cosmic_ray.operators.provider import OperatorProvider
from cosmic_ray.testing import run_tests
from cosmic_ray.work_item import TestOutcome

ROOT = Path(__file__).parents[1]
COPIES: Final = ROOT / "build" / "mutants"
ROOMS: Final = ("schemas", "capture", "replay", "analyze", "cli")
TIMEOUT_S: Final = 600

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


def make_copy(number: int) -> Path:
    """A copy of the checkout whose rooms are imported before the installed ones."""
    copy = COPIES / str(number)
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
    return copy


def changed_lines(before: str, after: str) -> str:
    """The changed line as it was and as it became, without indentation."""
    pairs = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=False) if a != b]
    was, became = pairs[0]
    return f"{was.strip()}  ->  {became.strip()}"


def try_mutant(mutant: Mutant, copy: Path, tests: list[str]) -> tuple[TestOutcome, str]:
    """Plant the fault in ``copy``, run the tests until one fails, and take it out again."""
    path = copy / mutant.module
    original = path.read_text("utf-8")
    before, after = apply_mutation(path, operators()[mutant.operator], mutant.occurrence)
    path.write_text(original, "utf-8")
    if after is None or before == after:
        return TestOutcome.INCOMPETENT, ""
    change = changed_lines(before, after)
    try:
        compile(after, str(path), "exec")
    except (SyntaxError, ValueError):
        return TestOutcome.INCOMPETENT, change
    path.write_text(after, "utf-8")
    try:
        return run_tests(test_command(copy, tests), TIMEOUT_S)[0], change
    finally:
        path.write_text(original, "utf-8")


def test_command(copy: Path, tests: list[str]) -> str:
    """The tests that answer for a module, in a copy, stopping at the first that fails."""
    python = f"env -C {copy} PYTHONPATH={copy}/build/rooms {sys.executable}"
    return f"{python} -m pytest -x -q -p no:cacheprovider -m 'not slow' {' '.join(tests)}"


def wilson(hits: int, count: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927)."""
    z = 1.96
    share, room = hits / count, z * z / count
    middle = (share + room / 2) / (1 + room)
    half = z / (1 + room) * math.sqrt(share * (1 - share) / count + room / (4 * count))
    return max(0.0, middle - half), min(1.0, middle + half)


def main() -> int:
    """Run the groups asked for; the status is 1 where more than one in twenty survived without a reason."""
    plan = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text("utf-8"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--group", action="append", choices=sorted(plan["groups"]), help="all of them unless named"
    )
    parser.add_argument(
        "--sample", type=int, default=60, help="mutants of each group, drawn by chance; 0 for all"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    reasons = {(entry["module"], entry["change"]): entry["why"] for entry in plan.get("survivors", [])}

    copies: Queue[Path] = Queue()
    for number in range(asked.jobs):
        copies.put(make_copy(number))
    tried = unexplained = 0
    for name in asked.group or sorted(plan["groups"]):
        group = plan["groups"][name]
        named = {glob: [path.relative_to(ROOT) for path in ROOT.glob(glob)] for glob in group["modules"]}
        if lost := [glob for glob, paths in named.items() if not paths]:
            print(f"{name}: no module is named {' or '.join(lost)}; say in tests/mutants.toml where it went")
            return 2
        modules = sorted({path for paths in named.values() for path in paths})
        every = [mutant for module in modules for mutant in mutants_of(module)]
        chosen = every
        if asked.sample and asked.sample < len(every):
            chosen = random.Random(asked.seed).sample(every, asked.sample)
        copy = copies.get()
        if run_tests(test_command(copy, group["tests"]), TIMEOUT_S)[0] != TestOutcome.SURVIVED:
            print(f"{name}: its tests fail without any fault planted; mend that first")
            return 2
        copies.put(copy)

        def attempt(mutant: Mutant, tests: list[str] = group["tests"]) -> tuple[Mutant, TestOutcome, str]:
            copy = copies.get()
            try:
                return mutant, *try_mutant(mutant, copy, tests)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(asked.jobs) as pool:
            results = list(pool.map(attempt, chosen))
        able = [result for result in results if result[1] != TestOutcome.INCOMPETENT]
        survivors = [result for result in able if result[1] == TestOutcome.SURVIVED]
        open_ones = [result for result in survivors if (str(result[0].module), result[2]) not in reasons]
        tried += len(able)
        unexplained += len(open_ones)
        print(
            f"{name}: {len(able)} of {len(every)} mutants tried, {len(survivors)} survived, "
            f"{len(open_ones)} of them without a reason"
        )
        for mutant, _, change in sorted(
            open_ones, key=lambda result: (str(result[0].module), result[0].line)
        ):
            print(f"  {mutant.module}:{mutant.line}  {change}")
        sys.stdout.flush()
    low, high = wilson(unexplained, tried)
    print(
        f"in all: {unexplained} of {tried} survived without a reason ({low:.1%} to {high:.1%} of all mutants)"
    )
    return int(unexplained > tried / 20)


if __name__ == "__main__":
    sys.exit(main())
