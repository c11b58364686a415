"""Clusters of blocks: how many a device holds at once, and how they divide a batch."""

from __future__ import annotations

#: Blocks of the clusters that divide a batch among them.
CLUSTERS = (1, 2, 4, 8, 16)

#: Multiprocessors of an H100's or H200's graphics cluster, which holds whole clusters only: 18 at most.
NEIGHBOURS = 18


def shares(batch: int, cluster: int, blocks: int) -> list[int]:
    """Possible numbers of samples of each cluster, with which all clusters fit the chip at once."""
    present = clusters_of(cluster, blocks)
    least = -(-batch // present) if present else 0
    sizes = {least, *(-(-least // 4) * 4 << more for more in range(5))} if present else set()
    return sorted(rows for rows in sizes if rows <= max(batch, 4))


def clusters_of(cluster: int, blocks: int) -> int:
    """Number of clusters of `cluster` blocks that fit the chip at once, one block for each multiprocessor."""
    if cluster > 1 and blocks > NEIGHBOURS:
        return min(blocks // cluster, blocks // NEIGHBOURS * (NEIGHBOURS // cluster))
    return blocks // cluster
