"""Plants small faults in the code that decides, one at a time, and asks whether a test notices (`make mutants`).

Cosmic Ray makes the faults (a comparison turned, a number changed, a condition negated); what this adds is which tests
answer for which modules, a sample of stated size, and the list of survivors that are in order (`tests/mutants.toml`).
Of a group's tests those are run that run the changed line (`mutant_tests`). Everything happens in a copy of the
checkout; the checkout itself is not touched. A run that was interrupted goes on where it stopped. Where only files of
tests were added or changed since, what a test noticed that is as it was stays noticed, and what none did is tried on
the new ones (`State`). A group's ``then`` are files of slow tests, on which only what all others leave is tried.
"""

import argparse
import ast
import hashlib
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import time
import tomllib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import parso
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import apply_mutation
from cosmic_ray.operators.number_replacer import NumberReplacer
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider
from mutant_tests import Collected, Tests, collected

ROOT = Path(__file__).parents[1]
FOLDER: Final = ROOT / "build" / "mutants"
ROOMS: Final = ("schemas", "capture", "replay", "analyze", "cli")

# One fault of each kind at each place, as somebody might make it: Cosmic Ray also writes `%`, `<<` or `is` where `-` or
# `>=` stood, which fails by its types or says the same. Left out besides: `|`, for most are annotations (X | None);
# decorators (`decorator_lines`) and `places_without_effect`. ChangeNumber changes numbers, MoveLimit moves limits.
_PLANTED = re.compile(
    r"ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Div|Mod_Div|Pow_Mul|LShift_RShift|RShift_LShift)"
    r"|ReplaceComparisonOperator_(Eq_NotEq|NotEq_Eq|Lt_GtE|LtE_Gt|Gt_LtE|GtE_Lt|Is_IsNot|IsNot_Is)"
    r"|ReplaceUnaryOperator_(USub_UAdd|Delete_Not)|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue"
    r"|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceBreakWithContinue|ReplaceContinueWithBreak"
    r"|ExceptionReplacer|ZeroIterationForLoop"
)
_LIMITS: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


class ChangeNumber(NumberReplacer):
    """A number next to the one that stands there: 1 more or less for counts, half or double for larger ones."""

    def mutate(self, node: parso.tree.Leaf, index: int) -> parso.tree.Leaf:
        """Return the node with another number."""
        value = ast.literal_eval(node.value)
        other = value + (1, -1)[index] if abs(value) <= 10 else value * (2, 0.5)[index]
        other = int(other) if isinstance(value, int) and other == int(other) else other
        return parso.python.tree.Number(f" {other}", node.start_pos)


class MoveLimit(Operator):
    """Whether a count that is just at a limit passes. No measured figure is, so only whole numbers are looked at."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[tuple[Any, Any]]:
        """Where a comparison with a whole number or a length stands."""
        if (
            node.type == "comparison"
            and len(node.children) == 3
            and node.children[1].get_code().strip() in _LIMITS
        ):
            sides = [node.children[place].get_code().strip() for place in (0, 2)]
            if any(side.isdigit() or side.startswith("len(") for side in sides):
                yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        """Return the comparison with its limit moved."""
        assert index == 0
        node.children[1] = parso.parse(f" {_LIMITS[node.children[1].get_code().strip()]}")
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """Give none: they are for Cosmic Ray's own tests."""
        return ()


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
    planted = {name: provider[name]() for name in provider if _PLANTED.search(name)}
    return planted | {"ChangeNumber": ChangeNumber(), "MoveLimit": MoveLimit()}


def mutants_of(module: Path) -> Iterator[Mutant]:
    """Every fault that can be planted in ``module``, a path below the root."""
    nodes = list(ast_nodes(get_ast_from_path(ROOT / module)))
    decorating, silent = decorator_lines(module), places_without_effect(module)
    for name, operator in operators().items():
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        yield from (
            Mutant(module, name, index, start[0])
            for index, start in enumerate(places)
            if start[0] not in decorating and start not in silent
        )


def places_without_effect(module: Path) -> set[tuple[int, int]]:
    """Where a fault is none: the star of a signature is no product, and `zip(strict=)` only checks who calls it."""
    found = set()
    for node in ast_nodes(get_ast_from_path(ROOT / module)):
        around, before = node.parent, node.get_previous_leaf() if node.parent is not None else None
        is_star = node.get_code().strip() == "*" and around.type in {"parameters", "lambdef"}
        is_strict = around is not None and around.type == "argument" and before.get_code().strip() == "="
        if is_star or (is_strict and around.children[0].get_code().strip() == "strict"):
            found.add(node.start_pos)
    return found


def decorator_lines(module: Path) -> set[int]:
    """Lines of decorators: what is frozen or has slots decides nothing, and mypy watches who writes into it."""
    return {
        line
        for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        for one in node.decorator_list
        for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)
    }


def files() -> list[str]:
    """What is in the checkout, native modules included, below the root."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    natives = [path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).glob("*.so")]
    return [*listed.stdout.splitlines(), *natives]


def make_copy(folder: Path) -> Path:
    """A copy of the checkout, in ``folder``, whose rooms are imported before the installed ones."""
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    for name in files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    (copy / "build/rooms/iotrace").mkdir(parents=True)
    for room in ROOMS:
        (copy / "build/rooms/iotrace" / room).symlink_to(copy / room)
    (folder / "shared").unlink(missing_ok=True)
    if (ROOT.parent / "shared").exists():
        (folder / "shared").symlink_to(ROOT.parent / "shared")
    return copy


@dataclass(frozen=True)
class State:
    """The checksums of all files that verdicts depend on, by name."""

    sums: dict[str, str]

    @classmethod
    def now(cls) -> "State":
        """That of the checkout: rooms, tests, what configures them, and this tool."""
        counted = (*(f"{room}/" for room in ROOMS), "tests/", "tools/mutant", "pyproject.toml")
        names = [name for name in files() if name.startswith(counted) and (ROOT / name).is_file()]
        return cls({name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in names})

    def is_newer_by_tests(self, before: "State") -> bool:
        """Whether nothing else was changed since ``before``; what was added cannot change what was there."""
        return all(
            self.sums.get(name) == known or _is_test_file(name) or name == "tests/mutants.toml"
            for name, known in before.sums.items()
        )

    def changed_tests(self, before: "State") -> set[str]:
        """Files of tests that are not what they were, or were not there."""
        return {
            name
            for name, known in self.sums.items()
            if _is_test_file(name) and before.sums.get(name) != known
        }


def _is_test_file(name: str) -> bool:
    return name.startswith("tests/") and Path(name).name.startswith("test_")


def folder_of_this_state() -> Path:
    """Where verdicts are kept; those that the checkout as it is leaves open are taken out."""
    known, now = FOLDER / "state.json", State.now()
    before = State(json.loads(known.read_text("utf-8"))) if known.exists() else State({"": ""})
    if before != now:
        if now.is_newer_by_tests(before):
            changed = now.changed_tests(before)
            Tried(FOLDER / "tried.jsonl").doubt(changed)
            for lines in FOLDER.glob("lines-*.json"):
                Tests.read(lines).without(changed).write(lines)
        else:
            shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(now.sums), "utf-8")
    return FOLDER


def changed_lines(before: str, after: str) -> str:
    """The changed line as it was and as it became, without indentation."""
    pairs = [(a, b) for a, b in zip(before.splitlines(), after.splitlines(), strict=False) if a != b]
    was, became = pairs[0]
    return f"{was.strip()}  ->  {became.strip()}"


def function_at(module: Path, line: int) -> tuple[int, int, int] | None:
    """First line (decorators included), first of the body and last of the outermost function whose body has a line."""
    tree = ast.parse((ROOT / module).read_text("utf-8"))
    return min(
        (
            (first_line(node), node.body[0].lineno, node.end_lineno or node.lineno)
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.body[0].lineno <= line <= (node.end_lineno or 0)
        ),
        default=None,
    )


def first_line(function: ast.FunctionDef) -> int:
    """Where a function begins, decorators included."""
    return min([function.lineno, *(one.lineno for one in function.decorator_list)])


def statement_at(module: Path, line: int) -> tuple[int, int]:
    """First and last line of the innermost statement at a line; of one with others inside, what stands above these."""
    found = (line, line)
    for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8"))):  # from the outside inwards
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            inside = getattr(node, "body", [])
            start = node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno
            last = max(start, inside[0].lineno - 1) if inside else node.end_lineno or start
            found = (start, last) if start <= line <= last else found
    return found


def constant_at(module: Path, line: int) -> str | None:
    """The name that a line outside of functions gives a value."""
    for node in ast.parse((ROOT / module).read_text("utf-8")).body:
        if isinstance(node, ast.AnnAssign | ast.Assign) and node.lineno <= line <= (node.end_lineno or 0):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            return target.id if isinstance(target, ast.Name) else None
    return None


def functions_with(module: Path, name: str) -> Iterator[tuple[str, int, int]]:
    """The bodies of a module's functions that say a name: module, first and last line."""
    for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(one, ast.Name) and one.id == name for one in ast.walk(node)
        ):
            yield module.as_posix(), node.body[0].lineno, node.end_lineno or node.lineno


@dataclass(frozen=True)
class Verdict:
    """Whether no test notices a fault, None where it is none; the fault in words."""

    is_alive: bool | None
    change: str = ""
    noticed_in: str = ""
    """The file of the test that does; empty where it ended otherwise than by a test that failed."""
    tried_on: tuple[str, ...] = ()
    """The files of the tests that do not."""

    def left_of(self, files: Iterable[str]) -> set[str]:
        """The files among these that it has not been tried on, though it may have to be."""
        return set(files) - set(self.tried_on) if self.is_alive else set()


def judged(
    mutant: Mutant, copy: Path, tests: Tests, collected: Collected, modules: list[Path], only: set[str]
) -> Verdict:
    """Try a fault in ``copy``; ``modules`` are those of its group, ``only`` the files of tests to run."""
    path = copy / mutant.module
    original, times = path.read_text("utf-8"), path.stat()
    before, after = apply_mutation(path, operators()[mutant.operator], mutant.occurrence)
    if after is None or before == after:
        path.write_text(original, "utf-8")
        return Verdict(None)
    change = changed_lines(before, after)
    function = function_at(mutant.module, mutant.line)
    if function:
        names = tests.running([(mutant.module.as_posix(), *statement_at(mutant.module, mutant.line))])
    else:
        constant = constant_at(mutant.module, mutant.line)
        used = [place for module in modules for place in functions_with(module, constant)] if constant else []
        names = tests.running(used) if used else tests.running_any()
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # tests make an error of every warning, as of `is` with a number
            compile(after, str(path), "exec")
        path.write_text(after, "utf-8")
        imported = str(copy / "build" / "rooms" / "iotrace" / mutant.module)
        names = tests.affordable(name for name in names if name.split("::")[0] in only)
        noticed_in = collected.fails_in(tests, names, imported, after, function)
        return Verdict(noticed_in is None, change, noticed_in or "")
    except (SyntaxError, ValueError):
        return Verdict(None, change)
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
    """The modules that a group's globs name, without those it leaves out. Raises `SystemExit` where one names none."""
    named = {glob: [path.relative_to(ROOT) for path in ROOT.glob(glob)] for glob in group["modules"]}
    if lost := [glob for glob, paths in named.items() if not paths]:
        sys.exit(f"no module is named {' or '.join(lost)}; say in tests/mutants.toml where it went")
    every = {path for paths in named.values() for path in paths}
    return sorted(path for path in every if not any(path.match(glob) for glob in group.get("without", [])))


@dataclass(frozen=True)
class Tried:
    """What is known of faults: ``tried.jsonl``, a line for each, of which the last holds."""

    path: Path

    def read(self) -> dict[str, Verdict]:
        """By fault."""
        if not self.path.exists():
            return {}
        rows = map(json.loads, self.path.read_text("utf-8").splitlines())
        return {
            fault: Verdict(is_alive, change, noticed, tuple(on))
            for fault, is_alive, change, noticed, on in rows
        }

    def add(self, fault: str, verdict: Verdict) -> None:
        """One more."""
        row = [fault, verdict.is_alive, verdict.change, verdict.noticed_in, verdict.tried_on]
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")

    def doubt(self, changed: set[str]) -> None:
        """Leave out what tests of these files noticed; what they did not has not been tried on them any more."""
        known = self.read()
        self.path.unlink(missing_ok=True)
        for fault, verdict in known.items():
            if verdict.is_alive:
                self.add(fault, replace(verdict, tried_on=tuple(sorted(set(verdict.tried_on) - changed))))
            elif verdict.is_alive is None or (verdict.noticed_in and verdict.noticed_in not in changed):
                self.add(fault, verdict)


def files_of(tests: list[str]) -> set[str]:
    """The files of tests that these paths, below the root, name."""
    found = (path.rglob("test_*.py") if path.is_dir() else [path] for path in (ROOT / name for name in tests))
    return {path.relative_to(ROOT).as_posix() for paths in found for path in paths}


def try_group(group: dict[str, Any], mutants: list[Mutant], folder: Path, lines: Path, until: float) -> bool:
    """Try what was not tried yet, until that time; false where the tests fail without any fault planted."""
    tried = Tried(folder / "tried.jsonl")
    rounds = [files_of(group["tests"]), files_of(group["tests"] + group.get("then", []))]

    def left(files: set[str]) -> list[Mutant]:
        known = tried.read()
        return [one for one in mutants if known.get(str(one), Verdict(is_alive=True)).left_of(files)]

    if not left(rounds[-1]) or time.monotonic() > until:
        return True
    copy = make_copy(folder)

    def work(collected: Collected) -> None:
        for files in rounds:
            mine = left(files)
            if mine and not collected.record(lines, files):
                return
            tests = Tests.read(lines)
            for mutant in mine:
                if time.monotonic() > until:
                    return
                before = tried.read().get(str(mutant), Verdict(is_alive=True))
                found = judged(mutant, copy, tests, collected, modules_of(group), before.left_of(files))
                on = tuple(sorted({*before.tried_on, *files})) if found.is_alive else ()
                tried.add(str(mutant), replace(found, tried_on=on))

    (folder / "failed").unlink(missing_ok=True)
    every = group["tests"] + group.get("then", [])
    return collected(copy, every, modules_of(group), work) and not (folder / "failed").exists()


def main() -> int:
    """Try a sample of faults; the status is 1 where more than one in twenty survived without a reason."""
    plan = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text("utf-8"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--group", action="append", choices=sorted(plan["groups"]), help="all of them unless named"
    )
    parser.add_argument("--sample", type=int, default=150, help="mutants drawn by chance; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="another one draws others")
    parser.add_argument("--minutes", type=float, default=math.inf, help="then stop; the next run goes on")
    asked = parser.parse_args()
    until = time.monotonic() + 60 * asked.minutes
    reasons = {(entry["module"], entry["change"]): entry["why"] for entry in plan.get("survivors", [])}
    reasons |= {
        (entry["module"], name): entry["why"] for entry in plan.get("choices", []) for name in entry["names"]
    }
    chosen, count = drawn(plan, asked.group or sorted(plan["groups"]), asked.sample, asked.seed)
    folder = folder_of_this_state()
    tried = unexplained = 0
    for name, mutants in chosen.items():
        if not try_group(plan["groups"][name], mutants, folder, folder / f"lines-{name}.json", until):
            print(
                f"{name}: its tests fail without any fault planted; mend that first ({folder / 'tests.txt'})"
            )
            return 2
        known, tests = Tried(folder / "tried.jsonl").read(), plan["groups"][name]
        every = files_of(tests["tests"] + tests.get("then", []))
        verdicts = [
            (mutant, known[str(mutant)])
            for mutant in mutants
            if str(mutant) in known and not known[str(mutant)].left_of(every)
        ]
        faults = [(mutant, verdict) for mutant, verdict in verdicts if verdict.is_alive is not None]
        alive = [(mutant, verdict.change) for mutant, verdict in faults if verdict.is_alive]
        for mutant, change in alive:
            module, constant = str(mutant.module), constant_at(mutant.module, mutant.line) or ""
            why = reasons.get((module, change)) or reasons.get((module, constant))
            unexplained += why is None
            print(f"  {mutant.module}:{mutant.line}  {change}{f'  ({why})' if why else ''}")
        tried += len(faults)
        open_still = [
            known[str(mutant)]
            for mutant in mutants
            if str(mutant) in known and known[str(mutant)].left_of(every)
        ]
        left = len(mutants) - len(verdicts) - len(open_still)
        print(
            f"{name}: {len(alive)} of {len(faults)} survived"
            + (f", {len(open_still)} more the quick tests alone" if open_still else "")
            + (f", {left} not tried" if left else ""),
            flush=True,
        )
    if not tried:
        return 0
    low, high = wilson(unexplained, tried)
    print(
        f"in all: {unexplained} of {tried} survived without a reason ({low:.1%} to {high:.1%} of all {count:,} mutants)"
    )
    return int(unexplained > tried / 20)


if __name__ == "__main__":
    sys.exit(main())
