"""Every figure of the catalogue has a source and a date, and says what its provider says."""

import datetime as dt
import tomllib
from importlib import resources

import pytest

from iotrace.schemas import IotraceError
from iotrace.schemas.models import catalogue, catalogue_names, model_named
from iotrace.schemas.models.catalogue import find_machine

FIGURES = ("disk", "chosen", "sized", "machine")


def raw(provider: str) -> dict:
    name = f"{provider}.catalogue.toml"
    return tomllib.loads(resources.files("iotrace.schemas.models").joinpath(name).read_text("utf-8"))


def lacking(data: dict) -> list[str]:
    """Entries whose figures have no dated source."""
    dated = set()
    for source in data.get("source", []):
        try:
            dt.date.fromisoformat(source.get("date", ""))
        except ValueError:
            continue
        if source.get("title", "").strip():
            dated.add(source["name"])
    return [
        f"{kind} {entry['name']}"
        for kind in FIGURES
        for entry in data.get(kind, [])
        if entry.get("source") not in dated
    ]


@pytest.mark.parametrize("provider", catalogue_names())
def test_every_figure_has_a_source_and_a_date(provider):
    data = raw(provider)
    assert sum(len(data.get(kind, [])) for kind in FIGURES)
    assert lacking(data) == []
    # Figures stand in no other place than below such an entry.
    assert set(data) <= {"title", "source", *FIGURES}


def test_an_entry_without_source_or_date_is_noticed():
    sound = {
        "source": [{"name": "a", "title": "A", "date": "2026-01-01"}],
        "disk": [{"name": "d", "source": "a"}],
    }
    assert lacking(sound) == []
    assert lacking(sound | {"disk": [{"name": "d"}]}) == ["disk d"]
    assert lacking(sound | {"source": [{"name": "a", "title": "A", "date": "recently"}]}) == ["disk d"]
    assert lacking(sound | {"source": [{"name": "a", "title": " ", "date": "2026-01-01"}]}) == ["disk d"]


@pytest.mark.parametrize("provider", catalogue_names())
def test_everything_in_it_is_a_model(provider):
    held = catalogue(provider)
    names = [disk.name for disk in held.listed()]
    assert len(names) == len(set(names))
    for name in names:
        model = model_named(f"model:{provider}/2x{name}")
        assert model.date
        assert model.source
        assert model.disks[0].count == 2
    for machine in held.machines:
        taken = [disk.name for disk in held.listed() if machine.takes(disk)]
        assert model_named(f"model:{provider}/{taken[0]}+{machine.name}").machine is not None


@pytest.mark.parametrize(
    ("name", "iops", "mb_per_s"),
    [
        ("azure/P30", 5000, 200),
        ("azure/PremiumV2-4000-1000", 4000, 1000),
        ("aws/gp3", 3000, 131.072),
        ("aws/io2-10000", 10_000, 2684.35),
        ("aws/gp2-100", 300, 134.218),
        ("aws/gp2-170", 510, 134.218),
        ("aws/gp2-171", 513, 262.144),
        ("aws/gp2-1000", 3000, 262.144),
        ("google/pd-ssd-500", 15_000, 251.66),
    ],
)
def test_rates_are_the_providers(name, iops, mb_per_s):
    """Worked out by hand from the provider's rules; MiB/s are 1.048576 MB/s."""
    (limit,) = model_named(f"model:{name}").disks[0].limits
    assert (limit.iops, limit.mb_per_s) == (pytest.approx(iops), pytest.approx(mb_per_s, rel=1e-4))


def test_credits_of_gp2_last_as_amazon_says():
    """Their table: 2,700 s at 3,000 IOPS for a volume of 334 GiB with 1,002 IOPS, to the second."""
    (limit,) = model_named("model:aws/gp2-334").disks[0].limits
    assert limit.credit_ios / (limit.burst_iops - limit.iops) == pytest.approx(2703, abs=1)


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("model:azure/P31", "no disk 'P31'"),
        ("model:nowhere/P30", "no catalogue 'nowhere'"),
        ("model:azure/P30+E99", "no machine 'E99'"),
        ("model:azure/PremiumV2-1-125", "cannot be had like that"),
        ("model:P30", "names no model"),
    ],
)
def test_what_is_not_there_is_named(target, word):
    with pytest.raises(IotraceError, match=word):
        model_named(target)


@pytest.mark.parametrize(("mb_per_s", "whole"), [(186, False), (188, True), (2400, True), (2401, False)])
def test_throughput_of_a_hyperdisk_goes_with_its_iops(mb_per_s, whole):
    """48,000 IOPS take 187.5 to 2,400 MiB/s; 3,000 no more than 750."""
    if whole:
        found = model_named(f"model:google/hyperdisk-balanced-48000-{mb_per_s}").disks[0].limits[0].mb_per_s
        assert found == pytest.approx(mb_per_s * 1.048576)
    else:
        with pytest.raises(IotraceError, match="cannot be had"):
            model_named(f"model:google/hyperdisk-balanced-48000-{mb_per_s}")
    names = {disk.name for disk in catalogue("google").candidates()}
    assert {"hyperdisk-balanced-3000-140", "hyperdisk-balanced-3000-750"} <= names


@pytest.mark.parametrize(
    ("name", "iops", "mb_per_s"),
    [
        ("google/n2-8", 15_000, 838.86),
        ("google/c3-22-pd-ssd", 25_000, 838.86),
        ("google/m3-ultramem-128", 80_000, 1258.29),
    ],
)
def test_limits_of_google_s_machines_for_persistent_disk(name, iops, mb_per_s):
    """Their table: 15,000 IOPS and 800 MiB/s from 8 processors of N2 on."""
    (limit,) = find_machine(name, name).limits
    assert (limit.iops, limit.mb_per_s) == (iops, pytest.approx(mb_per_s, rel=1e-3))


def test_host_caching_has_limits_of_its_own():
    """Microsoft's table of Edsv4: 77,000 IOPS and 485 MB/s cached, 12,800 and 192 uncached, for eight processors."""
    limits = find_machine("azure/Standard_E8ds_v4", "E8").limits
    found = {limit.of: (limit.iops, limit.mb_per_s) for limit in limits}
    assert found == {"cached": (77_000, 485), "uncached": (12_800, 192)}


def test_disks_that_their_provider_advises_against_are_listed_and_not_tried():
    """Amazon recommends gp2 in place of st1 for small, random I/O; st1 can be played on all the same."""
    held = catalogue("aws")
    assert [one.name for one in held.left_out()] == ["st1"]
    tried = {disk.name.partition("-")[0] for disk in held.candidates()}
    assert tried == {"gp2", "gp3", "io2"}
    assert {disk.name.partition("-")[0] for disk in held.listed()} == {*tried, "st1"}
    assert model_named("model:aws/st1-2048").disks[0].limits[0].unit_kib == 1024


def test_a_name_says_what_lies_on_which_disk():
    model = model_named("model:azure/4xP30,log=2xP10,tempdb_log=P4+Standard_E8ds_v5")
    assert [(disk.count, disk.roles) for disk in model.disks] == [
        (4, ()),
        (2, ("log",)),
        (1, ("tempdb_log",)),
    ]
    assert model.machine is not None
    assert model.machine.name == "Standard_E8ds_v5"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("azure/P30,redo=P10", "there is no role 'redo'"),
        ("azure/P30,P10", "several disks without roles"),
        ("azure/log=P10", "every disk has roles"),
        ("azure/P30,log=P10,log=P4", "takes the role log"),
        ("azure/P30,,", "names no model"),
        ("google/pd-ssd-500+c4d-8", "c4d-8 does not take pd-ssd-500"),
    ],
)
def test_a_name_that_makes_no_sense_is_refused(name, message):
    with pytest.raises(IotraceError, match=message):
        model_named(f"model:{name}")
