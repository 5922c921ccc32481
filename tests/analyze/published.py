"""Load tests that people published: figures of real storage, with what the authors said of them."""

SQLIO_64K_RANDOM_READS = {
    "outstanding": [1, 2, 4, 8, 16, 32, 48, 64, 128, 256, 512],
    "mb_per_s": [11.5, 23, 42.9, 65.9, 109.6, 152.67, 151.21, 149.09, 149.77, 147.71, 151.83],
    "iops": [184, 369, 686, 1054, 1754.2, 2442.7, 2419.4, 2385.45, 2396.33, 2363.38, 2429.4],
    "latency_ms": [4, 4, 5, 7, 8, 12, 19, 26, 52, 107, 210],
}
"""Throughput rises until 32 outstanding, the queue depth set in the HBA; more brings nothing."""

DISKSPD_128K_READS = {
    "threads": [1, 10, 20, 40],
    "mb_per_s": [400, 2300, 3126, 3200],
    "latency_ms": [0.3, 0.5, 0.8, 1.59],
}
"""Two 16 Gb/s ports in a slot with too few lanes: 20 threads approach the knee, 40 are past it."""
