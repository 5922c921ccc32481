"""What queueing theory knows exactly (Kleinrock 1975), against the simulator: within 1 %."""

import math

import numpy as np
import pytest

from iotrace.replay.virtual.compiled import compiled
from iotrace.schemas.models import model_named, parse_model

from .simulating import MS, SECOND, bucket, disk, gate, law, poisson, simulate, spec

COUNT = 3_000_000
WITHIN = 0.01


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_one_server_of_constant_time(load):
    """M/D/1: mean wait is load x service / 2 (1 - load)."""
    figures = simulate(spec([disk(MS)]), poisson(load * 1000, COUNT))
    expected = MS * (1 + load / (2 * (1 - load)))
    assert figures["response"]["mean_ns"] == pytest.approx(expected, rel=WITHIN)


def test_one_server_of_exponential_time():
    """M/M/1: response is exponential with rate (1 - load) / service, at every quantile."""
    load = 0.6
    figures = simulate(spec([disk(MS, "exponential")]), poisson(load * 1000, COUNT))
    mean = MS / (1 - load)
    assert figures["response"]["mean_ns"] == pytest.approx(mean, rel=WITHIN)
    for name, share in (("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99)):
        assert figures["response"][name] == pytest.approx(-mean * math.log(1 - share), rel=WITHIN)


@pytest.mark.parametrize("servers", [2, 8])
def test_several_servers(servers):
    """M/M/c: mean wait is Erlang's C x service / c (1 - load)."""
    load = 0.7
    offered = load * servers
    tail = offered**servers / math.factorial(servers) / (1 - load)
    waits = tail / (sum(offered**k / math.factorial(k) for k in range(servers)) + tail)
    figures = simulate(
        spec([disk(MS, "exponential", servers=servers)]), poisson(load * servers * 1000, COUNT)
    )
    expected = MS * (1 + waits / (servers * (1 - load)))
    assert figures["response"]["mean_ns"] == pytest.approx(expected, rel=WITHIN)


def test_no_queue():
    """M/M/infinity: response is service, and the number in flight Poisson's."""
    figures = simulate(spec([disk(MS, "exponential", servers=0)]), poisson(5000, COUNT))
    assert figures["response"]["mean_ns"] == pytest.approx(MS, rel=WITHIN)
    assert figures["disks"][0]["busy_ns"] / figures["last_completed_ns"] == pytest.approx(5.0, rel=WITHIN)


def mean_values(sessions: int, think: float, service: float) -> tuple[float, float]:
    """Throughput and response of sessions that think, before one server (Reiser and Lavenberg 1980)."""
    queue = response = rate = 0.0
    for number in range(1, sessions + 1):
        response = service * (1 + queue)
        rate = number / (think + response)
        queue = rate * response
    return rate, response


@pytest.mark.parametrize(("sessions", "think_ms"), [(1, 4), (8, 4), (8, 20)])
def test_sessions_that_think(sessions, think_ms):
    """A closed network of one server and thinking: mean value analysis, with more rows than are looked ahead at."""
    count = 1_500_000
    after = np.where(np.arange(count) < sessions, 0, sessions)
    think = np.random.default_rng(5).exponential(think_ms * MS, count).astype(np.int64)
    figures = simulate(
        spec([disk(MS, "exponential")]), np.zeros(count, np.int64), after=after, think_ns=think
    )
    rate, response = mean_values(sessions, think_ms * MS, MS)
    assert figures["completed"] == count
    assert figures["response"]["mean_ns"] == pytest.approx(response, rel=WITHIN)
    assert count / figures["last_completed_ns"] == pytest.approx(rate, rel=WITHIN)
    assert figures["lateness"]["max_ns"] == 0


def test_the_mean_of_a_lognormal_time_is_the_mean():
    """And one server of it is M/G/1 (Pollaczek and Khinchine)."""
    load, cv = 0.5, 0.8
    one = disk(MS) | {"read": law(MS, "lognormal", cv=cv)}
    figures = simulate(spec([one]), poisson(load * 1000, COUNT))
    assert figures["service"]["mean_ns"] == pytest.approx(
        MS * (1 + load * (1 + cv**2) / (2 * (1 - load))), rel=WITHIN
    )


def test_random_io_over_stripes_is_as_many_queues():
    """Each of four disks gets a fourth of a Poisson stream, which is one too."""
    places = np.random.default_rng(3).integers(0, 1 << 20, COUNT) * 65536
    figures = simulate(spec([disk(MS)] * 4), poisson(2000, COUNT), size=65536, offset=places)
    assert figures["response"]["mean_ns"] == pytest.approx(MS * (1 + 0.5 / (2 * 0.5)), rel=WITHIN)
    shares = [one["busy_ns"] for one in figures["disks"]]
    assert max(shares) == pytest.approx(min(shares), rel=WITHIN)


def test_io_over_all_stripes_waits_for_all():
    """Four equal parts queue alike: as one disk with all of the load."""
    figures = simulate(spec([disk(MS)] * 4), poisson(600, COUNT), size=4 * 65536)
    assert figures["response"]["mean_ns"] == pytest.approx(MS * (1 + 0.6 / (2 * 0.4)), rel=WITHIN)


def test_parts_of_a_large_transfer_lie_where_striping_puts_them():
    """256 KiB from 32 KiB on, over three disks in stripes of 64 KiB: transfer times tell the parts' sizes."""
    per_byte = disk(0.0, servers=0)
    per_byte["read"] = {"shape": {"constant": {"ns": 0.0}}, "ns_per_byte": 1.0}
    figures = simulate(spec([per_byte] * 3), [0], size=256 << 10, offset=32 << 10)
    parts = [one["busy_ns"] >> 10 for one in figures["disks"]]
    # Disk 0 has 32 K of stripe 0 and all of stripe 3; 1 has stripe 1 and half of stripe 4; 2 has stripe 2.
    assert parts == [96, 96, 64]
    assert figures["response"]["max_ns"] == 96 << 10


@pytest.mark.parametrize("capacity", [1, 100])
def test_a_token_bucket_lets_a_burst_go_and_then_one_a_period(capacity):
    """GCRA: of I/Os that come at once the first ``capacity`` go, the n-th goes (n - capacity) periods later."""
    _, ends = simulate(
        spec([disk(0.0, servers=0)], [gate(bucket(1000, capacity))]), np.zeros(1000), keep=True
    )
    n = np.arange(1, 1001)
    assert np.abs(ends - np.maximum(0, (n - capacity) * MS)).max() <= 1


def test_a_token_bucket_against_its_definition():
    """Tokens counted at each arrival of a random stream, I/Os of several units each."""
    rate, capacity, unit = 500.0, 20.0, 65536
    at = poisson(400, 20_000)
    size = np.random.default_rng(5).integers(1, 4, len(at)) * unit
    text = spec([disk(0.0, servers=0)], [gate(bucket(rate, capacity, unit_bytes=unit))])
    _, ends = simulate(text, at, size=size, keep=True)
    tokens, last = capacity, 0.0
    for arrival, cost, end in zip(at.tolist(), (size // unit).tolist(), ends.tolist(), strict=True):
        now = max(arrival, last)
        tokens = min(capacity, tokens + (now - last) * rate / SECOND)
        if tokens < cost:
            now += (cost - tokens) * SECOND / rate
            tokens = cost
        tokens -= cost
        last = now
        assert end == pytest.approx(now, abs=2)


def test_bytes_and_ios_are_waited_for_together():
    """1,000 IOPS and 16 MB/s: of 8 KiB I/Os the first binds, of 64 KiB the second."""
    both = gate(bucket(1000, 1), bucket(16e6, 65536, counted="bytes"))
    at = np.zeros(2001)
    for size, rate in ((8192, 1000), (65536, 16e6 / 65536)):
        figures = simulate(spec([disk(0.0, servers=0)], [both]), at, size=size)
        assert 2000 / (figures["last_completed_ns"] / SECOND) == pytest.approx(rate, rel=WITHIN)


def test_sequential_small_ios_count_as_one():
    """Merged up to 256 KiB: 32 I/Os of 8 KiB that follow on one another are one."""
    text = spec([disk(0.0, servers=0)], [gate(bucket(100, 1, merge_bytes=256 << 10))])
    figures = simulate(text, np.zeros(3200), offset=np.arange(3200) * 8192)
    assert figures["last_completed_ns"] == pytest.approx(99 * SECOND / 100, abs=2)


def test_writes_stop_at_a_full_cache():
    """100 MB/s into 50 MB that drain at 60 MB/s: full after 1.25 s, from then on at the drain's rate."""
    cache = {"bytes": 50e6, "drain_bytes_per_s": 60e6, "write": law(0.0), "flush_drains": True}
    one = disk(0.0, servers=0, cache=cache)
    at = np.arange(4000) * MS
    _, ends = simulate(spec([one]), at, op=1, size=100_000, keep=True)
    late = np.flatnonzero(ends > at + 1000)
    assert at[late[0]] == pytest.approx(1.25 * SECOND, abs=2 * MS)
    assert ends[-1] == pytest.approx((4000 * 1e5 - 50e6) / 60e6 * SECOND, rel=1e-3)


def test_a_disk_stands_still_when_told():
    """Every second for 100 ms: what comes then waits for the end of it."""
    one = disk(MS, servers=0, stall={"every_ns": SECOND, "for_ns": 100 * MS})
    at = np.arange(0, 10 * SECOND, 3 * MS)
    _, ends = simulate(spec([one]), at, keep=True)
    within = at % (1100 * MS)
    stalled = within >= SECOND
    assert (ends[stalled] - at[stalled] == 1100 * MS - within[stalled] + MS).all()
    clear = within < SECOND - MS
    assert (ends[clear] - at[clear] == MS).all()


def test_a_cap_in_flight_issues_on_completions():
    """A closed loop of eight on one server: an I/O is issued when one completes, none is lost."""
    figures = simulate(spec([disk(MS)]), np.zeros(1000), in_flight_max=8)
    assert figures["disks"][0]["in_flight_max"] == 8
    assert figures["service"]["p50_ns"] == pytest.approx(8 * MS, rel=0.002)
    assert figures["last_completed_ns"] == 1000 * MS


def test_measured_times_come_back():
    """A table of quantiles at two numbers in flight is drawn from as it is."""
    shares = [0.0, 0.5, 0.9, 1.0]
    table = {
        "shares": shares,
        "sizes_bytes": [8192.0],
        "in_flight": [1.0, 16.0],
        "ns": [[[1e5, 2e5, 4e5, 8e5], [1e6, 2e6, 4e6, 8e6]]],
    }
    one = disk(0.0, servers=0) | {"read": {"shape": {"table": table}}}
    alone = simulate(spec([one]), np.arange(400_000) * 10 * MS)
    assert alone["response"]["p50_ns"] == pytest.approx(2e5, rel=WITHIN)
    assert alone["response"]["p90_ns"] == pytest.approx(4e5, rel=WITHIN)


@pytest.mark.parametrize(("demand", "seconds"), [(2000, 600), (3500, 900)])
def test_credits_run_out_when_they_must(demand, seconds):
    """Planted: 1,000 IOPS, bursts to 3,000, 500,000 credits. Throttled from when they are gone, to one slice."""
    base, burst, full, slice_s = 1000.0, 3000.0, 500_000.0, 0.1
    credit = gate(bucket(base, full + base * slice_s), bucket(burst, burst * slice_s))
    at = np.arange(demand * seconds) * (SECOND / demand)
    figures = simulate(spec([disk(0.0, servers=0)], [credit]), at)
    served = min(demand, burst)
    gone_at = full / (served - base)
    total = (demand * seconds - full) / base
    of_base = figures["gates"][0]["buckets"][0]["throttled_ns"] / SECOND
    assert of_base == pytest.approx(total - gone_at, abs=2 * slice_s)
    if demand > burst:
        # From when a slice's worth of the burst rate has gone ahead.
        waits = total - burst * slice_s / (demand - burst)
        assert figures["gates"][0]["throttled_ns"] / SECOND == pytest.approx(waits, abs=2 * slice_s)


def test_credits_come_back_at_the_base_rate():
    """Idle for 100 s at 1,000 a second: 100,000 more, and no more than there is room for."""
    credit = gate(bucket(1000, 400_000, start=0), bucket(3000, 300))
    at = np.full(150_001, 100 * SECOND)
    figures = simulate(spec([disk(0.0, servers=0)], [credit]), at)
    # 100,000 at 3,000 a second, while 1,000 come back each second; the rest at 1,000.
    assert figures["last_completed_ns"] / SECOND == pytest.approx(150.0, abs=0.2)
    assert figures["gates"][0]["buckets"][0]["tokens_least"] == pytest.approx(0, abs=1)


@pytest.mark.parametrize("counted", ["ios", "bytes"])
def test_slices_keep_the_rate_and_come_in_lumps(counted):
    """What waits goes in lumps of a slice, and in the long run at the rate."""
    rate = 1000 if counted == "ios" else 8192e3
    slices = {"counted": counted, "rate_per_s": rate, "slice_ns": 100 * MS, "tick_ns": 4 * MS}
    text = spec([disk(0.0, servers=0)], [{"reads": True, "writes": True, "slices": slices}])
    at = np.arange(20_000) * (SECOND // 2000)
    _, ends = simulate(text, at, keep=True)
    assert ends[-1] / SECOND == pytest.approx(20.0, rel=WITHIN)
    queued = np.unique(ends[ends > at + MS])
    assert np.diff(queued).min() >= 50 * MS


def test_a_spindle_turns_and_seeks():
    """The textbook's 15k: 3.3 ms and half a turn of 4 ms for a random I/O, only transfer for what goes on."""
    text = compiled(model_named("model:textbook/15k")).json()
    places = np.random.default_rng(2).integers(0, 1 << 25, 200_000) * 8192
    at = np.arange(len(places)) * 20 * MS
    transfer = 8192 / 122e6 * SECOND
    random = simulate(text, at, offset=places)
    assert random["response"]["mean_ns"] == pytest.approx(5.3 * MS + transfer, rel=WITHIN)
    following = simulate(text, at, offset=np.arange(len(places)) * 8192)
    assert following["response"]["p50_ns"] == pytest.approx(transfer, rel=WITHIN)


def test_writes_are_fast_until_the_slc_is_used_up_and_idle_time_gives_it_back():
    """100 of 1 MiB: writes in turn take 1 ms a hundred times, then 5 ms; 10 s idle at 5 MiB/s free 50 more."""
    slc = {"bytes": 100 << 20, "free_bytes_per_s": 5 << 20, "write": law(1 * MS)}
    text = spec([disk(5.0 * MS, servers=1, slc=slc)])
    at = np.concatenate([np.zeros(150, np.int64), np.full(80, int(10.35 * SECOND))])
    _, ends = simulate(text, at, op=1, size=1 << 20, keep=True)
    took = np.diff(np.sort(ends[:150]), prepend=0)
    assert took.tolist() == [1 * MS] * 100 + [5 * MS] * 50
    # The last one ended at 0.35 s: idle for exactly ten.
    took = np.diff(np.sort(ends[150:]), prepend=int(10.35 * SECOND))
    assert took.tolist() == [1 * MS] * 50 + [5 * MS] * 30


def test_a_limit_of_a_set_holds_all_its_disks_together():
    """Four disks of any speed behind one limit of 1,000 a second."""
    model = parse_model(
        "[[disk]]\ncount = 4\n[[disk.limit]]\niops = 900\n[[disk.set_limit]]\niops = 1000\ndepth_ms = 1\n",
        "m",
    )
    at = np.zeros(5_001, np.int64)
    figures = simulate(compiled(model).json(), at, offset=np.arange(5_001) * 65536)
    assert figures["last_completed_ns"] / SECOND == pytest.approx(5.0, rel=WITHIN)
