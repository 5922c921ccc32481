"""Where each recording of a report comes from."""

from datetime import UTC, datetime
from typing import Any

from iotrace.schemas import Recording

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
    host = manifest.host.get("name") or manifest.host.get("hostname") or ""
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
        _settings(manifest.replay or {}),
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


def _settings(replay: dict[str, Any]) -> str:
    """The settings that decide what a replay's figures mean, in words."""
    parts = [f"{name} {replay[name]}" for name in _SETTINGS if replay.get(name) not in (None, "", {})]
    if replay.get("source_uuid"):
        parts.append(f"of {replay['source_uuid']}")
    return ", ".join(parts)
