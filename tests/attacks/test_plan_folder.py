"""The folder from which a task runs scripts with highest rights is an administrator's from its first moment on.

The scripts run on Windows alone; here their text and syntax are held to the order of what they do, and the security
descriptor that they ask for to what it means (MS-DTYP 2.5.1).
"""

import hashlib
import re

import pytest
import tree_sitter_powershell
from tree_sitter import Language, Parser

from iotrace.capture.plan.options import PlanOptions
from iotrace.capture.plan.writing import make_plan

FILES = make_plan(PlanOptions(), "iotrace_0a1b2c").files


def text_of(name):
    return FILES[name].decode("utf-8-sig").replace("\r\n", "\n")


START, COMMON = text_of("start.ps1"), text_of("common.ps1")


def function(text, name):
    (body,) = re.findall(rf"^function {name} \{{\n(.*?)^\}}", text, re.DOTALL | re.MULTILINE)
    return "\n".join(line for line in body.split("\n") if not line.strip().startswith("#"))


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".ps1")])
def test_the_scripts_parse(name):
    parser = Parser(Language(tree_sitter_powershell.language()))
    assert not parser.parse(text_of(name).encode()).root_node.has_error


def test_the_folder_has_its_final_rights_when_it_is_made():
    created = re.findall(r"CreateDirectory\((.*)\)$", function(START, "New-CaptureFolder"), re.MULTILINE)
    assert created[0] == "$Iotrace.Folder, (New-FolderSecurity)"
    assert "$scripts, (New-FolderSecurity)" in created
    # Nothing gives rights afterwards, which left a moment between the two; the service of SQL Server gets its own.
    rights = [line for line in START.split("\n") if "$Icacls" in line]
    assert len(rights) == 1
    assert "'/grant', \"NT SERVICE" in rights[0]


def test_those_rights_are_the_administrators_and_the_system_s_alone():
    (descriptor,) = re.findall(r"SddlForm\('(.*)'\)", COMMON)
    owner, group, flags, entries = re.fullmatch(r"O:(\w\w)G:(\w\w)D:(\w*)((?:\(.*\))+)", descriptor).groups()
    assert (owner, group) == ("BA", "BA")
    assert flags == "P"  # nothing is inherited from the folder above
    assert {tuple(entry.split(";")) for entry in re.findall(r"\((.*?)\)", entries)} == {
        ("A", "OICI", "FA", "", "", "BA"), ("A", "OICI", "FA", "", "", "SY"),
    }  # fmt: skip


def test_what_was_made_is_looked_at_before_anything_is_written_to_it():
    body = function(START, "New-CaptureFolder")
    made = body.index("CreateDirectory($Iotrace.Folder")
    checked = body.index("Assert-Locked $Iotrace.Folder")
    above = body.index("Assert-LockedAbove $Iotrace.Folder")
    assert made < checked < above < body.index("WriteAllText")
    assert body.index("Copy-Item") < body.index("Assert-LockedScripts")


def test_a_folder_that_exists_is_taken_only_if_it_is_locked():
    body = function(START, "Assert-NothingOfThisNameExists")
    assert body.index("Assert-Locked $Iotrace.Folder") < body.index("Get-ChildItem")
    assert 'throw "$scripts exists' in function(START, "New-CaptureFolder")


def test_the_task_runs_only_what_was_looked_at():
    assert function(START, "Start-Watch").index("Assert-LockedScripts") < function(
        START, "Start-Watch"
    ).index("Start-ScheduledTask")
    main = START[START.index("\nNew-CaptureFolder\n") :]
    assert main.index("New-CaptureFolder") < main.index("Register-WatchTask")
    scripts = function(START, "Assert-LockedScripts")
    assert "-Recurse -Force" in scripts
    assert "Assert-Locked $item.FullName" in scripts


def test_owner_rights_and_links_are_looked_at():
    owned = function(COMMON, "Get-OwnSecurity")
    assert owned.index("throw") < owned.index("GetAccessControl")
    assert owned.index("Test-Link $Path") < owned.index("GetAccessControl")
    assert (
        owned.index("GetOwner(")
        < owned.index("$Trusted -notcontains $owner")
        < owned.index("return $security")
    )
    assert "[IO.FileAttributes]::ReparsePoint" in function(COMMON, "Test-Link")
    body = function(COMMON, "Assert-Locked")
    assert "Get-OwnSecurity $Path" in body
    assert "GetAccessRules($true, $true, $sid)" in body
    assert "-notcontains $rule.IdentityReference.Value" in body
    assert re.findall(r"\$Trusted = @\((.*)\)", COMMON) == ["'S-1-5-32-544', 'S-1-5-18'"]


@pytest.mark.parametrize("name", ["stop", "collect", "uninstall"])
def test_nothing_is_done_with_a_folder_that_somebody_else_made(name):
    """Not even read: what it holds says what is stopped, written and deleted."""
    lines = [line.strip() for line in text_of(f"{name}.ps1").split("\n")]
    main = lines[lines.index("Assert-Elevated") :]
    assert main[1] == "Assert-OwnFolder"
    body = function(COMMON, "Assert-OwnFolder")
    asked = body.index("Get-OwnSecurity $Iotrace.Folder")
    assert asked < body.index("Assert-LockedAbove $Iotrace.Folder")
    # An administrator who let himself in by Explorer has a right on it, and must be able to stop what records.
    assert "GetAccessRules" not in body + function(COMMON, "Get-OwnSecurity")


def test_nobody_else_may_take_away_a_folder_above():
    body = function(COMMON, "Assert-LockedAbove")
    for right in ("Delete", "DeleteSubdirectoriesAndFiles", "ChangePermissions", "TakeOwnership"):
        assert right in body
    assert "InheritOnly" in body
    assert "ReparsePoint" in body


def test_nobody_else_owns_a_folder_above_and_so_may_give_himself_any_right():
    body = function(COMMON, "Assert-LockedAbove")
    each = body[body.index("while (") :]
    owner = each.index("$owner = $security.GetOwner($sid).Value")
    assert owner < each.index("if ($MayOwnAbove -notcontains $owner)") < each.index("GetAccessRules")
    (owners,) = re.findall(r"^\$MayOwnAbove = \$Trusted \+ @\('(.*)'\)$", COMMON, re.MULTILINE)
    assert owners == "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"
    assert "icacls" in each[owner : each.index("GetAccessRules")]


REMOVING = text_of("removing.ps1")


def test_nothing_is_deleted_through_a_link():
    """Windows PowerShell's own recursion follows junctions, which the service of SQL Server may make in its folder."""
    for name in FILES:
        if name.endswith(".ps1"):
            text = text_of(name)
            assert re.findall(r"Remove-Item .*-Recurse", text) == []
            assert re.findall(r"Directory\]::Delete\((?!.*, \$false\))", text) == []
            assert "AllDirectories" not in text
    body = function(REMOVING, "Remove-Tree")
    assert body.index("Test-Link $Path") < body.index("GetFiles($Path)")
    # A link goes as such, and nothing below it is looked at.
    (link,) = re.findall(r"if \(Test-Link \$Path\) \{\n(.*?)\n    \}", body, re.DOTALL)
    assert link.split("\n") == ["        [IO.Directory]::Delete($Path, $false)", "        return"]


def test_a_folder_cannot_become_a_link_while_it_is_emptied():
    """Only an empty one can (FSCTL_SET_REPARSE_POINT: ERROR_DIR_NOT_EMPTY); a file in it is held open meanwhile."""
    body = function(REMOVING, "Remove-Tree")
    held = body.index("[IO.FileMode]::CreateNew, [IO.FileAccess]::Write, [IO.FileShare]::None")
    assert "DeleteOnClose" in body
    again = body.index("if (Test-Link $Path)", held)
    assert (
        held
        < again
        < body.index("GetFiles($Path)")
        < body.index("Remove-Tree $folder")
        < body.index(".Dispose()")
    )
    assert body.index("[IO.Directory]::Delete($Path, $false)", body.index(".Dispose()"))


def test_nothing_is_packed_through_a_link():
    body = function(text_of("collect.ps1"), "Get-Recorded")
    assert body.index("Test-Link $SqlFolder") < body.index("-Filter '*.xel'")
    assert "-not (Test-Link $_.FullName)" in body


RUN = ["start.ps1", "stop.ps1", "collect.ps1", "uninstall.ps1", "watch.ps1"]
CHECK, CHECKED = "# Before anything else of this folder is run", "\n}\n\n. (Join-Path"
RIGHTS = {
    "write": 0x2, "append": 0x4, "write attributes": 0x100, "write extended attributes": 0x10, "delete child": 0x40,
    "delete": 0x10000, "change permissions": 0x40000, "take ownership": 0x80000,
    "generic write": 0x40000000, "generic all": 0x10000000,
}  # fmt: skip
"""MS-DTYP 2.4.3 and WinNT.h."""
READ_AND_EXECUTE = 0x1200A9


def check_of(name):
    """The check of its own folder that a script begins with: its checksums, and the rest."""
    text = text_of(name)
    check = text[text.index(CHECK) : text.index(CHECKED)]
    (table,) = re.findall(r"^\$written = @\{\n(.*?)^\}\n", check, re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^    '(.*)' = '([0-9a-f]{64})'$", table, re.MULTILINE)), check.replace(table, "")


def runs(name):
    """The scripts of the folder that a script runs, and that those run."""
    found = set(re.findall(r"(?:\.|&) \(Join-Path \$PSScriptRoot '([\w-]+\.ps1)'\)", text_of(name)))
    return found.union(*(runs(one) for one in found))


@pytest.mark.parametrize("name", RUN)
def test_a_script_checks_its_own_folder_before_it_runs_anything(name):
    text = text_of(name)
    before = text[: text.index(CHECKED)]
    assert text.index("param(") < text.index(CHECK)
    assert (
        re.findall(r"(?<![\w$.])(?:\. \(|& )|\b(?:Invoke|Get|Set|Start|Assert|Test)-\w+", check_of(name)[1])
        == []
    )
    assert "Join-Path $PSScriptRoot" not in before[: before.index(CHECK)]
    # What cannot be checked is refused: without this PowerShell goes on after an error.
    assert check_of(name)[1].index("$ErrorActionPreference = 'Stop'") < check_of(name)[1].index("$written")


def test_it_is_the_same_check_in_each():
    assert len({check_of(name)[1] for name in RUN}) == 1


def test_no_other_script_is_meant_to_be_run_by_itself():
    assert {name for name in FILES if name.endswith(".ps1") and CHECK in text_of(name)} == set(RUN)


@pytest.mark.parametrize("name", RUN)
def test_a_changed_byte_of_any_file_that_a_script_runs_is_noticed(name):
    told = check_of(name)[0]
    assert told == {path: hashlib.sha256(FILES[path]).hexdigest() for path in told}
    assert runs(name) <= told.keys() - {name} | {"settings.ps1"}
    assert "settings.ps1" in told
    assert {path for path in FILES if path.startswith("sql/")} <= told.keys()


def test_one_checksum_that_a_person_compares_stands_for_the_whole_plan():
    assert set(check_of("start.ps1")[0]) == set(FILES) - {"start.ps1", "README.md", "plan.json"}


def test_nobody_else_may_write_inside_own_it_or_take_it_away():
    check = check_of("start.ps1")[1]
    inside, above, root = (
        int(found, 16)
        for found in re.search(
            r"if \(\$inside -contains \$path\) \{ (\w+) \} .*\{ (\w+) \} else \{ (\w+) \}", check
        ).groups()
    )
    taking = {"delete", "delete child", "change permissions", "take ownership", "generic all"}
    assert inside == sum(RIGHTS.values())
    assert above == sum(RIGHTS[name] for name in taking)
    assert root == above - RIGHTS["delete"]
    assert inside & READ_AND_EXECUTE == 0
    assert "GetOwner($sid).Value" in check
    assert "GetAccessRules($true, $true, $sid)" in check
    assert "ReparsePoint" in check
    assert set(re.findall(r"S-1-[\d-]+", check)) == {
        "S-1-5-32-544", "S-1-5-18", "S-1-3-0",
        "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464",
    }  # fmt: skip


def test_the_refusal_and_the_readme_say_where_to_copy_it():
    assert check_of("stop.ps1")[1].count("so nothing is run. $copying") == 4
    readme = text_of("README.md")
    assert "$folder = Join-Path $env:ProgramFiles 'iotrace_0a1b2c'" in readme
    assert "Get-FileHash .\\start.ps1" in readme
    assert '/inheritance:r /grant "*S-1-5-32-544:(OI)(CI)F" "*S-1-5-18:(OI)(CI)F"' in readme
