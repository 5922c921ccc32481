"""The PowerShell of a plan parses; its names hang together; it does nothing a cautious reader would not expect.

The scripts cannot run here. What a linter would find is looked for in their syntax trees: commands, variables, settings
and files that are used but nowhere defined, marks that nothing clears, and language newer than PowerShell 4.0.
"""

import re
from collections.abc import Iterator

import pytest
import tree_sitter_powershell
from tree_sitter import Language, Node, Parser

from .conftest import HOSTILE_FOLDER, HOSTILE_INSTANCE, VARIANTS, etl_build, plan_of, text_of
from .test_quoting import read_powershell

PARSER = Parser(Language(tree_sitter_powershell.language()))
EVERYTHING = plan_of("everything")
SCRIPTS = sorted(path for path in EVERYTHING.files if path.endswith(".ps1"))
AUTOMATIC = {
    "_", "true", "false", "null", "args", "psscriptroot", "lastexitcode", "erroractionpreference", "matches",
}  # fmt: skip

# Commands of Windows PowerShell 4.0 on Windows Server 2012 R2 that the scripts may use: each was looked up in its
# documentation. A new one belongs here only after the same.
CMDLETS = {
    "Add-Type", "ConvertTo-Json", "Copy-Item", "ForEach-Object", "Get-ChildItem", "Get-CimInstance", "Get-Disk",
    "Get-InitiatorPort", "Get-ItemProperty", "Get-Partition", "Get-PhysicalDisk", "Get-ScheduledTask", "Import-Csv",
    "Join-Path", "Move-Item", "New-Object", "New-ScheduledTaskAction", "New-ScheduledTaskPrincipal",
    "New-ScheduledTaskSettingsSet", "New-ScheduledTaskTrigger", "New-TimeSpan", "Out-Null", "Out-String",
    "Register-ScheduledTask", "Remove-Item", "Select-Object", "Set-StrictMode", "Sort-Object", "Split-Path",
    "Start-ScheduledTask", "Start-Sleep", "Stop-ScheduledTask", "Test-Path", "Unblock-File",
    "Unregister-ScheduledTask", "Where-Object", "Write-Host", "Write-Warning",
}  # fmt: skip


def tree(path: str, text: str | None = None) -> Node:
    return PARSER.parse((text if text is not None else text_of(EVERYTHING, path)).encode()).root_node


def nodes(node: Node, *kinds: str) -> Iterator[Node]:
    if node.type in kinds:
        yield node
    for child in node.children:
        yield from nodes(child, *kinds)


def words(node: Node, *kinds: str) -> list[str]:
    return [found.text.decode() for found in nodes(node, *kinds)]


def all_text() -> str:
    return "\n".join(text_of(EVERYTHING, path) for path in SCRIPTS)


@pytest.mark.parametrize("text", ["if ($a) { ", "$a = @{ b = ", "'it's'", "foreach ($a in ) { }"])
def test_the_parser_refuses_what_is_not_powershell(text):
    assert tree("", text).has_error


@pytest.mark.parametrize("path", SCRIPTS)
def test_every_script_parses(path):
    assert not tree(path).has_error


@pytest.mark.parametrize("variant", VARIANTS)
def test_settings_parse_whatever_words_are_in_them(variant):
    assert not tree("", text_of(plan_of(variant), "settings.ps1")).has_error


def test_foreign_words_are_single_literals():
    settings = text_of(EVERYTHING, "settings.ps1")
    found = dict(re.findall(r"^    (\w+) += ('.*')$", settings, re.MULTILINE))
    assert read_powershell(found["SqlInstance"]) == HOSTILE_INSTANCE
    assert read_powershell(found["Folder"]) == HOSTILE_FOLDER
    for path in SCRIPTS:
        if path != "settings.ps1":
            assert "calc" not in text_of(EVERYTHING, path), "a foreign word outside the settings"


def test_every_command_is_defined_or_known():
    defined = {name for path in SCRIPTS for name in words(tree(path), "function_name")}
    used = {name for path in SCRIPTS for name in words(tree(path), "command_name")}
    assert used - defined <= CMDLETS
    assert defined <= used, "a function that nothing calls"
    assert used - defined == CMDLETS, "a command in the list that nothing uses"


def test_programs_are_run_through_one_function_and_by_their_full_paths():
    for path in SCRIPTS:
        for command in nodes(tree(path), "command_invokation_operator"):
            called = command.parent.text.decode()
            assert re.match(
                r"(\.|&) \(Join-Path \$PSScriptRoot '[\w-]+\.ps1'\)|& \$Program \$Arguments|& \$Action",
                called,
            ), called
    tools = set(re.findall(r"(?:Invoke|Test)-Tool (\$\w+|\(Join-Path \$System32 [^)]+\))", all_text()))
    assert tools == {
        "$Logman", "$Icacls", "$wpr", "(Join-Path $System32 'wpr.exe')", "(Join-Path $System32 $Program)",
    }  # fmt: skip
    for name in ("Logman", "Icacls", "wpr"):
        assert re.search(rf"\${name} = Join-Path \$System32 '", all_text())


def test_scripts_and_queries_that_are_named_exist():
    files = set(EVERYTHING.files)
    for path in SCRIPTS:
        text = text_of(EVERYTHING, path)
        assert set(re.findall(r"Join-Path \$PSScriptRoot '([^']+)'", text)) <= files | {"sql"}
        assert {f"sql/{found}" for found in re.findall(r"'([\w-]+\.sql)'", text)} <= files
    named = set(re.findall(r"'([\w-]+\.sql)'", all_text()))
    assert {path.removeprefix("sql/") for path in files if path.startswith("sql/")} == named


@pytest.mark.parametrize("path", SCRIPTS)
def test_every_variable_is_given_a_value_before(path):
    def given(script: str) -> set[str]:
        root, names = tree(script), set()
        for node in nodes(root, "left_assignment_expression", "script_parameter", "foreach_statement"):
            names.update(
                words(node, "variable") if node.type != "foreach_statement" else words(node, "variable")[:1]
            )
        return {name.lstrip("$").removeprefix("script:").lower() for name in names}

    text = text_of(EVERYTHING, path)
    sources = set(re.findall(r"^\. \(Join-Path \$PSScriptRoot '([^']+)'\)", text, re.MULTILINE))
    # Every script that is run reads common.ps1; the files that it reads rely on the same.
    sources |= {"common.ps1", "settings.ps1", path}
    known = AUTOMATIC.union(*(given(source) for source in sources))
    used = {
        name.strip("${}").removeprefix("script:").lower()
        for name in words(tree(path), "variable", "braced_variable")
        if not name.startswith("$env:")
    }
    if path in {"counters.ps1", "facts.ps1", "sql.ps1", "removing.ps1"}:
        known |= given("start.ps1")
    assert used <= known


def test_every_setting_that_is_used_is_set_and_the_other_way_round():
    used = set(re.findall(r"\$Iotrace\.(\w+)", all_text()))
    for variant in VARIANTS:
        settings = text_of(plan_of(variant), "settings.ps1")
        assert set(re.findall(r"^    (\w+) +=", settings, re.MULTILINE)) == used


def test_what_start_marks_stop_ends():
    marked = set(re.findall(r"Set-Mark '(\w[\w-]*)'", all_text()))
    ended = set(re.findall(r"Stop-Part '(\w+)'", text_of(EVERYTHING, "stop.ps1")))
    assert marked - ended == {"watching", "old-file-stats", "events-ended", "snapshots-full"}, (
        "marks that say something and start nothing"
    )
    assert ended <= marked


def test_each_part_is_marked_before_it_is_started():
    start = text_of(EVERYTHING, "start.ps1")
    for mark, action in (
        ("kernel", "'start', $KernelLogger"),
        ("storport", "'start', $StorPortSession"),
        ("counters", "'create', 'counter'"),
        ("sql", "'create-session.sql'"),
        ("wpr", "'-start'"),
    ):
        assert 0 < start.index(f"Set-Mark '{mark}'") < start.index(action)


def test_checks_come_before_anything_is_created():
    body = text_of(EVERYTHING, "start.ps1").split("\nAssert-Elevated\n")[1]
    steps = (
        "Assert-NothingOfThisNameExists Assert-Room Open-Sql Get-SqlServer New-CaptureFolder Register-WatchTask "
        "Start-CounterPart BaselineSeconds Start-SqlPart Start-KernelPart Start-Watch"
    )
    body = body.replace("AddSeconds($Iotrace.BaselineSeconds)", "")
    positions = [body.index(step) for step in steps.split()]
    assert positions == sorted(positions)


@pytest.mark.parametrize("path", ["start.ps1", "stop.ps1", "collect.ps1", "uninstall.ps1"])
def test_administrators_only(path):
    text = text_of(EVERYTHING, path)
    assert "\nAssert-Elevated\n" in text
    assert "#Requires -Version 4.0" in text


def test_only_its_own_folder_is_deleted_from():
    removals = [
        command.text.decode()
        for path in SCRIPTS
        for command in nodes(tree(path), "command")
        if command.text.startswith((b"Remove-Item", b"Remove-Tree"))
    ]
    assert len(removals) == 8
    for removal in removals:
        assert re.fullmatch(
            r"Remove-Item -LiteralPath (\$file|\$list)|Remove-Tree (\$folder|\$FactsFolder|\$Iotrace\.Folder)",
            removal,
        )
    uninstall = text_of(EVERYTHING, "uninstall.ps1")
    assert uninstall.index("Test-Path -LiteralPath $OwnerFile") < uninstall.index(
        "Remove-Tree $Iotrace.Folder"
    )


def test_nothing_newer_than_powershell_4_and_nothing_evaluated():
    newer = r"::new\(|\bclass \w|\benum \w|\?\?|\?\.|&&|\|\||Invoke-Expression|Invoke-WebRequest|DownloadString|-AsJob"
    assert not re.findall(newer, all_text())
    assert not re.findall(r"-EncodedCommand|-WindowStyle Hidden|ExecutionPolicy Bypass", all_text())


def test_the_session_is_bounded_and_its_clock_is_the_performance_counter():
    start = text_of(EVERYTHING, "start.ps1")
    for session in ("$KernelLogger", "$StorPortSession"):
        command = re.search(rf"'start', {re.escape(session)}(.*?)\)\)\n", start, re.DOTALL)[1]
        for option in (
            "'-ct', 'perf'",
            "'-mode', 'Circular'",
            "'-f', 'bincirc'",
            "'-max'",
            "'-bs', '1024'",
            "'-nb'",
        ):
            assert option in command
    assert "'-rf', $Iotrace.RunFor" in start


@pytest.mark.parametrize("pointer", [4, 8])
def test_losses_are_read_where_the_header_of_a_trace_has_them(pointer):
    """The offsets in common.ps1, applied to a log with planted losses."""
    data = etl_build.log([], pointer=pointer, events_lost=70_001, buffers_lost=90_002, end=0)

    def value_at(offset: int, count: int = 4) -> int:
        return int.from_bytes(data[offset : offset + count], "little")

    text = text_of(EVERYTHING, "common.ps1")
    offsets = {name: int(offset) for name, offset in re.findall(r"(\w+) = .*?\$bytes, (\d+)", text)}
    assert value_at(offsets["pointerBytes"]) == pointer
    assert value_at(offsets["EventsLost"]) == 70_001
    assert "BuffersLost = [BitConverter]::ToUInt32($bytes, 364 + 2 * $pointerBytes)" in text
    assert value_at(364 + 2 * pointer) == 90_002
    assert "IsClosed = ([BitConverter]::ToInt64($bytes, 120) -ne 0)" in text
    assert value_at(120, 8) == 0
    assert value_at(120, 8) != int.from_bytes(etl_build.log([], pointer=pointer)[120:128], "little")


LOGMAN_QUERY = """
Name:                 NT Kernel Logger
Status:               Running
Output Location:      {}
Circular:             On
"""


@pytest.mark.parametrize("code_page", ["cp437", "cp850", "cp1252", "cp932"])
@pytest.mark.parametrize("folder", ["D:\\iotrace", "D:\\Überwachung (a+b)\\Platte ß", HOSTILE_FOLDER])
def test_its_own_kernel_session_is_known_whatever_letters_logman_has(folder, code_page):
    """The pattern of common.ps1, applied to words as they come through a code page: unknown letters are lost."""
    text = text_of(EVERYTHING, "common.ps1")
    found = re.search(
        r"Replace\(\[regex\]::Escape\(\(\$KernelFile -replace '(.*?)', ''\)\), '(.*?)', '(.*?)'\)\n"
        r".*IsMatch\(\(\$words -replace '(.*?)', ''\), \$pattern, 'IgnoreCase, CultureInvariant'\)",
        text,
    )
    blanks, foreign, anything, blanks_of_words = found.groups()
    file = folder + "\\kernel.etl"
    pattern = re.sub(foreign, anything, re.escape(re.sub(blanks, "", file)))

    def is_own(path: str) -> bool:
        shown = LOGMAN_QUERY.format(path).encode(code_page, "replace").decode(code_page)
        return bool(re.search(pattern, re.sub(blanks_of_words, "", shown), re.IGNORECASE))

    assert is_own(file)
    assert is_own(file.upper().replace("SS", "ß"))
    assert is_own(file[:12] + "\r\n" + file[12:])
    assert not is_own("C:\\PerfLogs\\kernel.etl")
    assert not is_own(file.replace("kernel", "other"))


def test_what_start_refuses_collect_clears():
    """Of what start.ps1 makes in its folder, collect.ps1 leaves only what start.ps1 then takes for its own."""
    start, collect = text_of(EVERYTHING, "start.ps1"), text_of(EVERYTHING, "collect.ps1")
    (allowed,) = re.findall(r"\$_\.Name -ne '([\w.-]+)' -and \$_\.Name -ne 'log.txt' -and", start)
    assert allowed == "iotrace-capture.txt"
    # Each advice for a folder that is not empty names the script that empties it.
    assert "holds $($other[0].Name). Run collect.ps1" in start
    assert "Run collect.ps1, then start.ps1 -Foreground" in start
    made = {"$FactsFolder", "$StateFolder", "$SqlFolder", "scripts", "counters.txt"}
    assert made == set(
        re.findall(r"\$(?:Facts|State|Sql)Folder|(?<=Join-Path \$Iotrace\.Folder ')[\w.]+", start)
    )
    taken = set(re.findall(r"\$(?:Facts|State|Sql)Folder|(?<=Join-Path \$Iotrace\.Folder ')[\w.]+", collect))
    assert made <= taken


def test_collecting_again_relies_on_nothing_that_the_first_time_removed():
    collect = text_of(EVERYTHING, "collect.ps1")
    assert collect.index("if (Test-Path -LiteralPath $SqlFolder) {") < collect.index(
        "Get-ChildItem -LiteralPath $SqlFolder"
    )
    body = collect.split("\nAssert-Elevated\n")[1]
    nothing, rest = body.split("} else {", 1)
    assert "CreateDirectory" not in nothing, "a folder of facts alone"
    assert "Move-Item" not in nothing
    # An interrupted run left its facts in the folder that it packed to: never are those deleted.
    assert rest.index("Move-Item -LiteralPath $FactsFolder") < rest.index("$recorded | Move-Item")


def test_a_recorder_that_ended_by_itself_does_not_keep_anything_from_being_collected():
    """WPR's documentation of -stop where nothing is recorded: "There are no trace profiles running", 0xc5583000."""
    stop, common = text_of(EVERYTHING, "stop.ps1"), text_of(EVERYTHING, "common.ps1")
    (status,) = re.findall(r"-notmatch 'status (-\d+):'\) \{ throw \}", stop)
    assert int(status) == 0xC5583000 - (1 << 32)
    # Words of Invoke-Tool.
    assert (
        "throw ('{0} {1}: status {2}: {3}' -f $Program, ($Arguments -join ' '), $status, $output.Trim())"
        in common
    )


def test_whatever_ended_at_its_limit_is_named():
    """A part that stops growing says nothing by itself: collect.ps1 looks at each that has a limit."""
    collect = text_of(EVERYTHING, "collect.ps1")
    limits = set(re.findall(r"^    (\w+LimitMiB) +=", text_of(EVERYTHING, "settings.ps1"), re.MULTILINE))
    assert limits - {"TotalLimitMiB", "SnapshotLimitMiB"} == set(
        re.findall(r"\$Iotrace\.(\w+LimitMiB)", collect)
    )
    assert "Set-Mark 'snapshots-full'" in text_of(EVERYTHING, "watch.ps1")
    assert "Test-Mark 'snapshots-full'" in collect
