"""The folder from which a task runs scripts with highest rights is an administrator's from its first moment on.

The scripts run on Windows alone; here their text and syntax are held to the order of what they do, and the security
descriptor that they ask for to what it means (MS-DTYP 2.5.1).
"""

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
    body = function(COMMON, "Assert-Locked")
    assert body.index("ReparsePoint") < body.index("GetAccessControl")
    assert "GetOwner($sid)" in body
    assert "GetAccessRules($true, $true, $sid)" in body
    assert "-notcontains $rule.IdentityReference.Value" in body
    assert re.findall(r"\$Trusted = @\((.*)\)", COMMON) == ["'S-1-5-32-544', 'S-1-5-18'"]


def test_nobody_else_may_take_away_a_folder_above():
    body = function(COMMON, "Assert-LockedAbove")
    for right in ("Delete", "DeleteSubdirectoriesAndFiles", "ChangePermissions", "TakeOwnership"):
        assert right in body
    assert "InheritOnly" in body
    assert "ReparsePoint" in body
