"""What links carry, with where each figure comes from. MB are 10^6 bytes; rates are for one direction.

A link is called by a round number of gigabits that it does not carry: of a name's bits an eighth are its bytes "by
name", and encoding, framing and headers take their part of the line rate.
"""

from typing import Final

FIBRE_CHANNEL_MB_PER_S: Final = {4: 400.0, 8: 800.0, 16: 1600.0, 32: 3200.0, 64: 6400.0, 128: 12_800.0}
"""By the speed's name in Gb/s."""
FIBRE_CHANNEL_SOURCE: Final = (
    "Fibre Channel Industry Association, speed map: throughput of both directions halved (16GFC 3,200 MB/s, 32GFC "
    "6,400, 64GFC 12,800, 128GFC as four lanes of 32GFC 25,600). Payload rates: 8b/10b, 64b/66b and 256b/257b encoding "
    "and frame headers are taken off. Frames of 2,048 bytes of data, with start 4, header 24, check sum 4, end 4 and "
    "24 of idles at least (FC-FS), carry 2,048 of 2,108 bytes of 8.5 Gbaud x 8/10, 14.025 x 64/66 and so on: 3.2 % "
    "more than this"
)

ETHERNET_GBIT: Final = (1, 2.5, 5, 10, 25, 40, 50, 100, 200, 400)
ETHERNET_FRAME_BYTES: Final = 38
"""Preamble and start 8, addresses and type 14, check sum 4, gap 12."""
TCP_IP_BYTES: Final = 40
"""IPv4 and TCP headers without options."""
ROCE_BYTES: Final = 44
"""IPv4 20, UDP 8, base transport header 12, check sum 4."""
ETHERNET_SOURCE: Final = (
    "IEEE 802.3: the speed's name is what is left after 8b/10b or 64b/66b encoding; of each frame 38 bytes are "
    "preamble, header, check sum and gap. IPv4 and TCP (RFC 791, 9293) take 40 of the MTU, RoCE v2 44. Headers that "
    "come once per data unit (iSCSI 48 bytes, NVMe/TCP 24) are not counted"
)

PCIE_GT_PER_S: Final = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Transfers (bits) per second and lane, by generation."""
PCIE_ENCODING: Final = {1: 8 / 10, 2: 8 / 10, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 236 / 256}
"""Share that is left for packets: 8b/10b, 128b/130b, and from generation 6 units of 256 bytes that hold 236."""
PCIE_LANES: Final = (1, 2, 4, 8, 16, 32)
PCIE_PACKET_BYTES: Final = {1: 24, 2: 24, 3: 24, 4: 24, 5: 24, 6: 16}
"""Around the data of one packet: header with 64-bit address 16, link check sum 4, sequence and framing 4."""
PCIE_PAYLOAD_BYTES: Final = 256
"""Data of one packet, as most chipsets allow."""
PCIE_SOURCE: Final = (
    "PCI Express Base Specification: 2.5, 5, 8, 16, 32, 64 GT/s a lane; 8b/10b up to generation 2, 128b/130b up to 5, "
    "236 of 256 bytes of a unit in 6. Packets of 256 bytes of data carry 24 bytes more (16 in generation 6). Flow "
    "control and acknowledgements, a few percent, are not counted"
)

SAS_MB_PER_S: Final = {3: 300.0, 6: 600.0, 12: 1200.0, 22.5: 2400.0}
"""By the name in Gb/s, per lane."""
SAS_SOURCE: Final = (
    "INCITS T10, Serial Attached SCSI: 8b/10b up to 12 Gb/s, 128b/150b and 2,400 MB/s at 22.5 Gb/s"
)

LITTLE_SOURCE: Final = "Little (1961): I/Os in flight = IOPS x latency, so IOPS = queue depth / latency"


def pcie_mb_per_s(generation: int, lanes: int, payload_bytes: int) -> float:
    """Data that a slot carries one way, packet headers taken off."""
    packets = PCIE_GT_PER_S[generation] * 1e9 / 8 / 1e6 * PCIE_ENCODING[generation] * lanes
    return packets * payload_bytes / (payload_bytes + PCIE_PACKET_BYTES[generation])


def pcie_by_name_mb_per_s(generation: int, lanes: int) -> float:
    """What is usually quoted for a slot: the encoding taken off, headers not (3.0 x4: 3,938 MB/s)."""
    encoding = PCIE_ENCODING[generation] if generation < 6 else 1.0
    return PCIE_GT_PER_S[generation] * 1e9 / 8 / 1e6 * encoding * lanes


def ethernet_mb_per_s(gbit: float, mtu_bytes: int, header_bytes: int) -> float:
    """Data that a port carries one way inside full frames."""
    return gbit * 1e9 / 8 / 1e6 * (mtu_bytes - header_bytes) / (mtu_bytes + ETHERNET_FRAME_BYTES)
