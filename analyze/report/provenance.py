"""Where each recording of a report comes from."""

from datetime import UTC, datetime

from iotrace.schemas import Recording
from iotrace.schemas.run import ClosedLoop, Replay

from .facts import Origin

_SETTINGS = ("scale", "mode", "loop", "backend", "layer", "direct", "footprint", "seed")


def origin(recording: Recording) -> Origin:
    """Identity, start, quality, tools and sources, as the manifest has them."""
    manifest = recording.manifest
    seconds, rest_ns = divmod(manifest.clock.start_utc_ns, 1_000_000_000)
    try:
        at = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        at = "unknown"
    host = manifest.host.name or ""
    return Origin(
        recording.name,
        manifest.uuid,
        manifest.kind,
        manifest.title or recording.name,
        f"{at}.{rest_ns // 1_000_000:03} UTC" if at != "unknown" else at,
        manifest.duration_ns,
        str(host),
        manifest.quality.words,
        list(manifest.quality.reasons),
        _settings(manifest.replay),
        dict(manifest.tools),
        [
            {
                "name": source.name,
                "kind": source.kind,
                "bytes": source.bytes,
                "sha256": source.sha256,
                "events": source.events,
            }
            for source in manifest.sources
        ],
    )


def _settings(run: Replay | ClosedLoop | None) -> str:
    """The settings that decide what a replay's figures mean, in words."""
    parts = [
        f"{name} {value}" for name in _SETTINGS if (value := getattr(run, name, None)) not in (None, "open")
    ]
    if isinstance(run, Replay) and run.source_uuid:
        parts.append(f"of {run.source_uuid}")
    return ", ".join(parts)
